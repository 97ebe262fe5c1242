/**
 * One timeline out of what several nodes hold of a recording. Pure.
 *
 * Invariants
 * 1. Spans and gaps of the answer do not overlap, and together cover what any holder covered.
 * 2. A moment that somebody recorded is recorded. Where several did, the span that was begun with goes on: no needless seam.
 * 3. A gap's cause is that of the holder with the highest epoch there: it served then. That a node was not running counts only where
 *    nobody knows better.
 * 4. A replay changes the node as seldom as it can, and at a picture that both have where both recorded.
 */
import { strayMs } from "#media/hls-seam.ts"
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

/** Holes shorter than this are rounding, as everywhere. */
const roundingMs = 10

const sharedMs = (one: Interval, other: Interval): number =>
  Math.max(0, Math.min(one.end, other.end) - Math.max(one.start, other.start))

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
  /** Another node goes on with the key picture that it puts at `end`; this one has it, too, or ended just before. */
  readonly joined: boolean
}

/** What one node has without a hole, whatever it was told in. */
type Run = Interval & { readonly holder: NodeId }

const runsOf = (held: ReadonlyArray<HeldTimeline>): ReadonlyArray<Run> => {
  const runs: Array<Run> = []
  for (const holder of new Set(held.map((one) => one.holder))) {
    const spans = held.flatMap((one) => one.holder === holder ? one.spans : []).sort(byStart)
    const first = runs.length
    for (const { end, start } of spans) {
      const last = runs[runs.length - 1]
      if (runs.length > first && last !== undefined && start <= last.end + roundingMs) {
        runs[runs.length - 1] = { ...last, end: Math.max(last.end, end) }
      } else runs.push({ holder, start, end })
    }
  }
  return runs
}

const furthest = (runs: ReadonlyArray<Run>): Run | undefined =>
  runs.reduce<Run | undefined>((best, run) => best === undefined || run.end > best.end ? run : best, undefined)

/**
 * The fewest runs that show everything, in order: where one ends, the one that goes furthest of those that had begun by then. One that
 * begins where another had begun just before begins with the same picture, and goes in its place.
 */
const chainOf = (held: ReadonlyArray<HeldTimeline>): ReadonlyArray<Run> => {
  const runs = runsOf(held).toSorted(byStart)
  const chain: Array<Run> = []
  let open: Array<Run> = []
  for (let at = 0; at < runs.length || open.length > 0;) {
    const reached = chain.at(-1)?.end ?? Number.NEGATIVE_INFINITY
    while (at < runs.length && (runs[at] as Run).start <= reached + strayMs) open.push(runs[at++] as Run)
    open = open.filter(({ end }) => end > reached)
    // Better one that has surely begun: the node before has its first picture.
    const next = furthest(open.filter(({ start }) => start <= reached - strayMs)) ?? furthest(open) ?? runs[at++]
    if (next === undefined) break
    for (let last = chain.at(-1); last !== undefined; last = chain.at(-1)) {
      if (last.holder === next.holder || next.start - last.start >= strayMs) break
      chain.pop()
    }
    chain.push(next)
  }
  return chain
}

/**
 * What a replay is sewn from. A node goes on from the first picture that it has: footage begins with a key picture, and the node before
 * has that one, too, where both recorded.
 */
export const stretchesOf = (held: ReadonlyArray<HeldTimeline>): ReadonlyArray<Stretch> => {
  const chain = chainOf(held)
  const result: Array<Omit<Stretch, "recordedMs">> = []
  for (const [at, { end, holder, start }] of chain.entries()) {
    const next = chain[at + 1]
    const joined = next !== undefined && next.start <= end + strayMs
    const last = result.at(-1)
    const made = { start, end: joined ? next.start : end, holder, joined }
    if (last?.holder === holder) result[result.length - 1] = { ...made, start: last.start }
    else result.push(made)
  }
  const runs = runsOf(held)
  return result.map((stretch) => ({
    ...stretch,
    recordedMs: runs.reduce((sum, run) => run.holder === stretch.holder ? sum + sharedMs(run, stretch) : sum, 0),
  }))
}
