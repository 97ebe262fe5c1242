/**
 * Which fragments make which HLS segment. Pure.
 *
 * Invariants
 * 1. A segment is a run of whole fragments of one file, so it is one byte range; every fragment between the edges of the
 *    interval is in exactly one segment.
 * 2. A segment begins with a key fragment, unless the footage itself begins without one after a break; `key` says so.
 * 3. The plan of a prefix never changes when fragments are added behind it: a growing playlist only appends.
 */
import { videoClockHz } from "#schema/media.ts"
import type { IndexEntry } from "../storage.ts"

/** A run of fragments served as one resource. Times in ticks are of 90 kHz. */
export interface Segment {
  /** Indexes into the file's entries, `[first, end)`. */
  readonly first: number
  readonly end: number
  readonly offset: number
  readonly bytes: number
  readonly startMs: number
  readonly endMs: number
  readonly decodeTicks: number
  readonly durationTicks: number
  readonly frames: number
  readonly key: boolean
  /** Its timestamps do not continue from the segment before it in the same file. */
  readonly breaks: boolean
}

/** How long segments get. A segment ends at a key fragment; a group of pictures is never cut. */
export interface Grouping {
  /** A segment this long ends at the next key fragment. */
  readonly targetTicks: number
  /** One at least this long ends early where the next group would probably carry it over `maximumTicks`. */
  readonly minimumTicks: number
  readonly maximumTicks: number
}

const seconds = (value: number) => value * videoClockHz

/** Footage that is complete: fewer, longer segments keep the playlist of a day small. */
export const finishedGrouping: Grouping = {
  targetTicks: seconds(4),
  minimumTicks: seconds(2),
  maximumTicks: seconds(6),
}
/** Footage that still grows: short segments keep a player close to the present. */
export const growingGrouping: Grouping = { targetTicks: seconds(2), minimumTicks: seconds(2), maximumTicks: seconds(6) }

/** Frame rates that are not exact (29.97) make groups a little shorter than their nominal length. */
const toleranceTicks = seconds(0.1)

/** Decode times that leave less than this between two fragments are one timeline: players step over such holes. */
const largestHoleTicks = seconds(0.5)

/** Whether a decoder and its clock can go on from one fragment to the next, both being of one epoch and one set of parameters. */
export const continues = (previous: IndexEntry, next: IndexEntry): boolean =>
  !next.discontinuity &&
  Math.abs(next.decodeTicks - (previous.decodeTicks + previous.durationTicks)) <= largestHoleTicks

/**
 * Whether both were made by one run of one set of parameters. Stricter than {@link continues}: the fragment that announced
 * other parameters by its mark may have been dropped (a slow disk), and then all that is left of it is the hole of its length.
 */
export const isSameRun = (previous: IndexEntry, next: IndexEntry): boolean =>
  !next.discontinuity && next.decodeTicks === previous.decodeTicks + previous.durationTicks

/**
 * The entries of a file that an interval needs, `[from, to)`: those that overlap it, and before them those back to the key
 * fragment decoding must begin at. Wall clocks may step back within a file, so the outermost overlapping ones count.
 */
export const entriesWithin = (
  entries: ReadonlyArray<IndexEntry>,
  start: number,
  end: number | null,
): { readonly from: number; readonly to: number } => {
  let from = 0
  while (from < entries.length && (entries[from] as IndexEntry).endMs <= start) from++
  let to = entries.length
  while (to > from && end !== null && (entries[to - 1] as IndexEntry).startMs >= end) to--
  if (from === to) return { from, to }
  while (from > 0) {
    const entry = entries[from] as IndexEntry
    if (entry.key || !continues(entries[from - 1] as IndexEntry, entry)) break
    from--
  }
  return { from, to }
}

const segmentOf = (
  entries: ReadonlyArray<IndexEntry>,
  range: { readonly first: number; readonly end: number; readonly frames: number; readonly breaks: boolean },
): Segment => {
  const { breaks, end, first, frames } = range
  const head = entries[first] as IndexEntry
  const last = entries[end - 1] as IndexEntry
  return {
    first,
    end,
    offset: head.offset,
    bytes: last.offset + last.bytes - head.offset,
    startMs: head.startMs,
    endMs: last.endMs,
    decodeTicks: head.decodeTicks,
    durationTicks: last.decodeTicks + last.durationTicks - head.decodeTicks,
    frames,
    key: head.key,
    breaks,
  }
}

/**
 * Cuts the entries `[from, to)` of one file into segments. With `complete: false` the last group is held back, because the
 * fragments still to come may belong to it.
 */
export const segmentsOf = (
  entries: ReadonlyArray<IndexEntry>,
  range: { readonly from: number; readonly to: number },
  grouping: Grouping,
  complete: boolean,
): ReadonlyArray<Segment> => {
  const segments: Array<Segment> = []
  let first = range.from
  let breaks = false
  let groupStart = range.from
  let frames = entries[range.from]?.frames ?? 0
  for (let i = range.from + 1; i < range.to; i++) {
    const entry = entries[i] as IndexEntry
    const broken = !continues(entries[i - 1] as IndexEntry, entry)
    if (broken || entry.key) {
      const length = entry.decodeTicks - (entries[first] as IndexEntry).decodeTicks
      const lastGroupTicks = entry.decodeTicks - (entries[groupStart] as IndexEntry).decodeTicks
      groupStart = i
      if (broken || isLongEnough(length, lastGroupTicks, grouping)) {
        segments.push(segmentOf(entries, { first, end: i, frames, breaks }))
        first = i
        frames = 0
        breaks = broken
      }
    }
    frames += entry.frames
  }
  if (complete && first < range.to) segments.push(segmentOf(entries, { first, end: range.to, frames, breaks }))
  return segments
}

const isLongEnough = (length: number, lastGroupTicks: number, grouping: Grouping): boolean =>
  length >= grouping.targetTicks - toleranceTicks ||
  (length >= grouping.minimumTicks - toleranceTicks && length + lastGroupTicks > grouping.maximumTicks + toleranceTicks)

/**
 * The pictures of a segment that a fast player is shown: key fragments at least `stepTicks` apart. The first key fragment is
 * always among them; a segment that breaks off without any gives none.
 */
export const keyEntries = (
  entries: ReadonlyArray<IndexEntry>,
  range: { readonly from: number; readonly to: number },
  stepTicks: number,
): ReadonlyArray<IndexEntry> => {
  const chosen: Array<IndexEntry> = []
  for (let i = range.from; i < range.to; i++) {
    const entry = entries[i] as IndexEntry
    if (!entry.key) continue
    const last = chosen.at(-1)
    if (last === undefined || entry.decodeTicks - last.decodeTicks >= stepTicks - toleranceTicks) chosen.push(entry)
  }
  return chosen
}
