/**
 * What of a reroute's footage comes home: files cut into segments, and segments compared with what the home node recorded itself.
 * Pure arithmetic on half-open intervals of milliseconds.
 *
 * Invariants
 * 1. The segments of a file hold each of its fragments once, in order, and begin with a key fragment where a group of pictures fits.
 * 2. What is wanted and what the home node has together cover the segment; what it has alone is not wanted.
 * 3. A cut keeps whole fragments and begins where decoding can.
 */
import type { Interval } from "#schema/common.ts"
import { maxSegmentBytes } from "#schema/federation-recordback.ts"

/** A fragment of a file. */
export interface Piece {
  readonly startMs: number
  readonly endMs: number
  readonly offset: number
  readonly bytes: number
  readonly key: boolean
}

/** Fragments `[from, to)` of a file, one behind the other. */
export interface Run {
  readonly from: number
  readonly to: number
}

/** Holes shorter than this are rounding, not missing pictures; as the timeline sees it. */
const joinMs = 10
/** An error of clocks below this is less than a picture, and hides none. */
export const certainMs = 20
/** Clocks that agree as exactly as could be measured, to about a picture, are kept equal by somebody (NTP). */
const sameClockMs = 60
/** How far two clocks drift apart: a millisecond in so many, which is worse than crystals are. */
const driftMs = 2_000

const bytesOf = (pieces: ReadonlyArray<Piece>, from: number, to: number): number => {
  let sum = 0
  for (let at = from; at < to; at++) sum += pieces[at]!.bytes
  return sum
}

/** Where a run may be cut: at key fragments, and where bytes are missing between two fragments. */
const groupsOf = (pieces: ReadonlyArray<Piece>, { from, to }: Run): ReadonlyArray<Run> => {
  const groups: Array<{ from: number; to: number }> = []
  for (let at = from; at < to; at++) {
    const last = groups.at(-1)
    if (last === undefined || pieces[at]!.key || !follows(pieces, at)) groups.push({ from: at, to: at + 1 })
    else last.to = at + 1
  }
  return groups
}

/** Whether fragment `at` stands right behind the one before it in the file. */
const follows = (pieces: ReadonlyArray<Piece>, at: number): boolean =>
  pieces[at - 1]!.offset + pieces[at - 1]!.bytes === pieces[at]!.offset

/** The segments of fragments `run` of a file. */
export const segmentsOf = (pieces: ReadonlyArray<Piece>, run: Run, most = maxSegmentBytes): ReadonlyArray<Run> => {
  const segments: Array<{ from: number; to: number; bytes: number }> = []
  const add = ({ from, to }: Run) => {
    const bytes = bytesOf(pieces, from, to)
    const last = segments.at(-1)
    if (last !== undefined && last.to === from && follows(pieces, from) && last.bytes + bytes <= most) {
      last.to = to
      last.bytes += bytes
    } else segments.push({ from, to, bytes })
  }
  for (const group of groupsOf(pieces, run)) {
    if (bytesOf(pieces, group.from, group.to) <= most) add(group)
    else for (let at = group.from; at < group.to; at++) add({ from: at, to: at + 1 })
  }
  return segments.map(({ from, to }) => ({ from, to }))
}

const byStart = (a: Interval, b: Interval) => a.start - b.start

/** Sorted and disjoint; what touches, or nearly does, becomes one. */
export const unite = (intervals: ReadonlyArray<Interval>, hole = joinMs): ReadonlyArray<Interval> => {
  const result: Array<{ start: number; end: number }> = []
  for (const { end, start } of intervals.filter((one) => one.end > one.start).sort(byStart)) {
    const last = result.at(-1)
    if (last !== undefined && start <= last.end + hole) last.end = Math.max(last.end, end)
    else result.push({ start, end })
  }
  return result
}

/** `of` without `taken`, which is sorted and disjoint. */
export const without = (of: Interval, taken: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const left: Array<Interval> = []
  let cursor = of.start
  for (const { end, start } of taken) {
    if (end <= cursor) continue
    if (start >= of.end) break
    if (start > cursor) left.push({ start: cursor, end: start })
    cursor = Math.max(cursor, end)
  }
  if (cursor < of.end) left.push({ start: cursor, end: of.end })
  return left
}

/** What a home node has of a recording by itself: its files without its gaps. */
export const coverageOf = (files: ReadonlyArray<Interval>, gaps: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const missing = unite(gaps, 0)
  return unite(unite(files).flatMap((file) => without(file, missing)))
}

/** A clock of another node against ours. */
export interface ClockOffset {
  /** Theirs minus ours. */
  readonly offsetMs: number
  /** By how much that may be wrong. */
  readonly errorMs: number
}

/** What an answer that carries the other node's clock says of it: it was read between the request and the answer. */
export const clockOffset = (sentMs: number, theirsMs: number, receivedMs: number): ClockOffset => {
  const offsetMs = Math.round(theirsMs - (sentMs + receivedMs) / 2)
  const errorMs = Math.ceil(Math.max(0, receivedMs - sentMs) / 2) + 1
  return Math.abs(offsetMs) <= errorMs && errorMs <= sameClockMs ? { offsetMs: 0, errorMs: 0 } : { offsetMs, errorMs }
}

/** The same some time later: clocks drift. */
export const aged = ({ errorMs, offsetMs }: ClockOffset, ageMs: number): ClockOffset => ({
  offsetMs,
  errorMs: errorMs + Math.ceil(Math.max(0, ageMs) / driftMs),
})

export type Verdict =
  | { readonly state: "wanted" | "covered" }
  /** Intervals of the other node's clock. */
  | { readonly state: "cut"; readonly keep: ReadonlyArray<Interval> }

/**
 * Invariant 2. `covered` by our clock, the segment by theirs; `shift` turns that into ours, `errorMs` too early or too late. What may
 * be covered and may not is kept: a picture that is there twice is seen once, one that is in neither is lost. `same`: what came
 * of the segment's own file before, which is theirs, by their clock, whatever the clocks say of each other.
 */
export const verdictOf = (
  segment: Interval,
  covered: ReadonlyArray<Interval>,
  shift: number,
  errorMs: number,
  same: ReadonlyArray<Interval> = [],
): Verdict => {
  const margin = errorMs <= certainMs ? 0 : errorMs
  const surely = covered.map(({ end, start }) => ({ start: start - shift + margin, end: end - shift - margin }))
  const keep = without(segment, unite([...surely, ...same], 0)).filter(({ end, start }) => end - start > joinMs)
  if (keep.length === 0) return { state: "covered" }
  const [only] = keep
  if (keep.length === 1 && only!.start === segment.start && only!.end === segment.end) return { state: "wanted" }
  return { state: "cut", keep }
}

/** Invariant 3: the runs within `run` that overlap what is kept, each from the key fragment before it. */
export const cutTo = (pieces: ReadonlyArray<Piece>, run: Run, keep: ReadonlyArray<Interval>): ReadonlyArray<Run> => {
  const runs: Array<{ from: number; to: number }> = []
  for (const group of groupsOf(pieces, run)) {
    let last = -1
    for (let at = group.from; at < group.to; at++) {
      const { endMs, startMs } = pieces[at]!
      if (keep.some(({ end, start }) => startMs < end && endMs > start)) last = at
    }
    if (last < 0) continue
    const before = runs.at(-1)
    if (before !== undefined && before.to === group.from && follows(pieces, group.from)) before.to = last + 1
    else runs.push({ from: group.from, to: last + 1 })
  }
  return runs
}
