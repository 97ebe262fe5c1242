/**
 * Bit reader of the raw byte sequence payload of a NAL unit (ITU-T H.264, 7.2 and 9.1; H.265, 7.2 and 9.2).
 *
 * Invariants
 * 1. No read goes beyond the end: it throws `Malformed` instead, so no loop that consumes bits runs for ever.
 * 2. An exp-Golomb code has at most 31 leading zeros; its value fits in 32 bits.
 */
import { Malformed } from "./malformed.ts"

/** A parameter set of a camera has some tens of bytes; the largest legal scaling lists and VUI stay below this. */
export const maxSetBytes = 8192

/** Where the first emulation prevention byte stands, or -1. */
const firstEscape = (nal: Uint8Array): number => {
  for (let i = 2; i < nal.length; i++) {
    if (nal[i] === 3 && nal[i - 1] === 0 && nal[i - 2] === 0) return i
  }
  return -1
}

/**
 * Without the emulation prevention bytes (H.264, 7.4.1): `00 00 03` stands for `00 00`. Where there are none, the same bytes and no
 * copy.
 */
export const unescape = (nal: Uint8Array): Uint8Array => {
  if (firstEscape(nal) < 0) return nal
  const out = new Uint8Array(nal.length)
  let length = 0
  let zeros = 0
  for (let i = 0; i < nal.length; i++) {
    const byte = nal[i]!
    if (zeros >= 2 && byte === 3) {
      zeros = 0
      continue
    }
    out[length++] = byte
    zeros = byte === 0 ? zeros + 1 : 0
  }
  return out.subarray(0, length)
}

export class BitReader {
  readonly what: string
  private readonly bytes: Uint8Array
  private position = 0

  /** `bytes` without emulation prevention; `what` names the format in errors. */
  constructor(what: string, bytes: Uint8Array, firstBit = 0) {
    this.what = what
    this.bytes = bytes
    this.position = firstBit
  }

  get at(): number {
    return this.position
  }

  get left(): number {
    return this.bytes.length * 8 - this.position
  }

  fail(detail: string): never {
    throw new Malformed({ what: this.what, at: this.position, unit: "bit", detail })
  }

  bit(): number {
    const position = this.position
    const byte = this.bytes[position >> 3]
    if (byte === undefined) this.fail("ends too early")
    this.position = position + 1
    return (byte >> (7 - (position & 7))) & 1
  }

  /** At most 32 bits, unsigned. */
  bits(count: number): number {
    let value = 0
    for (let i = 0; i < count; i++) value = value * 2 + this.bit()
    return value
  }

  pass(count: number): void {
    if (this.left < count) this.fail("ends too early")
    this.position += count
  }

  /** `ue(v)`; throws above `max`. */
  ue(max = 0xffff_fffe): number {
    let zeros = 0
    while (this.bit() === 0) {
      if (++zeros > 31) this.fail("exp-Golomb code is too long")
    }
    const value = 2 ** zeros - 1 + this.bits(zeros)
    if (value > max) this.fail(`value ${value} is above ${max}`)
    return value
  }

  /** `se(v)`. */
  se(): number {
    const code = this.ue()
    return code % 2 === 1 ? (code + 1) / 2 : -code / 2
  }
}

/** The picture's size in luma samples; a wrong one costs storage and decoders dearly, so it is bounded (level 6.2: 16,888). */
export const maxSide = 16_888
