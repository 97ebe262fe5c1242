/**
 * Where the bytes of one track's access units are put together: one unit at a time, in memory that is used again for the next.
 *
 * Invariants
 * 1. What `take` hands out is valid until the next byte is added: whoever wants to keep it copies it.
 * 2. A unit has at most `maxUnitBytes` bytes; `reserve` refuses what would be more.
 * 3. Between units at most {@link keptBytes} are held.
 */
const firstBytes = 16 * 1024
/** More than a key picture of 4K at a good quality. What was needed for a larger one is given back. */
const keptBytes = 2 * 1024 * 1024

export class UnitBuffer {
  private readonly maxUnitBytes: number
  private buffer: Buffer = Buffer.alloc(0)
  private end = 0

  constructor(maxUnitBytes: number) {
    this.maxUnitBytes = maxUnitBytes
  }

  /** Bytes of the open unit. */
  get length(): number {
    return this.end
  }

  /** Makes room for `count` more bytes of the open unit; false where it would become too long. */
  reserve(count: number): boolean {
    const needed = this.end + count
    if (needed <= this.buffer.length) return true
    if (needed > this.maxUnitBytes) return false
    let size = Math.max(firstBytes, this.buffer.length)
    while (size < needed) size *= 2
    const next = Buffer.allocUnsafeSlow(Math.min(size, this.maxUnitBytes))
    this.buffer.copy(next, 0, 0, this.end)
    this.buffer = next
    return true
  }

  /** Appends `source[from, to)`; false where the unit would become too long. */
  append(source: Buffer, from: number, to: number): boolean {
    if (!this.reserve(to - from)) return false
    this.end += source.copy(this.buffer, this.end, from, to)
    return true
  }

  /** One byte into room that was reserved. */
  put(byte: number): void {
    this.buffer[this.end++] = byte
  }

  /** Four bytes for a length that is not yet known, into room that was reserved. */
  putLength(): void {
    this.end += 4
  }

  /** Writes the big-endian length `value` at `at`, counted from the unit's beginning. */
  setLength(at: number, value: number): void {
    const { buffer } = this
    buffer[at] = value >>> 24
    buffer[at + 1] = value >>> 16
    buffer[at + 2] = value >>> 8
    buffer[at + 3] = value
  }

  /** Byte `at` of the open unit. */
  byte(at: number): number {
    return this.buffer[at]!
  }

  /** Bytes `[from, length)` of the open unit, to be looked at now. */
  peek(from: number): Uint8Array {
    return new Uint8Array(this.buffer.buffer, this.buffer.byteOffset + from, this.end - from)
  }

  /** Cuts the open unit to its first `length` bytes. */
  truncate(length: number): void {
    this.end = length
  }

  /** Closes the unit and hands it out. */
  take(): Uint8Array {
    const unit = this.peek(0)
    if (this.buffer.length > keptBytes) this.buffer = Buffer.alloc(0)
    this.end = 0
    return unit
  }
}
