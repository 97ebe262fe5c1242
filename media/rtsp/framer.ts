/**
 * Cuts the bytes of an RTSP connection into interleaved packets (RFC 2326, section 10.12) and messages.
 *
 * Invariants
 * 1. The result does not depend on how the bytes were cut into chunks.
 * 2. An interleaved packet that lies whole in a chunk is handed on where it lies; nothing is copied or allocated for it.
 * 3. Memory is bounded: a head by `maxHeadBytes`, a body by `maxBodyBytes`, a packet by its 16-bit length.
 * 4. Bytes that begin neither a packet nor a message are skipped and counted. After such bytes a `$` counts only if an RTP or
 *    RTCP version follows it. `maxGarbageBytes` of them without anything good between are an error.
 */
import { Malformed } from "../codec/malformed.ts"
import {
  header,
  integerHeader,
  maxHeadBytes,
  type Message,
  parseHead,
  type RequestHead,
  type ResponseHead,
} from "./message.ts"

/** Longest body: an SDP of a camera has some kilobytes. */
export const maxBodyBytes = 256 * 1024
/** What may be skipped before the connection is given up: one read's worth. */
export const maxGarbageBytes = 64 * 1024

export interface FramerListener {
  /** `bytes[from, to)` is only valid during the call. */
  readonly onPacket: (channel: number, bytes: Buffer, from: number, to: number) => void
  readonly onMessage: (message: Message) => void
}

const dollar = 0x24
const starts = [
  "RTSP/",
  "OPTIONS ",
  "ANNOUNCE ",
  "DESCRIBE ",
  "GET_PARAMETER ",
  "SET_PARAMETER ",
  "REDIRECT ",
  "TEARDOWN ",
  "PLAY_NOTIFY ",
].map((text) => Buffer.from(text, "latin1"))
const couldStart = new Uint8Array(256)
for (const start of starts) {
  couldStart[start[0]!] = 1
  couldStart[start[0]! | 0x20] = 1
}

/** Whether a message may begin at `at`: 1 yes, 0 no, -1 more bytes are needed to tell. Letters in either case. */
const messageStart = (bytes: Buffer, at: number, end: number): -1 | 0 | 1 => {
  if (couldStart[bytes[at]!] === 0) return 0
  let undecided: -1 | 0 = 0
  for (const start of starts) {
    let i = 0
    while (i < start.length && at + i < end && (bytes[at + i]! & 0xdf) === (start[i]! & 0xdf)) i++
    if (i === start.length) return 1
    if (at + i === end) undecided = -1
  }
  return undecided
}

export class Framer {
  private readonly listener: FramerListener
  /** Bytes of something unfinished, from earlier chunks. */
  private carry = Buffer.allocUnsafe(4096)
  private carried = 0
  /** The head of the message whose body is awaited. */
  private head: ResponseHead | RequestHead | null = null
  private bodyBytes = 0
  /** Bytes of the unfinished head that were already searched for its end. */
  private searched = 0
  /** Garbage since the last good thing. */
  private garbage = 0
  /** Bytes that were skipped in all. */
  skipped = 0

  constructor(listener: FramerListener) {
    this.listener = listener
  }

  /** Consumes `bytes[0, length)`. Throws `Malformed` where the connection is of no more use. */
  feed(bytes: Buffer, length: number): void {
    let from = 0
    if (this.carried > 0) {
      from = this.resume(bytes, length)
      if (from < 0) return
    }
    const end = this.scan(bytes, from, length)
    if (end < length) this.keep(bytes, end, length)
  }

  /** Continues what is in the carry; returns where in `bytes` to go on, or -1 where all of them went into the carry. */
  private resume(bytes: Buffer, length: number): number {
    if (this.head === null && this.carry[0] === dollar && this.garbage === 0) {
      let from = 0
      if (this.carried < 4) {
        from = Math.min(4 - this.carried, length)
        this.keep(bytes, 0, from)
        if (this.carried < 4) return -1
      }
      const missing = 4 + this.carry.readUInt16BE(2) - this.carried
      const count = Math.min(missing, length - from)
      this.keep(bytes, from, from + count)
      if (count < missing) return -1
      const total = this.carried
      this.carried = 0
      this.listener.onPacket(this.carry[1]!, this.carry, 4, total)
      return from + count
    }
    this.keep(bytes, 0, length)
    const total = this.carried
    this.carried = 0
    const end = this.scan(this.carry, 0, total)
    if (end < total) {
      if (end > 0) this.carry.copyWithin(0, end, total)
      this.carried = total - end
    }
    return -1
  }

