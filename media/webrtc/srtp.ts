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
import { createCipheriv, hash, timingSafeEqual } from "node:crypto"

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
    this.count(iv, 0, blocks)
    return this.cipher.update(this.counters.subarray(0, blocks * 16))
  }

  /** One behind the other, for several counter blocks: `blocks` of each. */
  ofMany(ivs: ReadonlyArray<Buffer>, blocks: number): Buffer {
    ivs.forEach((iv, index) => this.count(iv, index * blocks, blocks))
    return this.cipher.update(this.counters.subarray(0, ivs.length * blocks * 16))
  }

  /** Writes `blocks` counters from block `from` on. */
  private count(iv: Buffer, from: number, blocks: number): void {
    if ((from + blocks) * 16 > this.counters.length) {
      const larger = Buffer.alloc(maxBlocks * 16)
      this.counters.copy(larger)
      this.counters = larger
      this.words = wordsOf(larger, 0, larger.length)
    }
    const { words } = this
    const first = iv.readInt32LE(0)
    const second = iv.readInt32LE(4)
    const third = iv.readInt32LE(8)
    const last = iv.readUInt16LE(12)
    for (let block = 0, at = from * 4; block < blocks; block++, at += 4) {
      words[at] = first
      words[at + 1] = second
      words[at + 2] = third
      words[at + 3] = last | (block >> 8) << 16 | (block & 255) << 24
    }
  }
}

const hashBlockBytes = 64
const sha1Bytes = 20

/**
 * HMAC-SHA1 (RFC 2104) as two hashes of memory that is used again. An object a packet costs twice as much, and once more what is swept
 * up behind it.
 */
class Authentication {
  private inner = Buffer.alloc(hashBlockBytes + 2_048, 0x36)
  private readonly outer = Buffer.alloc(hashBlockBytes + sha1Bytes, 0x5c)

  /** `key`: at most 64 bytes. */
  constructor(key: Buffer) {
    key.forEach((byte, at) => {
      this.inner[at]! ^= byte
      this.outer[at]! ^= byte
    })
  }

  /** Of `bytes[0, to)` and, for RTP, of the rollover counter behind it: 20 characters of Latin-1. */
  of(bytes: Buffer, to: number, rollover: number | null): string {
    const needed = hashBlockBytes + to + 4
    if (needed > this.inner.length) {
      const larger = Buffer.alloc(needed)
      this.inner.copy(larger, 0, 0, hashBlockBytes)
      this.inner = larger
    }
    const { inner, outer } = this
    bytes.copy(inner, hashBlockBytes, 0, to)
    if (rollover !== null) inner.writeUInt32BE(rollover >>> 0, hashBlockBytes + to)
    const told = inner.subarray(0, rollover === null ? needed - 4 : needed)
    outer.write(hash("sha1", told, "latin1"), hashBlockBytes, "latin1")
    return hash("sha1", outer, "latin1")
  }
}

/** Packets whose key stream is made at once: a call of the cipher costs ten times what the bytes of a packet do. */
const packetsAhead = 16
/** Of one packet, more than a datagram of ours holds. */
const maxBlocksAhead = 96

/** Key streams of the packets to come of one source. */
interface Ahead {
  /** Index of the first packet. */
  readonly first: number
  /** 16 bytes each. */
  readonly blocks: number
  readonly keys: Buffer
}

/** The session keys of one direction, for RTP or RTCP (RFC 3711, section 4.3). */
class SessionKeys {
  private readonly stream: KeyStream
  private readonly salt: Buffer
  private readonly authentication: Authentication
  private readonly ivs = Array.from({ length: packetsAhead }, () => Buffer.alloc(16))
  private readonly ahead = new Map<number, Ahead>()

  /** `label`: 0 for RTP, 3 for RTCP. */
  constructor(masterKey: Buffer, masterSalt: Buffer, label: 0 | 3) {
    const derive = (number: number, length: number) => {
      const iv = Buffer.alloc(16)
      masterSalt.copy(iv, 0, 0, srtpSaltBytes)
      iv[7]! ^= number
      return Buffer.from(new KeyStream(masterKey).of(iv, length).subarray(0, length))
    }
    this.stream = new KeyStream(derive(label, srtpKeyBytes))
    this.authentication = new Authentication(derive(label + 1, sha1Bytes))
    this.salt = derive(label + 2, srtpSaltBytes)
  }

