/**
 * SRTP and SRTCP with AES_CM_128_HMAC_SHA1_80 (RFC 3711), the profile that every WebRTC endpoint has (RFC 8827, section 6.5).
 *
 * Each direction keeps one cipher object for its lifetime: AES in counter mode is AES-ECB over the counters, so the key stream of a
 * packet is one call to the same object. A cipher object a packet costs several times as much.
 *
 * Invariants
 * 1. Who protects numbers packets of an SSRC in rising order, retransmissions apart: these carry the same bytes as before, so that a
 *    key stream is never used for two different texts.
 * 2. Nothing is decrypted before its tag was checked. What is not authentic, too old or came before is null, and nothing throws.
 * 3. At most {@link maxSources} sources of a sender are followed.
 */
import { createCipheriv, createHmac, createSecretKey, timingSafeEqual } from "node:crypto"

export const srtpKeyBytes = 16
export const srtpSaltBytes = 14
export const tagBytes = 10
const rtpHeaderBytes = 12
/** A tag and the index with its flag. */
export const srtcpTailBytes = 4 + tagBytes
/** Audio and video; browsers open others for probing. */
const maxSources = 8
/** Packets that may come late, as many as the bits of the replay window (RFC 3711, section 3.3.2). */
const windowBits = 512

/** Keystream in pieces of at most so many blocks: the largest packet that a datagram holds. */
const maxBlocks = 4_096

const wordsOf = (bytes: Buffer, from: number, to: number): Int32Array =>
  new Int32Array(bytes.buffer, bytes.byteOffset + from, (to - from) >> 2)

/** `bytes[from, to)` by the key, word by word where memory allows it. */
const exclusiveOr = (bytes: Buffer, from: number, to: number, key: Buffer): void => {
  let at = from
  if (((bytes.byteOffset + from) & 3) === 0 && (key.byteOffset & 3) === 0) {
    const words = wordsOf(bytes, from, to)
    const keys = wordsOf(key, 0, words.length * 4)
    for (let i = 0; i < words.length; i++) words[i]! ^= keys[i]!
    at += words.length * 4
  }
  for (; at < to; at++) bytes[at]! ^= key[at - from]!
}

/** AES-128 in counter mode with one cipher object. Blocks are written as words: byte by byte it would cost as much as AES does. */
class KeyStream {
  private readonly cipher
  private counters = Buffer.alloc(128 * 16)
  private words = wordsOf(this.counters, 0, this.counters.length)

  constructor(key: Buffer) {
    this.cipher = createCipheriv("aes-128-ecb", key, null)
    this.cipher.setAutoPadding(false)
  }

  /** `bytes` of key stream for the counter block `iv`, whose last two bytes count. */
  of(iv: Buffer, bytes: number): Buffer {
    const blocks = Math.min((bytes + 15) >> 4, maxBlocks)
    if (blocks * 16 > this.counters.length) {
      this.counters = Buffer.alloc(maxBlocks * 16)
      this.words = wordsOf(this.counters, 0, this.counters.length)
    }
    const { words } = this
    const first = iv.readInt32LE(0)
    const second = iv.readInt32LE(4)
    const third = iv.readInt32LE(8)
    const last = iv.readUInt16LE(12)
    for (let block = 0, at = 0; block < blocks; block++, at += 4) {
      words[at] = first
      words[at + 1] = second
      words[at + 2] = third
      words[at + 3] = last | (block >> 8) << 16 | (block & 255) << 24
    }
    return this.cipher.update(this.counters.subarray(0, blocks * 16))
  }
}

/** The session keys of one direction, for RTP or RTCP (RFC 3711, section 4.3). */
class SessionKeys {
  private readonly stream: KeyStream
  private readonly salt: Buffer
  private readonly authentication
  private readonly iv = Buffer.alloc(16)

  /** `label`: 0 for RTP, 3 for RTCP. */
  constructor(masterKey: Buffer, masterSalt: Buffer, label: 0 | 3) {
    const derive = (number: number, length: number) => {
      const iv = Buffer.alloc(16)
      masterSalt.copy(iv, 0, 0, srtpSaltBytes)
      iv[7]! ^= number
      return Buffer.from(new KeyStream(masterKey).of(iv, length).subarray(0, length))
    }
    this.stream = new KeyStream(derive(label, srtpKeyBytes))
    this.authentication = createSecretKey(derive(label + 1, 20))
    this.salt = derive(label + 2, srtpSaltBytes)
  }

  /** Encrypts or decrypts `bytes[from, to)` in place. `high`, `low`: upper 32 and lower 16 bits of the packet's index. */
  crypt(bytes: Buffer, from: number, to: number, ssrc: number, high: number, low: number): void {
    const { iv } = this
    this.salt.copy(iv, 0)
    iv.writeUInt32BE((iv.readUInt32BE(4) ^ ssrc) >>> 0, 4)
    iv.writeUInt32BE((iv.readUInt32BE(8) ^ high) >>> 0, 8)
    iv.writeUInt16BE((iv.readUInt16BE(12) ^ low) & 0xffff, 12)
    const key = this.stream.of(iv, to - from)
    exclusiveOr(bytes, from, to, key)
  }

  /** The tag of `bytes[0, to)` and, for RTP, of the rollover counter behind it. */
  tag(bytes: Buffer, to: number, rollover: number | null): Buffer {
    const hmac = createHmac("sha1", this.authentication).update(bytes.subarray(0, to))
    if (rollover !== null) {
      const tail = Buffer.allocUnsafe(4)
      tail.writeUInt32BE(rollover >>> 0, 0)
      hmac.update(tail)
    }
    return hmac.digest().subarray(0, tagBytes)
  }
}

