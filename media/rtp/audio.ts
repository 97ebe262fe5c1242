/**
 * Audio payloads: AAC (RFC 3640, mode AAC-hbr), G.711 (RFC 3551, section 4.5.14) and Opus (RFC 7587).
 *
 * Invariants
 * 1. Each frame becomes one unit; its duration is told by the format, never guessed from arrival.
 */
import { type Depacketiser, maxAudioUnitBytes, type UnitSink } from "./depacketiser.ts"
import { UnitBuffer } from "./unit-buffer.ts"

/** Widths of the AU header's fields in bits, from the SDP's `sizeLength`, `indexLength`, `indexDeltaLength`. */
export interface AacLayout {
  readonly sizeBits: number
  readonly indexBits: number
  readonly indexDeltaBits: number
  /** Length of a frame in ticks of the RTP clock. */
  readonly frameTicks: number
}

/** More frames than that in one packet cannot be: 64 KB hold some hundreds of the smallest. */
const maxFrames = 512

export class AacDepacketiser implements Depacketiser {
  private readonly layout: AacLayout
  private readonly onUnit: UnitSink
  private readonly unit = new UnitBuffer(maxAudioUnitBytes)
  /** Bytes still missing of a frame that was fragmented (section 3.2.3.2); 0: none. */
  private missing = 0
  private fragmentTicks = 0

  constructor(layout: AacLayout, onUnit: UnitSink) {
    this.layout = layout
    this.onUnit = onUnit
  }

  lost(): void {
    this.missing = 0
    this.unit.truncate(0)
  }

  push(bytes: Buffer, from: number, to: number, ticks: number): boolean {
    if (to - from < 2) return false
    const headerBits = (bytes[from]! << 8) | bytes[from + 1]!
    const body = from + 2 + ((headerBits + 7) >> 3)
    const { sizeBits, indexBits, indexDeltaBits, frameTicks } = this.layout
    if (body > to || headerBits < sizeBits + indexBits) return this.spoil()
    let bit = (from + 2) * 8
    const endBit = bit + headerBits
    let at = body
    for (let frame = 0; frame < maxFrames; frame++) {
      const width = sizeBits + (frame === 0 ? indexBits : indexDeltaBits)
      if (bit + width > endBit) return true
      const size = readBits(bytes, bit, sizeBits)
      bit += width
      if (at + size > to) return frame === 0 && this.fragment(bytes, at, to, size, ticks)
      if (this.missing > 0) {
        // A sender that repeats the whole size in the last fragment, with fewer bytes than it says, ends here too.
        this.lost()
      }
      if (size === 0 || !this.unit.append(bytes, at, at + size)) return this.spoil()
      this.onUnit(this.unit.take(), true, ticks + frame * frameTicks, frameTicks)
      at += size
    }
    return false
  }

  /** A packet with a piece of one frame: each piece has the AU header with the size of the whole. */
  private fragment(bytes: Buffer, from: number, to: number, size: number, ticks: number): boolean {
    if (this.missing === 0 || ticks !== this.fragmentTicks) {
      this.lost()
      this.missing = size
      this.fragmentTicks = ticks
    }
    const count = Math.min(to - from, this.missing)
    if (!this.unit.append(bytes, from, from + count)) return this.spoil()
    this.missing -= count
    if (this.missing === 0) this.onUnit(this.unit.take(), true, ticks, this.layout.frameTicks)
    return true
  }

  private spoil(): false {
    this.lost()
    return false
  }
}

const readBits = (bytes: Buffer, position: number, count: number): number => {
  let value = 0
  for (let i = position; i < position + count; i++) value = (value << 1) | ((bytes[i >> 3]! >> (7 - (i & 7))) & 1)
  return value
}

/** One packet is one frame: G.711 and Opus. */
export class WholePacketDepacketiser implements Depacketiser {
  private readonly ticksOf: (bytes: Buffer, from: number, to: number) => number
  private readonly onUnit: UnitSink
  private readonly unit = new UnitBuffer(maxAudioUnitBytes)

  /** `ticksOf` tells a frame's length in ticks, 0 where it is malformed. */
  constructor(ticksOf: (bytes: Buffer, from: number, to: number) => number, onUnit: UnitSink) {
    this.ticksOf = ticksOf
    this.onUnit = onUnit
  }

  lost(): void {
    this.unit.truncate(0)
  }

  push(bytes: Buffer, from: number, to: number, ticks: number): boolean {
    const durationTicks = this.ticksOf(bytes, from, to)
    if (durationTicks === 0 || !this.unit.append(bytes, from, to)) return false
    this.onUnit(this.unit.take(), true, ticks, durationTicks)
    return true
  }
}

/** G.711: one byte a sample and channel. */
export const g711Ticks = (channels: number) => (_: Buffer, from: number, to: number): number =>
  Math.floor((to - from) / channels)

/** Frame lengths by configuration number in ticks of 48 kHz (RFC 6716, table 2): SILK, hybrid, CELT. */
const opusFrameTicks = (configuration: number): number => {
  if (configuration < 12) return [480, 960, 1920, 2880][configuration & 3]!
  if (configuration < 16) return [480, 960][configuration & 1]!
  return [120, 240, 480, 960][configuration & 3]!
}

/** Longest Opus packet: 120 ms (RFC 6716, section 3.2.5). */
const maxOpusTicks = 5760

/** Opus: from the packet's first byte, and its frame count (RFC 6716, section 3.1). */
export const opusTicks = (bytes: Buffer, from: number, to: number): number => {
  const toc = bytes[from]!
  const code = toc & 3
  if (code === 3 && to - from < 2) return 0
  const frames = code === 0 ? 1 : code === 3 ? bytes[from + 1]! & 63 : 2
  const ticks = frames * opusFrameTicks(toc >> 3)
  return ticks > maxOpusTicks ? 0 : ticks
}
