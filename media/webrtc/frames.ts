/**
 * Packets in a stream of bytes (RFC 4571, section 2): two bytes of length, big endian, then the packet.
 *
 * Invariants
 * 1. Reading is total, and the same however the stream is cut. At most one frame is kept, of the length that its reader allows.
 * 2. A frame that is handed on is in memory of its own.
 */

export const lengthBytes = 2
export const maxFrameBytes = 0xffff

/** The packet with its length in front, a copy. */
export const frameOf = (packet: Buffer): Buffer => {
  const frame = Buffer.allocUnsafe(lengthBytes + packet.length)
  frame.writeUInt16BE(packet.length, 0)
  packet.copy(frame, lengthBytes)
  return frame
}

export interface FrameReader {
  /** The longest frame that may come next. */
  readonly limit: () => number
  /** False: no more is wanted. */
  readonly onFrame: (frame: Buffer) => boolean
}

export class Frames {
  private readonly reader: FrameReader
  private length = 0
  private lengthRead = 0
  private frame: Buffer | null = null
  private filled = 0

  constructor(reader: FrameReader) {
    this.reader = reader
  }

  /** False: a frame is too long or its reader wants no more, and nothing may follow. */
  read(bytes: Buffer): boolean {
    let at = 0
    while (at < bytes.length) {
      if (this.frame === null) {
        this.length = (this.length << 8 | bytes[at++]!) & maxFrameBytes
        if (++this.lengthRead < lengthBytes) continue
        this.lengthRead = 0
        if (this.length > this.reader.limit()) return false
        // One of no length is there to keep the connection alive.
        if (this.length > 0) this.frame = Buffer.allocUnsafe(this.length)
        continue
      }
      const copied = bytes.copy(this.frame, this.filled, at)
      at += copied
      this.filled += copied
      if (this.filled < this.frame.length) continue
      const whole = this.frame
      this.frame = null
      this.filled = 0
      if (!this.reader.onFrame(whole)) return false
    }
    return true
  }
}