/** Encrypts what one endpoint sends. */
export class SrtpSender {
  private readonly rtp: SessionKeys
  private readonly rtcp: SessionKeys
  private rtcpIndex = 0

  constructor(masterKey: Buffer, masterSalt: Buffer) {
    this.rtp = new SessionKeys(masterKey, masterSalt, 0)
    this.rtcp = new SessionKeys(masterKey, masterSalt, 3)
  }

  /**
   * Protects the packet `bytes[0, length)` in place; behind it {@link tagBytes} are free. Its header has 12 bytes and no extension.
   * `rollover`: how often its sequence number has wrapped.
   */
  protect(bytes: Buffer, length: number, rollover: number): void {
    const ssrc = bytes.readUInt32BE(8)
    this.rtp.crypt(bytes, rtpHeaderBytes, length, ssrc, rollover, bytes.readUInt16BE(2))
    this.rtp.tag(bytes, length, rollover).copy(bytes, length)
  }

  /** A compound packet, protected. */
  protectRtcp(packet: Buffer): Buffer {
    this.rtcpIndex = (this.rtcpIndex + 1) & 0x7fff_ffff
    const out = Buffer.allocUnsafe(packet.length + srtcpTailBytes)
    packet.copy(out)
    this.rtcp.crypt(out, 8, packet.length, packet.readUInt32BE(4), this.rtcpIndex >>> 16, this.rtcpIndex & 0xffff)
    out.writeUInt32BE((this.rtcpIndex | 0x8000_0000) >>> 0, packet.length)
    this.rtcp.tag(out, packet.length + 4, null).copy(out, packet.length + 4)
    return out
  }
}

/** What came of a source already (RFC 3711, section 3.3.2). */
class Window {
  private readonly seen = new Uint8Array(windowBits)
  private highest = -1

  isNew(index: number): boolean {
    if (index > this.highest) return true
    return this.highest - index < windowBits && this.seen[index % windowBits] === 0
  }

  note(index: number): void {
    if (index > this.highest) {
      const from = Math.max(this.highest + 1, index - windowBits + 1)
      for (let at = from; at < index; at++) this.seen[at % windowBits] = 0
      this.highest = index
    }
    this.seen[index % windowBits] = 1
  }

  /** The index that a sequence number most likely stands for (appendix A of RFC 3711); below 0: none. */
  guess(sequence: number): number {
    if (this.highest < 0) return sequence
    const low = this.highest & 0xffff
    const ahead = (sequence - low) & 0xffff
    return this.highest + (ahead < 0x8000 ? ahead : ahead - 0x1_0000)
  }
}

const headerLength = (packet: Buffer): number => {
  const first = packet[0]!
  const plain = rtpHeaderBytes + (first & 15) * 4
  if ((first & 0x10) === 0) return plain
  return plain + 4 > packet.length ? packet.length : plain + 4 + packet.readUInt16BE(plain + 2) * 4
}

/** Decrypts what the other endpoint sends. */
export class SrtpReceiver {
  private readonly rtp: SessionKeys
  private readonly rtcp: SessionKeys
  private readonly sources = new Map<number, Window>()
  private readonly reports = new Window()

  constructor(masterKey: Buffer, masterSalt: Buffer) {
    this.rtp = new SessionKeys(masterKey, masterSalt, 0)
    this.rtcp = new SessionKeys(masterKey, masterSalt, 3)
  }

  /** The RTP packet in memory of its own, or null. */
  unprotect(packet: Buffer): Buffer | null {
    const length = packet.length - tagBytes
    if (length < rtpHeaderBytes || packet[0]! >> 6 !== 2) return null
    const ssrc = packet.readUInt32BE(8)
    const known = this.sources.get(ssrc)
    const window = known ?? (this.sources.size < maxSources ? new Window() : null)
    if (window === null) return null
    const sequence = packet.readUInt16BE(2)
    const index = window.guess(sequence)
    if (index < 0 || !window.isNew(index)) return null
    const rollover = Math.floor(index / 0x1_0000)
    if (!timingSafeEqual(this.rtp.tag(packet, length, rollover), packet.subarray(length))) return null
    const body = headerLength(packet)
    if (body > length) return null
    window.note(index)
    if (known === undefined) this.sources.set(ssrc, window)
    const out = Buffer.from(packet.subarray(0, length))
    this.rtp.crypt(out, body, length, ssrc, rollover, sequence)
    return out
  }

  /** The compound RTCP packet in memory of its own, or null. */
  unprotectRtcp(packet: Buffer): Buffer | null {
    const length = packet.length - srtcpTailBytes
    if (length < 8 || packet[0]! >> 6 !== 2) return null
    if (!timingSafeEqual(this.rtcp.tag(packet, length + 4, null), packet.subarray(length + 4))) return null
    const flagged = packet.readUInt32BE(length)
    const index = flagged & 0x7fff_ffff
    if (!this.reports.isNew(index)) return null
    this.reports.note(index)
    const out = Buffer.from(packet.subarray(0, length))
    // The first bit tells whether it is encrypted at all.
    if (flagged > 0x7fff_ffff) this.rtcp.crypt(out, 8, length, out.readUInt32BE(4), index >>> 16, index & 0xffff)
    return out
  }
}
