/**
 * Session keys of SRTP (RFC 3711, section 4.3): key streams of AES-128 in counter mode, and HMAC-SHA1.
 *
 * Each direction keeps one cipher object for its lifetime: AES in counter mode is AES-ECB over the counters, so the key stream of a
 * packet is one call to the same object. A cipher object a packet costs several times as much; with AES-GCM (RFC 7714), which needs
 * one, a packet costs three times as much as with both of these.
 *
 * Invariants
 * 1. A packet that is sent costs no memory but its share of a key stream, which is given back as soon as it is used up.
 */
import { createCipheriv, hash } from "node:crypto"
import { frontBytes, type PacketMemory } from "./packet-memory.ts"

export const srtpKeyBytes = 16
export const srtpSaltBytes = 14
export const tagBytes = 10
export const rtpHeaderBytes = 12
/** Audio and video; browsers open others for probing. */
export const maxSources = 8

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

/** `bytes[from, to)` of `memory` by key stream from its word `keyAt` on; `from` is a multiple of 4. */
const exclusiveOrWords = (memory: PacketMemory, from: number, to: number, key: Int32Array, keyAt: number): void => {
  const { words } = memory
  const whole = to >> 2
  let by = keyAt
  for (let at = from >> 2; at < whole; at++, by++) words[at]! ^= key[by]!
  // Bytes of a word stand in it as everywhere on machines that Node.js runs on: the lowest first.
  for (let at = whole << 2, last = key[by] ?? 0; at < to; at++, last >>= 8) memory.bytes[at]! ^= last & 255
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
  ofMany(ivs: ReadonlyArray<Buffer>, blocks: number): Buffer<ArrayBuffer> {
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

const sha1Bytes = 20

/**
 * HMAC-SHA1 (RFC 2104) as two hashes of memory that is used again. An object a packet costs twice as much, and once more what is swept
 * up behind it.
 */
class Authentication {
  private inner = Buffer.alloc(frontBytes + 2_048, 0x36)
  private readonly front = this.inner.subarray(0, frontBytes)
  private readonly outer = Buffer.alloc(frontBytes + sha1Bytes, 0x5c)

  /** `key`: at most 64 bytes. */
  constructor(key: Buffer) {
    key.forEach((byte, at) => {
      this.inner[at]! ^= byte
      this.outer[at]! ^= byte
    })
  }

  /** Of `bytes[0, to)` and, for RTP, of the rollover counter behind it: 20 characters of Latin-1. */
  of(bytes: Buffer, to: number, rollover: number | null): string {
    const needed = frontBytes + to + 4
    if (needed > this.inner.length) {
      const larger = Buffer.alloc(needed)
      this.inner.copy(larger, 0, 0, frontBytes)
      this.inner = larger
    }
    const { inner } = this
    bytes.copy(inner, frontBytes, 0, to)
    if (rollover !== null) inner.writeUInt32BE(rollover >>> 0, frontBytes + to)
    return this.twice(inner.subarray(0, rollover === null ? needed - 4 : needed))
  }

  /** The same of a packet that is in its memory with room for the counter behind it. */
  ofPacket(memory: PacketMemory, to: number, rollover: number): string {
    memory.bytes.set(this.front)
    memory.bytes.writeUInt32BE(rollover >>> 0, frontBytes + to)
    return this.twice(memory.withFront(to + 4))
  }

  private twice(told: Buffer): string {
    this.outer.write(hash("sha1", told, "latin1"), frontBytes, "latin1")
    return hash("sha1", this.outer, "latin1")
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
  readonly keys: Int32Array<ArrayBuffer>
}

/** The session keys of one direction, for RTP or RTCP (RFC 3711, section 4.3). */
export class SessionKeys {
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

  /** The packet `[from, to)` in its memory, of a source that numbers its packets one by one; what lies behind is made by itself. */
  cryptNext(memory: PacketMemory, from: number, to: number, ssrc: number, index: number): void {
    const known = this.ahead.get(ssrc)
    const blocks = (to - from + 15) >> 4
    const behind = known === undefined ? this.ahead.size >= maxSources : index < known.first
    const [start, end] = [frontBytes + from, frontBytes + to]
    if (behind || blocks > maxBlocksAhead) return this.crypt(memory.bytes, start, end, ssrc, index)
    const held = known !== undefined && index < known.first + packetsAhead && blocks <= known.blocks ?
      known :
      this.make(ssrc, index, Math.max(blocks, known?.blocks ?? 0), known)
    exclusiveOrWords(memory, start, end, held.keys, (index - held.first) * held.blocks * 4)
  }

  private make(ssrc: number, first: number, blocks: number, before: Ahead | undefined): Ahead {
    // Given back by hand: memory that is not of its heap makes the collector mark all of that, several times a second.
    before?.keys.buffer.transfer(0)
    this.ivs.forEach((iv, index) => this.ivOf(iv, ssrc, first + index))
    const keys = this.stream.ofMany(this.ivs, blocks)
    const made = { first, blocks, keys: new Int32Array(keys.buffer, keys.byteOffset, keys.length >> 2) }
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

  /** Writes the tag of the packet of `length` bytes behind it. */
  tagPacket(memory: PacketMemory, length: number, rollover: number): void {
    memory.bytes.write(this.authentication.ofPacket(memory, length, rollover), frontBytes + length, tagBytes, "latin1")
  }
}
