/**
 * Writing and reading the small integers of ISO/IEC 14496-12, for headers only: payload never passes through here.
 *
 * Invariants
 * 1. All integers are big-endian and unsigned; a 64-bit value is a JavaScript integer below 2^53.
 * 2. A read outside of the bytes answers 0, so that a parser of hostile input ends instead of throwing.
 */

const two32 = 0x1_0000_0000

/** Bytes of 8-bit values. */
export const u8 = (...values: ReadonlyArray<number>): Buffer => Buffer.from(values)

/** Bytes of 16-bit values. */
export const u16 = (...values: ReadonlyArray<number>): Buffer => {
  const bytes = Buffer.allocUnsafe(2 * values.length)
  values.forEach((value, i) => bytes.writeUInt16BE(value & 0xffff, 2 * i))
  return bytes
}

/** Bytes of 32-bit values. */
export const u32 = (...values: ReadonlyArray<number>): Buffer => {
  const bytes = Buffer.allocUnsafe(4 * values.length)
  values.forEach((value, i) => bytes.writeUInt32BE(value >>> 0, 4 * i))
  return bytes
}

/** A box: size, four-character type, content (section 4.2). */
export const box = (type: string, ...content: ReadonlyArray<Uint8Array>): Buffer => {
  const size = content.reduce((sum, part) => sum + part.length, 8)
  return Buffer.concat([u32(size), Buffer.from(type, "latin1"), ...content], size)
}

/** A box with version and flags in front of its content (`FullBox`, section 4.2). */
export const fullBox = (type: string, version: number, flags: number, ...content: ReadonlyArray<Uint8Array>): Buffer =>
  box(type, u32(version * 0x100_0000 + flags), ...content)

/** Writes a 64-bit value at `at`. */
export const putU64 = (bytes: Buffer, value: number, at: number): void => {
  bytes.writeUInt32BE(Math.floor(value / two32), at)
  bytes.writeUInt32BE(value % two32, at + 4)
}

export const getU16 = (bytes: Uint8Array, at: number): number => ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0)

export const getU32 = (bytes: Uint8Array, at: number): number => getU16(bytes, at) * 0x1_0000 + getU16(bytes, at + 2)

/** A value of 2^53 or more loses its low bits: the caller compares against a bound anyway. */
export const getU64 = (bytes: Uint8Array, at: number): number => getU32(bytes, at) * two32 + getU32(bytes, at + 4)

/** Four characters of a box type. */
export const fourCc = (bytes: Uint8Array, at: number): string =>
  String.fromCharCode(bytes[at] ?? 0, bytes[at + 1] ?? 0, bytes[at + 2] ?? 0, bytes[at + 3] ?? 0)

/** Two texts of bytes, equal or not. */
export const sameBytes = (a: Uint8Array, b: Uint8Array): boolean => a.length === b.length && Buffer.compare(a, b) === 0