  /** Encrypts or decrypts `bytes[from, to)` in place. `index`: the packet's, of 48 bits. */
  crypt(bytes: Buffer, from: number, to: number, ssrc: number, index: number): void {
    exclusiveOr(bytes, from, to, this.stream.of(this.ivOf(this.ivs[0]!, ssrc, index), to - from))
  }

  /** The same for a source that numbers its packets one by one; what lies behind is made by itself. */
  cryptNext(bytes: Buffer, from: number, to: number, ssrc: number, index: number): void {
    const known = this.ahead.get(ssrc)
    const blocks = (to - from + 15) >> 4
    const behind = known === undefined ? this.ahead.size >= maxSources : index < known.first
    if (behind || blocks > maxBlocksAhead) return this.crypt(bytes, from, to, ssrc, index)
    const held = known !== undefined && index < known.first + packetsAhead && blocks <= known.blocks ?
      known :
      this.make(ssrc, index, Math.max(blocks, known?.blocks ?? 0))
    const at = (index - held.first) * held.blocks * 16
    exclusiveOr(bytes, from, to, held.keys.subarray(at, at + blocks * 16))
  }

  private make(ssrc: number, first: number, blocks: number): Ahead {
    this.ivs.forEach((iv, index) => this.ivOf(iv, ssrc, first + index))
    const made = { first, blocks, keys: this.stream.ofMany(this.ivs, blocks) }
    this.ahead.set(ssrc, made)
    return made
  }

  /** RFC 3711, section 4.1.1. */
  private ivOf(iv: Buffer, ssrc: number, index: number): Buffer {
    this.salt.copy(iv, 0)
    iv.writeUInt32BE((iv.readUInt32BE(4) ^ ssrc) >>> 0, 4)
    iv.writeUInt32BE((iv.readUInt32BE(8) ^ Math.floor(index / 0x1_0000)) >>> 0, 8)
    iv.writeUInt16BE((iv.readUInt16BE(12) ^ index) & 0xffff, 12)
    return iv
  }

  /** Writes the tag of `bytes[0, to)` and, for RTP, of the rollover counter behind it, to `at` of `into`. */
  tag(bytes: Buffer, to: number, rollover: number | null, into: Buffer, at: number): void {
    into.write(this.authentication.of(bytes, to, rollover), at, tagBytes, "latin1")
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
    this.rtp.cryptNext(bytes, rtpHeaderBytes, length, ssrc, rollover * 0x1_0000 + bytes.readUInt16BE(2))
    this.rtp.tag(bytes, length, rollover, bytes, length)
  }

  /** A compound packet, protected. */
  protectRtcp(packet: Buffer): Buffer {
    this.rtcpIndex = (this.rtcpIndex + 1) & 0x7fff_ffff
    const out = Buffer.allocUnsafe(packet.length + srtcpTailBytes)
    packet.copy(out)
    this.rtcp.crypt(out, 8, packet.length, packet.readUInt32BE(4), this.rtcpIndex)
    out.writeUInt32BE((this.rtcpIndex | 0x8000_0000) >>> 0, packet.length)
    this.rtcp.tag(out, packet.length + 4, null, out, packet.length + 4)
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
  private readonly expected = Buffer.alloc(tagBytes)

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
    if (!this.isAuthentic(this.rtp, packet, length, rollover)) return null
    const body = headerLength(packet)
    if (body > length) return null
    window.note(index)
    if (known === undefined) this.sources.set(ssrc, window)
    const out = Buffer.from(packet.subarray(0, length))
    this.rtp.crypt(out, body, length, ssrc, index)
    return out
  }

  /** Whether behind `packet[0, to)` stands its tag. */
  private isAuthentic(keys: SessionKeys, packet: Buffer, to: number, rollover: number | null): boolean {
    keys.tag(packet, to, rollover, this.expected, 0)
    return timingSafeEqual(this.expected, packet.subarray(to))
  }

  /** The compound RTCP packet in memory of its own, or null. */
  unprotectRtcp(packet: Buffer): Buffer | null {
    const length = packet.length - srtcpTailBytes
    if (length < 8 || packet[0]! >> 6 !== 2) return null
    if (!this.isAuthentic(this.rtcp, packet, length + 4, null)) return null
    const flagged = packet.readUInt32BE(length)
    const index = flagged & 0x7fff_ffff
    if (!this.reports.isNew(index)) return null
    this.reports.note(index)
    const out = Buffer.from(packet.subarray(0, length))
    // The first bit tells whether it is encrypted at all.
    if (flagged > 0x7fff_ffff) this.rtcp.crypt(out, 8, length, out.readUInt32BE(4), index)
    return out
  }
}
