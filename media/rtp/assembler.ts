/**
 * Puts NAL units together to access units, for H.264 and H.265 alike: what a packet brings comes from the depacketiser,
 * where a unit begins and ends is decided here.
 *
 * Invariants
 * 1. A unit ends at a marker that follows a picture, or where the timestamp changes. Cameras that set the marker on every
 *    slice are found out by a slice that continues a picture already handed out; from then on only the timestamp counts.
 * 2. After a loss, the unit in progress is dropped, and the next counts only if it begins at a beginning.
 * 3. Parameter sets, access unit delimiters and filler are not part of a unit's data (see `ParameterSets` for the exception).
 * 4. No unit is handed out before the parameters it needs, and `onParameters` comes before the unit.
 */
import type { VideoParameters } from "#schema/media.ts"
import { Malformed } from "../codec/malformed.ts"
import type { ParameterSets } from "../codec/parameters.ts"
import { maxUnitBytes, type UnitSink } from "./depacketiser.ts"
import { UnitBuffer } from "./unit-buffer.ts"

/** What a NAL unit is to the assembler. */
export const role = { other: 0, picture: 1, key: 2, set: 3, drop: 4, recovery: 5 } as const
export type Role = typeof role[keyof typeof role]

/** What differs between the two codecs. */
export interface NalFormat {
  /** Bytes of a NAL unit's header. */
  readonly headerBytes: 1 | 2
  /** By the NAL unit's first byte. */
  readonly roleOf: (header: number) => Role
  /** Whether an `other` NAL unit is an SEI with a recovery point. */
  readonly isRecovery: ((nal: Uint8Array) => boolean) | null
}

export interface AssemblerOptions {
  readonly format: NalFormat
  readonly sets: ParameterSets
  readonly onParameters: (parameters: VideoParameters) => void
  readonly onUnit: UnitSink
}

export class Assembler {
  private readonly format: NalFormat
  private readonly sets: ParameterSets
  private readonly onParameters: (parameters: VideoParameters) => void
  private readonly onUnit: UnitSink
  private readonly unit = new UnitBuffer(maxUnitBytes)

  private ticks = Number.NaN
  /** Where the first picture of the unit stands in it; -1: none yet. */
  private pictureAt = -1
  private key = false
  private broken = false
  /** The unit in progress, or the next, may lack its beginning. */
  private uncertain = true
  /** A unit with this timestamp was ended by its marker. */
  private ended = false
  private markerTrusted = true
  /** Where the fragmented NAL unit in progress begins in the unit; -1: none. */
  private fragmentAt = -1
  /** Units that were complete but had no parameters to go with. */
  waiting = 0

  constructor(options: AssemblerOptions) {
    this.format = options.format
    this.sets = options.sets
    this.onParameters = options.onParameters
    this.onUnit = options.onUnit
  }

  /** A packet of `ticks` begins. */
  packet(ticks: number): void {
    if (ticks === this.ticks) return
    this.finish()
    this.ticks = ticks
    this.ended = false
  }

  lost(): void {
    if (!this.ended) this.broken = true
    this.uncertain = true
  }

  /** A payload could not be read: the unit is of no use. */
  spoil(): false {
    this.broken = true
    return false
  }

  /** A packet of the unit ended with the marker bit set. */
  marker(): void {
    if (!this.markerTrusted || this.fragmentAt >= 0 || (this.pictureAt < 0 && !this.broken)) return
    this.finish()
    this.ended = true
  }

  /** A whole NAL unit, header included. False where it is malformed. */
  nal(bytes: Buffer, from: number, to: number): boolean {
    if (to - from < this.format.headerBytes) return this.spoil()
    if (this.fragmentAt >= 0) this.abandonFragment()
    const kind = this.format.roleOf(bytes[from]!)
    if (kind === role.set) return this.offer(bytes.subarray(from, to))
    if (kind === role.drop) {
      this.uncertain = false
      return true
    }
    this.observe(kind, bytes[from + this.format.headerBytes] ?? 0)
    if (this.broken) return true
    if (!this.unit.reserve(4 + to - from)) return this.spoil()
    const at = this.unit.length
    this.unit.putLength()
    this.unit.append(bytes, from, to)
    this.unit.setLength(at, to - from)
    this.close(kind, at + 4)
    return true
  }

