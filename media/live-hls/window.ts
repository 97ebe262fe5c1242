/**
 * The newest seconds of one stream: segments, and the parts that they consist of. Pure.
 *
 * Invariants
 * 1. A segment is exactly its parts, one behind the other; parts and segments are numbered without holes and never again.
 * 2. A segment begins with a key picture wherever one comes in time; it lasts at most {@link longestTicks} (a single longer part
 *    excepted), so a stream with longer groups of pictures has segments that do not.
 * 3. Kept: {@link keptTicks} and at most the bytes allowed, the oldest segments going first, the newest always staying. Listed: of
 *    these the last {@link listedTicks}, so that who has just read a playlist still finds its first segment.
 * 4. Discontinuities are counted together with another rendition of the same scene (RFC 8216bis, 6.2.4): counting begins where the
 *    other stands, and who has fewer begins its next group of pictures with one.
 */
import { videoClockHz } from "#schema/media.ts"
import type { Fragment } from "../storage.ts"

/** `EXT-X-TARGETDURATION`: it must never change, so it is not made from what happens to come. */
export const targetSeconds = 4
/** Rounded to the nearest second it is the target. */
const longestTicks = 4.4 * videoClockHz
/** A key picture ends a segment from here on; shorter groups of pictures share one. */
const leastTicks = 1.5 * videoClockHz
/** Three target durations must stay (RFC 8216bis, 6.2.2), and one segment more. */
export const listedTicks = 16 * videoClockHz
const keptTicks = 24 * videoClockHz

export interface Part {
  readonly number: number
  readonly data: Uint8Array
  readonly ticks: number
  /** Begins with a key picture. */
  readonly independent: boolean
}

export interface Segment {
  readonly number: number
  /** Number of its initialisation. */
  readonly init: number
  readonly discontinuity: boolean
  /** How many discontinuities there were before it. */
  readonly discontinuities: number
  /** Wall clock of its first picture, epoch milliseconds. */
  readonly startMs: number
  readonly parts: Array<Part>
  ticks: number
  bytes: number
  whole: boolean
}

export class Window {
  readonly segments: Array<Segment> = []
  private readonly inits = new Map<number, Uint8Array>()
  private init = 0
  private nextPart = 0
  private nextSegment: number
  /** Longest part so far, ticks. */
  longestPart = 0
  /** Longest segment so far, ticks. */
  longestSegment = 0
  /** How many there were, of this stream or of another rendition of it. */
  discontinuities = 0
  bytes = 0

  private readonly beside: () => number

  /** `beside`: discontinuities that another rendition of the scene counted so far; 0 where there is none. */
  constructor(firstSegment: number, beside: () => number = () => 0) {
    this.nextSegment = firstSegment
    this.beside = beside
  }

  /** Number of the part that will come next. */
  get partAhead(): number {
    return this.nextPart
  }

  get newest(): Segment | undefined {
    return this.segments.at(-1)
  }

  /** What follows needs this initialisation. */
  begin(init: Uint8Array): void {
    this.inits.set(++this.init, init)
    this.close()
  }

  /** Ends the segment that is growing. */
  close(): void {
    const { newest } = this
    if (newest === undefined) return
    newest.whole = true
    this.longestSegment = Math.max(this.longestSegment, newest.ticks)
  }

  /** `data`: the fragment's bytes, to be kept. `mostBytes`: what this stream may hold. */
  add(
    fragment: Pick<Fragment, "key" | "discontinuity" | "durationTicks" | "startMs">,
    data: Uint8Array,
    mostBytes: number,
  ) {
    const growing = this.newest
    const segment = growing === undefined || this.ends(growing, fragment, data, mostBytes) ?
      this.open(fragment) :
      growing
    const ticks = fragment.durationTicks
    segment.parts.push({ number: this.nextPart++, data, ticks, independent: fragment.key })
    segment.ticks += ticks
    segment.bytes += data.length
    this.bytes += data.length
    this.longestPart = Math.max(this.longestPart, ticks)
    this.trim(mostBytes)
  }

  /** Segments that a playlist lists. */
  listed(): ReadonlyArray<Segment> {
    let ticks = 0
    const from = this.segments.findLastIndex((segment) => (ticks += segment.ticks) >= listedTicks)
    return from <= 0 ? this.segments : this.segments.slice(from)
  }

  part(number: number): Part | null {
    for (const { parts } of this.segments) {
      const first = parts[0]
      if (first !== undefined && number >= first.number) {
        const found = parts[number - first.number]
        if (found !== undefined) return found
      }
    }
    return null
  }

  /** A whole segment. */
  segment(number: number): Segment | null {
    const first = this.segments[0]
    const found = first === undefined ? undefined : this.segments[number - first.number]
    return found?.whole === true ? found : null
  }

  initialisation(number: number): Uint8Array | null {
    return this.inits.get(number) ?? null
  }

  private ends(
    growing: Segment,
    next: Pick<Fragment, "key" | "discontinuity" | "durationTicks">,
    data: Uint8Array,
    mostBytes: number,
  ): boolean {
    if (growing.whole || next.discontinuity) return true
    if (next.key && (growing.ticks >= leastTicks || growing.parts[0]?.independent !== true)) return true
    return growing.ticks + next.durationTicks > longestTicks || growing.bytes + data.length > mostBytes
  }

  private open(fragment: Pick<Fragment, "key" | "discontinuity" | "startMs">): Segment {
    const before = this.newest
    this.close()
    if (before === undefined) this.discontinuities = this.beside()
    const behind = fragment.key && this.discontinuities < this.beside()
    const discontinuity = before !== undefined && (fragment.discontinuity || before.init !== this.init || behind)
    const segment: Segment = {
      number: this.nextSegment++,
      init: this.init,
      discontinuity,
      discontinuities: this.discontinuities,
      startMs: fragment.startMs,
      parts: [],
      ticks: 0,
      bytes: 0,
      whole: false,
    }
    if (discontinuity) this.discontinuities++
    this.segments.push(segment)
    return segment
  }

  private trim(mostBytes: number): void {
    let ticks = this.segments.reduce((sum, segment) => sum + segment.ticks, 0)
    while (this.segments.length > 1) {
      const oldest = this.segments[0]!
      if (ticks - oldest.ticks < keptTicks && this.bytes <= mostBytes) break
      this.segments.shift()
      ticks -= oldest.ticks
      this.bytes -= oldest.bytes
    }
    const first = this.segments[0]
    for (const number of this.inits.keys()) if (first !== undefined && number < first.init) this.inits.delete(number)
  }
}
