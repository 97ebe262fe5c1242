/**
 * Which fragments make which HLS segment. Pure.
 *
 * Invariants
 * 1. A segment is a run of whole fragments of one file, so it is one byte range; every fragment between the edges of the
 *    interval is in exactly one segment.
 * 2. A segment begins with a key fragment, unless the footage itself begins without one after a break, or a growing playlist
 *    had to cut a group (see {@link Grouping.longestTicks} and {@link Ending.cuts}).
 * 3. The plan of a prefix never changes when fragments are added behind it: a growing playlist only appends.
 */
import { videoClockHz } from "#schema/media.ts"
import type { IndexEntry } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"

/** Rows `[from, to)` of a file's index. */
export interface Rows {
  readonly from: number
  readonly to: number
}

/** Segments of one file, one behind the other. */
export interface Plan {
  /** First row of each segment, and behind them the end of the last one; empty without segments. */
  readonly edges: ReadonlyArray<number>
  /** Those edges whose timestamps do not continue from the segment before. */
  readonly breaks: ReadonlySet<number>
}

/** How long segments get. */
export interface Grouping {
  /** A segment this long ends at the next key fragment. */
  readonly targetTicks: number
  /** One at least this long ends early where the next group would probably carry it over `maximumTicks`. */
  readonly minimumTicks: number
  readonly maximumTicks: number
  /** No segment gets longer, a single longer fragment excepted: a group beyond it is cut between fragments. */
  readonly longestTicks: number
}

/** What is known of the end of a file. */
export interface Ending {
  /** Nothing more will come. Otherwise the last group is held back, because the fragments still to come may belong to it. */
  readonly complete: boolean
  /** Rows that a segment must begin at, because the one before was let out as it was. */
  readonly cuts: ReadonlySet<number>
}

const seconds = (value: number) => value * videoClockHz

/** Footage that is complete: segments of about 6 s, as players expect them, keep the playlist of a day small. */
export const finishedGrouping: Grouping = {
  targetTicks: seconds(6),
  minimumTicks: seconds(3),
  maximumTicks: seconds(9),
  longestTicks: Infinity,
}
/** Footage that still grows: short segments keep a player close to the present. */
export const growingGrouping: Grouping = {
  targetTicks: seconds(2),
  minimumTicks: seconds(2),
  maximumTicks: seconds(6),
  longestTicks: Infinity,
}

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

/** {@link continues} for a row and the one before it. */
export const continuesAt = (table: FragmentTable, row: number): boolean =>
  !table.discontinuity(row) && Math.abs(table.decodeTicks(row) - table.endTicks(row - 1)) <= largestHoleTicks

/**
 * The rows of a file that an interval needs: those that overlap it, and before them those back to the key fragment decoding must
 * begin at. Wall clocks may step back within a file, so the outermost overlapping ones count.
 */
export const rowsWithin = (table: FragmentTable, start: number, end: number | null): Rows => {
  let from = 0
  while (from < table.length && table.endMs(from) <= start) from++
  let to = table.length
  while (to > from && end !== null && table.startMs(to - 1) >= end) to--
  if (from === to) return { from, to }
  while (from > 0 && !table.key(from) && continuesAt(table, from)) from--
  return { from, to }
}

/** Cuts rows of one file into segments. */
export const planOf = (table: FragmentTable, { from, to }: Rows, grouping: Grouping, ending: Ending): Plan => {
  const edges: Array<number> = []
  const breaks = new Set<number>()
  if (from >= to) return { edges, breaks }
  const { cuts } = ending
  let first = from
  let firstTicks = table.decodeTicks(from)
  let group = from
  const cut = (row: number) => {
    edges.push(first)
    first = row
    firstTicks = table.decodeTicks(row)
  }
  for (let row = from + 1; row < to; row++) {
    if (!continuesAt(table, row)) {
      cut(row)
      breaks.add(row)
      group = row
    } else if (cuts.has(row)) {
      cut(row)
      group = row
    } else if (table.key(row)) {
      const ticks = table.decodeTicks(row)
      if (isLongEnough(ticks - firstTicks, ticks - table.decodeTicks(group), grouping)) cut(row)
      group = row
    }
    // At the last key fragment, and where the group alone is too long, within it.
    if (group > first && table.endTicks(row) - firstTicks > grouping.longestTicks) cut(group)
    if (row > first && table.endTicks(row) - firstTicks > grouping.longestTicks) {
      cut(row)
      group = row
    }
  }
  if (ending.complete) {
    edges.push(first, to)
  } else if (edges.length > 0) edges.push(first)
  return { edges, breaks }
}

const isLongEnough = (length: number, lastGroupTicks: number, grouping: Grouping): boolean =>
  length >= grouping.targetTicks - toleranceTicks ||
  (length >= grouping.minimumTicks - toleranceTicks && length + lastGroupTicks > grouping.maximumTicks + toleranceTicks)

/** Longest group of pictures that begins and ends among the first `to` rows, or has come so far by then. */
export const longestGroupTicks = (table: FragmentTable, to: number): number => {
  let longest = 0
  let group = 0
  for (let row = 0; row < to; row++) {
    if (row > 0 && (table.key(row) || !continuesAt(table, row))) group = row
    longest = Math.max(longest, table.endTicks(row) - table.decodeTicks(group))
  }
  return longest
}

/** How long segments get at most where groups are that long. */
export const longestSegmentTicks = (groupTicks: number, { targetTicks }: Grouping): number =>
  Math.max(1, Math.ceil((targetTicks - toleranceTicks) / groupTicks)) * groupTicks

/**
 * The pictures of a segment that a fast player is shown: key fragments at least `stepTicks` apart. The first key fragment is
 * always among them; a segment that breaks off without any gives none.
 */
export const keyEntries = (table: FragmentTable, { from, to }: Rows, stepTicks: number): ReadonlyArray<IndexEntry> => {
  const chosen: Array<IndexEntry> = []
  let next = -Infinity
  for (let row = from; row < to; row++) {
    if (!table.key(row) || table.decodeTicks(row) < next) continue
    chosen.push(table.at(row))
    next = table.decodeTicks(row) + stepTicks - toleranceTicks
  }
  return chosen
}