  /** The first fragment of a NAL unit: its rebuilt header (`second` is -1 for one byte) and `bytes[from, to)` behind it. */
  begin(first: number, second: number, bytes: Buffer, from: number, to: number): boolean {
    if (this.fragmentAt >= 0) this.abandonFragment()
    const kind = this.format.roleOf(first)
    if (kind !== role.set && kind !== role.drop) this.observe(kind, bytes[from] ?? 0)
    else this.uncertain = false
    if (this.broken) return true
    if (!this.unit.reserve(6 + to - from)) return this.spoil()
    this.fragmentAt = this.unit.length
    this.unit.putLength()
    this.unit.put(first)
    if (second >= 0) this.unit.put(second)
    this.unit.append(bytes, from, to)
    return true
  }

  /** A further fragment; `last` ends the NAL unit. */
  append(bytes: Buffer, from: number, to: number, last: boolean): boolean {
    if (this.broken) return true
    if (this.fragmentAt < 0) {
      // Without its beginning it is of no use. After a loss that is to be expected, otherwise the sender is at fault.
      this.broken = true
      return this.uncertain
    }
    if (!this.unit.append(bytes, from, to)) return this.spoil()
    if (last) this.endFragment()
    return true
  }

  private endFragment(): boolean {
    const at = this.fragmentAt
    this.fragmentAt = -1
    const kind = this.format.roleOf(this.unit.byte(at + 4))
    if (kind === role.set || kind === role.drop) {
      const fine = kind === role.drop || this.offer(this.unit.peek(at + 4))
      this.unit.truncate(at)
      return fine
    }
    this.unit.setLength(at, this.unit.length - at - 4)
    this.close(kind, at + 4)
    return true
  }

  /** A fragmented NAL unit that never ended. */
  private abandonFragment(): void {
    this.fragmentAt = -1
    this.broken = true
  }

  private offer(nal: Uint8Array): boolean {
    this.uncertain = false
    try {
      this.sets.offer(nal)
      return true
    } catch (error) {
      if (error instanceof Malformed) return false
      throw error
    }
  }

  /** Looks at a NAL unit's beginning: `next` is the byte behind its header. */
  private observe(kind: Role, next: number): void {
    if (kind === role.other) {
      // Supplemental information stands in front of the picture, so the unit begins at a beginning.
      this.uncertain = false
      return
    }
    // H.264: first_mb_in_slice 0 is a single 1 bit; H.265: first_slice_segment_in_pic_flag.
    const first = (next & 0x80) !== 0
    if (this.uncertain && !first && this.pictureAt < 0) this.broken = true
    if (this.ended && !first && !this.uncertain) {
      this.markerTrusted = false
      this.broken = true
    }
    if (first && this.ended) this.ended = false
    this.uncertain = false
  }

  /** A NAL unit stands whole in the buffer, its bytes from `at`. */
  private close(kind: Role, at: number): void {
    if (kind === role.key) this.key = true
    if (kind === role.key || kind === role.picture) {
      if (this.pictureAt < 0) this.pictureAt = at
    } else if (this.format.isRecovery?.(this.unit.peek(at)) === true) this.key = true
  }

  private finish(): void {
    const { key, pictureAt } = this
    const usable = !this.broken && this.fragmentAt < 0 && pictureAt >= 0
    this.key = false
    this.pictureAt = -1
    this.broken = false
    this.fragmentAt = -1
    if (!usable) {
      // What it brought as parameter sets is known; they count for the next unit.
      this.unit.truncate(0)
      return
    }
    const data = this.unit.take()
    const changed = key ? this.sets.select(data.subarray(pictureAt)) : this.sets.selectAny()
    const parameters = this.sets.inForce
    const extras = this.sets.takeExtras()
    if (parameters === null) {
      this.waiting++
      return
    }
    if (changed) this.onParameters(parameters)
    this.onUnit(extras.length === 0 ? data : withExtras(extras, data), key, this.ticks, 0)
  }
}

const withExtras = (extras: ReadonlyArray<Uint8Array>, data: Uint8Array): Uint8Array =>
  Buffer.concat([
    ...extras.flatMap((nal) => {
      const length = Buffer.allocUnsafe(4)
      length.writeUInt32BE(nal.length)
      return [length, nal]
    }),
    data,
  ])
