/**
 * Where access units are written: large buffers, filled once from front to back and never used again, so that every
 * consumer may keep views of them without copying.
 *
 * Invariants
 * 1. Bytes behind a taken view never change.
 * 2. A unit lies in one slab: one that would straddle two moves what it has so far to the new one.
 * 3. A unit has at most `maxUnitBytes` bytes; `reserve` refuses what would be more.
 */
export class Slab {
  private readonly slabBytes: number
  private readonly maxUnitBytes: number
  private buffer: Buffer | null = null
  private start = 0
  private end = 0

  constructor(options: { readonly slabBytes: number; readonly maxUnitBytes: number }) {
    this.slabBytes = options.slabBytes
    this.maxUnitBytes = options.maxUnitBytes
  }

  /** Bytes of the open unit. */
  get length(): number {
    return this.end - this.start
  }

  /** Makes room for `count` more bytes of the open unit; false where it would become too long. */
  reserve(count: number): boolean {
    const needed = this.end - this.start + count
    if (needed > this.maxUnitBytes) return false
    if (this.buffer === null || this.start + needed > this.buffer.length) this.move(needed)
    return true
  }

  private move(needed: number): void {
    let size = this.slabBytes
    while (size < needed) size *= 2
    const next = Buffer.allocUnsafeSlow(size)
    const length = this.length
    if (this.buffer !== null && length > 0) this.buffer.copy(next, 0, this.start, this.end)
    this.buffer = next
    this.start = 0
    this.end = length
  }

  /** Appends `source[from, to)`; false where the unit would become too long. */
  append(source: Buffer, from: number, to: number): boolean {
    const count = to - from
    if (!this.reserve(count)) return false
    source.copy(this.buffer!, this.end, from, to)
    this.end += count
    return true
  }

  /** One byte into room that was reserved. */
  put(byte: number): void {
    this.buffer![this.end++] = byte
  }

  /** Four bytes for a length that is not yet known, into room that was reserved. */
  putLength(): void {
    this.end += 4
  }

  /** Writes the big-endian length `value` at `at`, counted from the unit's beginning. */
  setLength(at: number, value: number): void {
    const buffer = this.buffer!
    const position = this.start + at
    buffer[position] = value >>> 24
    buffer[position + 1] = value >>> 16
    buffer[position + 2] = value >>> 8
    buffer[position + 3] = value
  }

  /** Bytes `[from, length)` of the open unit, to be looked at now. */
  peek(from: number): Uint8Array {
    return this.buffer === null ? new Uint8Array(0) : this.buffer.subarray(this.start + from, this.end)
  }

  /** Cuts the open unit to its first `length` bytes. */
  truncate(length: number): void {
    this.end = this.start + length
  }

  /** Closes the unit and hands it out. */
  take(): Uint8Array {
    const unit = this.peek(0)
    this.start = this.end
    return unit
  }
}
