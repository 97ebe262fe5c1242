/**
 * Cuts what a player sends into requests and interleaved packets.
 *
 * Invariants
 * 1. The result does not depend on how the bytes were cut into chunks.
 * 2. At most {@link maxHeadBytes} and {@link maxBodyBytes} wait for their rest; what is longer, or neither a request nor a packet, is
 *    `Malformed`, and the connection of no more use: players are programs, not cameras.
 * 3. Nothing of a chunk is kept but a copy of its unfinished rest.
 */
import { Malformed } from "../codec/malformed.ts"
import { integerHeader, parseHead, type RequestHead } from "../rtsp/message.ts"

export const maxHeadBytes = 8 * 1024
/** Players send none but an empty GET_PARAMETER's, and reports of some hundred bytes. */
export const maxBodyBytes = 4 * 1024
const dollar = 0x24

export interface RequestListener {
  readonly onRequest: (head: RequestHead) => void
  /** `bytes[from, to)` is only valid during the call. */
  readonly onPacket: (channel: number, bytes: Buffer, from: number, to: number) => void
}

const malformed = (at: number, detail: string) => new Malformed({ what: "RTSP request", at, unit: "byte", detail })

/** Behind the empty line, whose line breaks may lack their carriage return; -1 where it has not come yet. */
const headEnd = (bytes: Buffer, from: number): number => {
  for (let feed = bytes.indexOf(0x0a, from); feed >= 0; feed = bytes.indexOf(0x0a, feed + 1)) {
    if (bytes[feed + 1] === 0x0a) return feed + 2
    if (bytes[feed + 1] === 0x0d && bytes[feed + 2] === 0x0a) return feed + 3
  }
  return -1
}

export class RequestReader {
  private readonly listener: RequestListener
  private rest: Buffer = Buffer.alloc(0)
  /** Bytes that were consumed; for errors. */
  private consumed = 0

  constructor(listener: RequestListener) {
    this.listener = listener
  }

  /** Throws `Malformed`. */
  feed(chunk: Buffer): void {
    const bytes = this.rest.length === 0 ? chunk : Buffer.concat([this.rest, chunk])
    let at = 0
    while (at < bytes.length) {
      const next = bytes[at] === dollar ? this.packet(bytes, at) : this.request(bytes, at)
      if (next < 0) break
      at = next
    }
    this.consumed += at
    this.rest = Buffer.from(bytes.subarray(at))
  }

  private packet(bytes: Buffer, at: number): number {
    if (bytes.length - at < 4) return -1
    const length = bytes.readUInt16BE(at + 2)
    if (length > maxBodyBytes) throw malformed(this.consumed + at, `a packet of ${length} bytes`)
    const end = at + 4 + length
    if (end > bytes.length) return -1
    this.listener.onPacket(bytes[at + 1]!, bytes, at + 4, end)
    return end
  }

  private request(bytes: Buffer, at: number): number {
    const byte = bytes[at]!
    if (byte === 0x0d || byte === 0x0a) return at + 1
    // Method names are letters: whatever else begins here will never become a request.
    if ((byte & 0xdf) < 0x41 || (byte & 0xdf) > 0x5a) throw malformed(this.consumed + at, "neither request nor packet")
    const end = headEnd(bytes, at)
    if ((end < 0 ? bytes.length : end) - at > maxHeadBytes) throw malformed(this.consumed + at, "the head is too long")
    if (end < 0) return -1
    const head = parseHead(bytes.toString("latin1", at, end).trimEnd())
    if (head === null) throw malformed(this.consumed + at, "no request line")
    const length = integerHeader(head, "content-length") ?? 0
    if (length > maxBodyBytes) throw malformed(this.consumed + at, `a body of ${length} bytes`)
    if (end + length > bytes.length) return -1
    // A response answers nothing: we never ask.
    if (head.kind === "request") this.listener.onRequest(head)
    return end + length
  }
}