  private keep(bytes: Buffer, from: number, to: number): void {
    const needed = this.carried + to - from
    if (needed > this.carry.length) {
      let size = this.carry.length
      while (size < needed) size *= 2
      const larger = Buffer.allocUnsafe(size)
      this.carry.copy(larger, 0, 0, this.carried)
      this.carry = larger
    }
    bytes.copy(this.carry, this.carried, from, to)
    this.carried = needed
  }

  /** Handles everything whole in `bytes[from, to)`; returns where the unfinished rest begins. */
  private scan(bytes: Buffer, from: number, to: number): number {
    let at = from
    while (at < to) {
      if (this.head === null && bytes[at] === dollar) {
        if (this.garbage > 0) {
          if (to - at < 5) return at
          if (bytes[at + 4]! >> 6 !== 2 || bytes.readUInt16BE(at + 2) < 8) {
            at = this.pass(at)
            continue
          }
          this.garbage = 0
        }
        if (to - at < 4) return at
        const end = at + 4 + ((bytes[at + 2]! << 8) | bytes[at + 3]!)
        if (end > to) return at
        this.listener.onPacket(bytes[at + 1]!, bytes, at + 4, end)
        at = end
        continue
      }
      const next = this.head === null ? this.text(bytes, at, to) : this.body(this.head, bytes, at, to)
      if (next < 0) return at
      at = next
    }
    return at
  }

  /** No packet begins at `at`. Returns where to go on, or -1 where more bytes are needed. */
  private text(bytes: Buffer, at: number, to: number): number {
    const byte = bytes[at]!
    if ((byte === 0x0d || byte === 0x0a) && this.garbage === 0) return at + 1
    const start = messageStart(bytes, at, to)
    if (start < 0) return -1
    return start === 0 ? this.pass(at) : this.message(bytes, at, to)
  }

  private pass(at: number): number {
    this.skipped++
    if (++this.garbage > maxGarbageBytes) {
      throw new Malformed({
        what: "RTSP",
        at: this.skipped,
        unit: "byte",
        detail: `${maxGarbageBytes} bytes that are neither a message nor a packet`,
      })
    }
    return at + 1
  }

  private message(bytes: Buffer, at: number, to: number): number {
    const headEnd = this.findHeadEnd(bytes, at, to)
    if (headEnd < 0 && to - at <= maxHeadBytes) return -1
    this.searched = 0
    const tooLong = headEnd < 0 || headEnd - at > maxHeadBytes
    const head = tooLong ? null : parseHead(bytes.toString("latin1", at, headEnd).trimEnd())
    if (head === null) return this.pass(at)
    this.garbage = 0
    this.bodyBytes = this.bodyLength(head)
    if (this.bodyBytes === 0) this.listener.onMessage({ head, body: Buffer.alloc(0) })
    else this.head = head
    return headEnd
  }

  /** Behind the empty line, whose line break may lack its carriage return; -1 where it has not come yet. */
  private findHeadEnd(bytes: Buffer, at: number, to: number): number {
    let from = at + this.searched
    for (;;) {
      const feed = bytes.indexOf(0x0a, from)
      if (feed < 0 || feed + 1 >= to) break
      if (bytes[feed + 1] === 0x0a) return feed + 2
      if (bytes[feed + 1] === 0x0d) {
        if (feed + 2 >= to) break
        if (bytes[feed + 2] === 0x0a) return feed + 3
      }
      from = feed + 1
    }
    this.searched = Math.max(0, to - at - 3)
    return -1
  }

  /** -1: not told; the body ends when `flushBody` is called. */
  private bodyLength(head: ResponseHead | RequestHead): number {
    const told = integerHeader(head, "content-length")
    if (told === null) return /sdp/i.test(header(head, "content-type") ?? "") ? -1 : 0
    if (told > maxBodyBytes) {
      throw new Malformed({
        what: "RTSP",
        at: this.skipped,
        unit: "byte",
        detail: `a body of ${told} bytes is too long`,
      })
    }
    return told
  }

  private body(head: ResponseHead | RequestHead, bytes: Buffer, at: number, to: number): number {
    const available = to - at
    if (this.bodyBytes < 0 && available > maxBodyBytes) return this.endBody(head, bytes, at, at + maxBodyBytes)
    if (this.bodyBytes < 0 || available < this.bodyBytes) return -1
    return this.endBody(head, bytes, at, at + this.bodyBytes)
  }

  private endBody(head: ResponseHead | RequestHead, bytes: Buffer, from: number, to: number): number {
    this.head = null
    this.listener.onMessage({ head, body: Buffer.from(bytes.subarray(from, to)) })
    return to
  }

  /**
   * Ends the body that is awaited with what has come of it: for cameras that announce more than they send, or no length at
   * all. False where no body is awaited.
   */
  flushBody(): boolean {
    if (this.head === null) return false
    const end = this.carried
    this.carried = 0
    this.endBody(this.head, this.carry, 0, end)
    return true
  }
}
