/**
 * One timeline out of what several nodes hold of a recording. Pure.
 *
 * Invariants
 * 1. Spans and gaps of the answer do not overlap, and together cover what any holder covered.
 * 2. A moment that somebody recorded is recorded. Where several did, the span that was begun with goes on: no needless seam.
 * 3. A gap's cause is that of the holder with the highest epoch there: it served then. That a node was not running counts only where
 *    nobody knows better.
 */
import type { Interval, NodeId } from "#schema/common.ts"
import type { Gap, Span } from "#schema/record.ts"

/** What one node tells of an interval; spans and gaps by start. */
export interface HeldTimeline {
  /** Who has the footage, which need not be who recorded it. */
  readonly holder: NodeId
  readonly spans: ReadonlyArray<Span>
  readonly gaps: ReadonlyArray<Gap>
}

/** A span, and where its bytes are. */
export interface HeldSpan extends Span {
  readonly holder: NodeId
}

export interface UnitedTimeline {
  readonly spans: ReadonlyArray<HeldSpan>
  readonly gaps: ReadonlyArray<Gap>
}

const byStart = (a: Interval, b: Interval) => a.start - b.start || b.end - a.end

const uniteSpans = (held: ReadonlyArray<HeldTimeline>): ReadonlyArray<HeldSpan> => {
  const all = held.flatMap(({ holder, spans }) => spans.map((span): HeldSpan => ({ ...span, holder }))).sort(byStart)
  const result: Array<HeldSpan> = []
  for (const span of all) {
    const last = result.at(-1)
    const start = Math.max(span.start, last?.end ?? span.start)
    if (start < span.end) result.push({ ...span, start })
  }
  return result
}

/** The parts of `interval` that none of `taken` (by start) covers. */
const remainder = (interval: Interval, taken: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const result: Array<Interval> = []
  let start = interval.start
  for (const one of taken) {
    if (one.end <= start) continue
    if (one.start >= interval.end) break
    if (one.start > start) result.push({ start, end: one.start })
    start = Math.max(start, one.end)
  }
  if (start < interval.end) result.push({ start, end: interval.end })
  return result
}

/** Index of the first of `sorted` that ends after `at`: whatever is before it is over. */
const after = (sorted: ReadonlyArray<Interval>, at: number): number => {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (sorted[middle]!.end <= at) low = middle + 1
    else high = middle
  }
  return low
}

/** The epoch in which a holder last recorded before `at`; 0 where it never did. */
const epochAt = ({ spans }: HeldTimeline, at: number): number => spans[after(spans, at) - 1]?.epoch ?? 0

interface TaggedGap extends Gap {
  readonly epoch: number
}

/** Without overlap: where two do, the one that began first goes on. */
const disjoint = (gaps: ReadonlyArray<TaggedGap>): ReadonlyArray<TaggedGap> => {
  const result: Array<TaggedGap> = []
  for (const gap of [...gaps].sort(byStart)) {
    const start = Math.max(gap.start, result.at(-1)?.end ?? gap.start)
    if (start < gap.end) result.push({ ...gap, start })
  }
  return result
}

/** Gaps of all holders, less what is recorded; of two that overlap the later server's word counts. */
const uniteGaps = (held: ReadonlyArray<HeldTimeline>, spans: ReadonlyArray<Interval>): ReadonlyArray<Gap> => {
  const open = held.flatMap((one) =>
    one.gaps.flatMap((gap) =>
      remainder(gap, spans.slice(after(spans, gap.start)))
        .map((part): TaggedGap => ({
          ...part,
          cause: gap.cause,
          epoch: gap.cause === "node_down" ? -1 : epochAt(one, gap.end),
        }))
    )
  )
  const epochs = [...new Set(open.map(({ epoch }) => epoch))].sort((a, b) => b - a)
  let told: ReadonlyArray<TaggedGap> = []
  for (const epoch of epochs) {
    const layer = disjoint(open.filter((gap) => gap.epoch === epoch)).flatMap((gap) =>
      remainder(gap, told.slice(after(told, gap.start))).map((part) => ({ ...gap, ...part }))
    )
    told = [...told, ...layer].sort(byStart)
  }
  return told.map(({ cause, end, start }) => ({ start, end, cause }))
}

/** What the nodes together hold. */
export const uniteTimelines = (held: ReadonlyArray<HeldTimeline>): UnitedTimeline => {
  const spans = uniteSpans(held)
  return { spans, gaps: uniteGaps(held, spans) }
}

/** A stretch of a replay that one node can show, gaps within included. */
export interface Stretch extends Interval {
  readonly holder: NodeId
  /** How much of it that node has. */
  readonly recordedMs: number
}

/** Consecutive stretches: what a replay is sewn from. */
export const stretchesOf = (spans: ReadonlyArray<HeldSpan>): ReadonlyArray<Stretch> => {
  const result: Array<Stretch> = []
  for (const { end, holder, start } of spans) {
    const last = result.at(-1)
    const recordedMs = end - start
    if (last?.holder === holder) {
      result[result.length - 1] = { ...last, end, recordedMs: last.recordedMs + recordedMs }
    } else result.push({ start, end, holder, recordedMs })
  }
  return result
}
