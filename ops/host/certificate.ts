/**
 * A certificate of the node's own: X.509 version 3 (RFC 5280), ECDSA on P-256, signed by itself.
 *
 * Invariants
 * 1. It serves TLS servers and nothing else: it is no authority, so whoever trusts it trusts this node alone.
 * 2. Names and addresses stand in the subject alternative name (RFC 9525); the common name is for people.
 */
import { Effect } from "effect"
import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from "node:crypto"
import { isIP, SocketAddress } from "node:net"

/** ITU-T X.690: tag, length, content. */
const tlv = (tag: number, ...content: ReadonlyArray<Uint8Array>): Buffer => {
  const body = Buffer.concat(content)
  const { length } = body
  const head = length < 0x80 ?
    [tag, length] :
    length < 0x100 ?
    [tag, 0x81, length] :
    [tag, 0x82, length >> 8, length & 0xff]
  return Buffer.concat([Buffer.from(head), body])
}
const sequence = (...parts: ReadonlyArray<Uint8Array>) => tlv(0x30, ...parts)
const octets = (content: Uint8Array) => tlv(0x04, content)
const bits = (content: Uint8Array) => tlv(0x03, Buffer.from([0]), content)
/** Of positive bytes: a leading bit would make it negative. */
const integer = (bytes: Uint8Array) => tlv(0x02, bytes[0]! >= 0x80 ? Buffer.from([0]) : Buffer.alloc(0), bytes)
const identifier = (dotted: string) => {
  const [first = 0, second = 0, ...rest] = dotted.split(".").map(Number)
  const base128 = (value: number): ReadonlyArray<number> => {
    const digits = [value & 0x7f]
    for (let left = value >>> 7; left > 0; left >>>= 7) digits.unshift((left & 0x7f) | 0x80)
    return digits
  }
  return tlv(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]))
}
/** RFC 5280, section 4.1.2.5: two digits of the year until 2049. */
const time = (ms: number) => {
  const text = `${new Date(ms).toISOString().replace(/[-:T]/g, "").slice(0, 14)}Z`
  return text < "2050" ? tlv(0x17, Buffer.from(text.slice(2))) : tlv(0x18, Buffer.from(text))
}

const ecdsaWithSha256 = sequence(identifier("1.2.840.10045.4.3.2"))
const yes = tlv(0x01, Buffer.from([0xff]))
const extension = (id: string, content: Uint8Array, critical = false) =>
  sequence(identifier(id), ...(critical ? [yes] : []), octets(content))

const addressBytes = (address: string): Buffer => {
  if (isIP(address) === 4) return Buffer.from(address.split(".").map(Number))
  // The canonical text still has "::"; spelling it out needs no more than the number of groups.
  const { address: text } = new SocketAddress({ address, family: "ipv6" })
  const [left = "", right] = text.split("::")
  const groups = (part: string) => part === "" ? [] : part.split(":").flatMap(spelled)
  const head = groups(left)
  const tail = right === undefined ? [] : groups(right)
  const zeros = Array.from({ length: 8 - head.length - tail.length }, () => 0)
  return Buffer.from([...head, ...zeros, ...tail].flatMap((group) => [group >> 8, group & 0xff]))
}
/** A group of hexadecimal digits, or the two groups of an IPv4 address at the end. */
const spelled = (group: string): ReadonlyArray<number> => {
  if (!group.includes(".")) return [Number.parseInt(group, 16)]
  const [a = 0, b = 0, c = 0, d = 0] = group.split(".").map(Number)
  return [(a << 8) | b, (c << 8) | d]
}

const extensions = (publicKey: KeyObject, names: ReadonlyArray<string>, addresses: ReadonlyArray<string>) => {
  const keyBits = publicKey.export({ format: "der", type: "spki" }).subarray(-65)
  const keyId = createHash("sha1").update(keyBits).digest()
  const alternatives = [
    ...names.map((name) => tlv(0x82, Buffer.from(name, "latin1"))),
    ...addresses.map((address) => tlv(0x87, addressBytes(address))),
  ]
  return tlv(
    0xa3,
    sequence(
      // No authority.
      extension("2.5.29.19", sequence(), true),
      // digitalSignature
      extension("2.5.29.15", tlv(0x03, Buffer.from([7, 0x80])), true),
      // serverAuth
      extension("2.5.29.37", sequence(identifier("1.3.6.1.5.5.7.3.1"))),
      extension("2.5.29.14", octets(keyId)),
      // Whoever trusts several nodes of one machine, all of its name, finds the right one by this (RFC 5280, section 4.2.1.1).
      extension("2.5.29.35", sequence(tlv(0x80, keyId))),
      extension("2.5.29.17", sequence(...alternatives)),
    ),
  )
}

export interface OwnCertificate {
  readonly commonName: string
  /** DNS names. */
  readonly names: ReadonlyArray<string>
  /** IPv4 and IPv6, without zones. */
  readonly addresses: ReadonlyArray<string>
  /** Epoch milliseconds. */
  readonly notBeforeMs: number
  readonly notAfterMs: number
}

/** PEM both; the key is PKCS #8. */
export interface KeyPairFiles {
  readonly certificate: string
  readonly privateKey: string
}

/** Makes a key and a certificate for it. */
export const makeCertificate = (options: OwnCertificate): Effect.Effect<KeyPairFiles> =>
  Effect.sync(() => {
    const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" })
    const serial = randomBytes(16)
    serial[0] = (serial[0]! & 0x7f) | 0x40
    const commonName = sequence(identifier("2.5.4.3"), tlv(0x0c, Buffer.from(options.commonName.slice(0, 64))))
    const name = sequence(tlv(0x31, commonName))
    const signed = sequence(
      tlv(0xa0, integer(Buffer.from([2]))),
      integer(serial),
      ecdsaWithSha256,
      name,
      sequence(time(options.notBeforeMs), time(options.notAfterMs)),
      name,
      publicKey.export({ format: "der", type: "spki" }),
      extensions(publicKey, options.names, options.addresses),
    )
    const certificate = sequence(signed, ecdsaWithSha256, bits(sign("sha256", signed, privateKey)))
    const lines = certificate.toString("base64").match(/.{1,64}/g)!.join("\n")
    return {
      certificate: `-----BEGIN CERTIFICATE-----\n${lines}\n-----END CERTIFICATE-----\n`,
      privateKey: privateKey.export({ format: "pem", type: "pkcs8" }),
    }
  })

/** What a pair says of itself; throws where it is none, or the key is not that of the certificate. */
export const examineCertificate = (pair: KeyPairFiles) => {
  const certificate = new X509Certificate(pair.certificate)
  if (!certificate.checkPrivateKey(createPrivateKey(pair.privateKey))) {
    throw new Error("the private key is not that of the certificate")
  }
  return {
    /** SHA-256 of the certificate: 32 pairs of hexadecimal digits with colons. */
    fingerprint: certificate.fingerprint256,
    notBeforeMs: certificate.validFromDate.getTime(),
    notAfterMs: certificate.validToDate.getTime(),
    /** Whether it names this address or host (RFC 9525). */
    names: (host: string): boolean =>
      (isIP(host) === 0 ? certificate.checkHost(host) : certificate.checkIP(host)) !== undefined,
  }
}
