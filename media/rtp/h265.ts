/**
 * H.265 payloads (RFC 7798): single NAL units, aggregation packets, fragmentation units. With `sprop-max-don-diff` above 0
 * decoding order numbers stand in the packets: they are skipped, since cameras send in decoding order all the same.
 */
import { nal265 } from "../codec/h265.ts"
import { Assembler, type AssemblerOptions, type NalFormat, type Role, role } from "./assembler.ts"
import type { Depacketiser } from "./depacketiser.ts"

const aggregation = 48
const fragmentation = 49
const startBit = 0x80
const endBit = 0x40

const roles: ReadonlyArray<Role> = Array.from({ length: 64 }, (_, type) => {
  if (type < nal265.vps) return type >= nal265.firstIrap && type <= nal265.lastIrap ? role.key : role.picture
  if (type <= nal265.pps) return role.set
  return type === nal265.delimiter || type === nal265.filler ? role.drop : role.other
})

const format: NalFormat = {
  headerBytes: 2,
  roleOf: (header) => roles[(header >> 1) & 63]!,
  isRecovery: null,
}

export interface H265Options extends Omit<AssemblerOptions, "format"> {
  /** Decoding order numbers are present (RFC 7798, section 4.4.1). */
  readonly orderNumbers: boolean
}

export class H265Depacketiser implements Depacketiser {
  readonly assembler: Assembler
  private readonly orderBytes: number

  constructor(options: H265Options) {
    this.assembler = new Assembler({ ...options, format })
    this.orderBytes = options.orderNumbers ? 2 : 0
  }

  lost(): void {
    this.assembler.lost()
  }

  push(bytes: Buffer, from: number, to: number, ticks: number, marker: boolean): boolean {
    this.assembler.packet(ticks)
    const fine = this.payload(bytes, from, to)
    if (!fine) this.assembler.spoil()
    if (marker) this.assembler.marker()
    return fine
  }

  private payload(bytes: Buffer, from: number, to: number): boolean {
    if (to - from < 3) return false
    const type = (bytes[from]! >> 1) & 63
    if (type === fragmentation) return this.fragment(bytes, from, to)
    if (type === aggregation) return this.aggregate(bytes, from + 2, to)
    if (type > aggregation) return false
    if (this.orderBytes === 0) return this.assembler.nal(bytes, from, to)
    // The number stands between header and payload: the NAL unit is put together like a fragmented one.
    return this.assembler.begin(bytes[from]!, bytes[from + 1]!, bytes, Math.min(from + 4, to), to) &&
      this.assembler.append(bytes, to, to, true)
  }

  /** Section 4.4.3. */
  private fragment(bytes: Buffer, from: number, to: number): boolean {
    const header = bytes[from + 2]!
    const start = (header & startBit) !== 0
    const body = from + 3 + (start ? this.orderBytes : 0)
    if (body > to) return false
    const { assembler } = this
    if (!start) return assembler.append(bytes, body, to, (header & endBit) !== 0)
    const fine = assembler.begin((bytes[from]! & 0x81) | ((header & 63) << 1), bytes[from + 1]!, bytes, body, to)
    return (header & endBit) === 0 ? fine : fine && assembler.append(bytes, to, to, true)
  }

  /** Section 4.4.2: NAL units, each behind its length in 16 bits (and order number: two bytes in front of the first, one later). */
  private aggregate(bytes: Buffer, from: number, to: number): boolean {
    let at = from + this.orderBytes
    const first = at
    while (at + 2 < to) {
      const end = at + 2 + ((bytes[at]! << 8) | bytes[at + 1]!)
      if (end <= at + 3 || end > to) return false
      if (!this.assembler.nal(bytes, at + 2, end)) return false
      at = end + (this.orderBytes === 0 ? 0 : 1)
    }
    return at > first
  }
}
