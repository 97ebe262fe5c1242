/**
 * H.264 payloads (RFC 6184): single NAL units, STAP-A, FU-A: what packetisation modes 0 and 1 know. The interleaved mode's
 * types (STAP-B, MTAP, FU-B) are malformed here: no camera offers it, and the SDP would have said so.
 */
import { isRecoveryPoint264, nal264 } from "../codec/h264.ts"
import { Assembler, type AssemblerOptions, type NalFormat, type Role, role } from "./assembler.ts"
import type { Depacketiser } from "./depacketiser.ts"

const stapA = 24
const fuA = 28
const startBit = 0x80
const endBit = 0x40

const roles: ReadonlyArray<Role> = Array.from({ length: 32 }, (_, type) => {
  if (type === nal264.idr) return role.key
  if (type >= nal264.slice && type < nal264.idr) return role.picture
  if (type === nal264.sps || type === nal264.pps) return role.set
  return type === nal264.delimiter || type === nal264.filler ? role.drop : role.other
})

const format: NalFormat = {
  headerBytes: 1,
  roleOf: (header) => roles[header & 31]!,
  isRecovery: (nal) => (nal[0]! & 31) === nal264.sei && isRecoveryPoint264(nal),
}

export class H264Depacketiser implements Depacketiser {
  readonly assembler: Assembler

  constructor(options: Omit<AssemblerOptions, "format">) {
    this.assembler = new Assembler({ ...options, format })
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
    const type = bytes[from]! & 31
    if (type === fuA) return this.fragment(bytes, from, to)
    if (type === stapA) return this.aggregate(bytes, from + 1, to)
    return type >= 1 && type < stapA && this.assembler.nal(bytes, from, to)
  }

  /** Section 5.8. A header with start and end both set is against the RFC but seen, and means a whole NAL unit. */
  private fragment(bytes: Buffer, from: number, to: number): boolean {
    if (to - from < 2) return false
    const header = bytes[from + 1]!
    const { assembler } = this
    if ((header & startBit) === 0) return assembler.append(bytes, from + 2, to, (header & endBit) !== 0)
    const fine = assembler.begin((bytes[from]! & 0xe0) | (header & 31), -1, bytes, from + 2, to)
    return (header & endBit) === 0 ? fine : fine && assembler.append(bytes, to, to, true)
  }

  /** Section 5.7.1: NAL units, each behind its length in 16 bits. */
  private aggregate(bytes: Buffer, from: number, to: number): boolean {
    let at = from
    while (at + 2 < to) {
      const end = at + 2 + ((bytes[at]! << 8) | bytes[at + 1]!)
      if (end === at + 2 || end > to) return false
      if (!this.assembler.nal(bytes, at + 2, end)) return false
      at = end
    }
    // One byte too many is padding of a careless sender; nothing at all is no aggregate.
    return at > from
  }
}
