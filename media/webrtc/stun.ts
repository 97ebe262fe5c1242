/**
 * STUN as ICE uses it (RFC 8489, RFC 8445 section 7): Binding requests are read, their answers written.
 *
 * Invariants
 * 1. Reading is total: whatever the bytes, they give a request or null, in one pass over at most {@link maxStunBytes}.
 * 2. A request counts only with the MESSAGE-INTEGRITY of our own password; what stands behind it is not read, but for the
 *    FINGERPRINT.
 */
import { createHmac, timingSafeEqual } from "node:crypto"
import { isIPv4 } from "node:net"
import { crc32 } from "node:zlib"

const headerBytes = 20
const cookie = 0x2112_a442
const bindingRequest = 0x0001
const bindingSuccess = 0x0101
const bindingError = 0x0111
const integrityBytes = 20
const fingerprintXor = 0x5354_554e
/** A check has about 120; browsers add a few attributes of their own. */
export const maxStunBytes = 1_280

const attribute = {
  username: 0x0006,
  integrity: 0x0008,
  errorCode: 0x0009,
  mapped: 0x0020,
  useCandidate: 0x0025,
  controlled: 0x8029,
  fingerprint: 0x8028,
} as const

/** Whether a datagram is STUN rather than DTLS, RTP or RTCP (RFC 7983). */
export const isStun = (bytes: Uint8Array): boolean => bytes.length >= headerBytes && bytes[0]! < 4

export interface BindingRequest {
  /** 12 bytes. */
  readonly transaction: Buffer
  /** `<our ufrag>:<their ufrag>`. */
  readonly username: string
  readonly useCandidate: boolean
  /** The other side believes that we choose the path. */
  readonly controlled: boolean
  /** Where MESSAGE-INTEGRITY begins. */
  readonly integrityAt: number
}

/** A Binding request that names a user and carries an integrity to be checked by {@link isAuthentic}; null: anything else. */
export const parseBindingRequest = (bytes: Buffer): BindingRequest | null => {
  const fits = isStun(bytes) && bytes.length <= maxStunBytes && bytes.readUInt16BE(0) === bindingRequest &&
    bytes.readUInt32BE(4) === cookie && bytes.readUInt16BE(2) === bytes.length - headerBytes
  if (!fits) return null
  let username: string | null = null
  let useCandidate = false
  let controlled = false
  let at = headerBytes
  while (at + 4 <= bytes.length) {
    const type = bytes.readUInt16BE(at)
    const length = bytes.readUInt16BE(at + 2)
    const end = at + 4 + length
    if (end > bytes.length) return null
    if (type === attribute.integrity) {
      if (username === null || length !== integrityBytes) return null
      const transaction = Buffer.from(bytes.subarray(8, headerBytes))
      return { transaction, username, useCandidate, controlled, integrityAt: at }
    }
    if (type === attribute.username) username = bytes.toString("utf8", at + 4, Math.min(end, at + 4 + 513))
    else if (type === attribute.useCandidate) useCandidate = true
    else if (type === attribute.controlled) controlled = true
    at = end + (-length & 3)
  }
  return null
}

/** The header counts the bytes up to the end of the attribute in hand (RFC 8489, section 14.5). */
const withLength = (bytes: Buffer, to: number, length: number): Buffer => {
  const head = Buffer.from(bytes.subarray(0, to))
  head.writeUInt16BE(length - headerBytes, 2)
  return head
}

/** Whether the request was made by who knows our password. */
export const isAuthentic = (bytes: Buffer, { integrityAt }: BindingRequest, password: string): boolean => {
  const covered = withLength(bytes, integrityAt, integrityAt + 4 + integrityBytes)
  const expected = createHmac("sha1", password).update(covered).digest()
  return timingSafeEqual(expected, bytes.subarray(integrityAt + 4, integrityAt + 4 + integrityBytes))
}

const ipv6Bytes = (address: string): Buffer => {
  const bytes = Buffer.alloc(16)
  const [plain = ""] = address.split("%")
  const [head = "", tail] = plain.split("::")
  const words = (text: string) => text === "" ? [] : text.split(":").map((word) => Number.parseInt(word, 16) & 0xffff)
  words(head).slice(0, 8).forEach((word, index) => bytes.writeUInt16BE(word, index * 2))
  if (tail !== undefined) {
    const last = words(tail).slice(-8)
    last.forEach((word, index) => bytes.writeUInt16BE(word, 16 - (last.length - index) * 2))
  }
  return bytes
}

const attributeOf = (type: number, value: Buffer): Buffer => {
  const bytes = Buffer.alloc(4 + value.length + (-value.length & 3))
  bytes.writeUInt16BE(type, 0)
  bytes.writeUInt16BE(value.length, 2)
  value.copy(bytes, 4)
  return bytes
}

/** XOR-MAPPED-ADDRESS (RFC 8489, section 14.2). */
const mappedAddress = (address: string, port: number, transaction: Buffer): Buffer => {
  const plain = isIPv4(address) ? Buffer.from(address.split(".").map(Number)) : ipv6Bytes(address)
  const mask = Buffer.alloc(16)
  mask.writeUInt32BE(cookie, 0)
  transaction.copy(mask, 4)
  const value = Buffer.alloc(4 + plain.length)
  value[1] = plain.length === 4 ? 1 : 2
  value.writeUInt16BE(port ^ (cookie >>> 16), 2)
  plain.forEach((byte, index) => value[4 + index] = byte ^ mask[index]!)
  return attributeOf(attribute.mapped, value)
}

/** Adds MESSAGE-INTEGRITY and FINGERPRINT. */
const sealed = (type: number, transaction: Buffer, attributes: Buffer, password: string): Buffer => {
  const header = Buffer.alloc(headerBytes)
  header.writeUInt16BE(type, 0)
  header.writeUInt32BE(cookie, 4)
  transaction.copy(header, 8)
  const open = Buffer.concat([header, attributes])
  const signed = withLength(open, open.length, open.length + 4 + integrityBytes)
  const integrity = attributeOf(attribute.integrity, createHmac("sha1", password).update(signed).digest())
  const nearly = Buffer.concat([open, integrity])
  const counted = withLength(nearly, nearly.length, nearly.length + 8)
  const print = Buffer.alloc(4)
  print.writeUInt32BE((crc32(counted) ^ fingerprintXor) >>> 0)
  return Buffer.concat([counted, attributeOf(attribute.fingerprint, print)])
}

/** The answer to a request from `address:port`. */
export const bindingResponse = ({ transaction }: BindingRequest, address: string, port: number, password: string) =>
  sealed(bindingSuccess, transaction, mappedAddress(address, port, transaction), password)

/** 487: we are a lite agent, the other side chooses (RFC 8445, section 7.3.1.1). */
export const roleConflict = ({ transaction }: BindingRequest, password: string) => {
  const reason = Buffer.concat([Buffer.from([0, 0, 4, 87]), Buffer.from("Role Conflict")])
  return sealed(bindingError, transaction, attributeOf(attribute.errorCode, reason), password)
}
