/**
 * Arithmetic of timelines: clipping, runs, pixels. Pure.
 *
 * Invariants
 * 1. Spans and gaps come sorted by start and without overlap, each list for itself, and leave so.
 */
import type { Interval } from "#schema/common.ts"
import type { Gap, GapCause, Span } from "#schema/record.ts"
import type { PixelGap, RecordedSession } from "#schema/search.ts"

/** The parts of the intervals that lie within another. */
export const clip = <A extends Interval>(intervals: ReadonlyArray<A>, within: Interval): ReadonlyArray<A> =>
  intervals.filter((one) => one.start < within.end && one.end > within.start).map((one) => ({
    ...one,
    start: Math.max(one.start, within.start),
    end: Math.min(one.end, within.end),
  }))

/** Milliseconds covered. */
export const lengthOf = (intervals: ReadonlyArray<Interval>): number =>
  intervals.reduce((sum, one) => sum + one.end - one.start, 0)

/** Spans that touch, as one. */
export const sessionsOf = (spans: ReadonlyArray<Span>): ReadonlyArray<RecordedSession> => {
  const sessions: Array<RecordedSession> = []
  for (const span of spans) {
    const last = sessions.at(-1)
    const joined = last !== undefined && span.start <= last.end
    const start = joined ? last.start : span.start
    const end = joined ? Math.max(last.end, span.end) : span.end
    sessions.splice(joined ? -1 : sessions.length, 1, { start, end, durationMs: end - start })
  }
  return sessions
}

/** Whole pixels that an interval touches, `[first, end)`. */
const columnsOf = (one: Interval, view: Interval, pixelMs: number) => ({
  first: Math.floor((one.start - view.start) / pixelMs),
  end: Math.ceil((one.end - view.start) / pixelMs),
})

/** Length of a pixel when a view is `pixels` wide, whole milliseconds. */
export const pixelLength = (view: Interval, pixels: number): number =>
  Math.max(1, Math.ceil((view.end - view.start) / pixels))

const atColumn = (view: Interval, pixelMs: number, column: number) => Math.min(view.start + column * pixelMs, view.end)

/**
 * Spans rounded outwards to pixels. Within a pixel that several spans touch the first one wins; equal neighbours become one.
 */
export const pixelSpans = (spans: ReadonlyArray<Span>, view: Interval, pixelMs: number): ReadonlyArray<Span> => {
  const result: Array<Span> = []
  let taken = 0
  for (const span of clip(spans, view)) {
    const columns = columnsOf(span, view, pixelMs)
    const first = Math.max(columns.first, taken)
    if (first >= columns.end) continue
    taken = columns.end
    const start = atColumn(view, pixelMs, first)
    const end = atColumn(view, pixelMs, columns.end)
    const last = result.at(-1)
    if (
      last !== undefined && last.end === start && last.kind === span.kind && last.nodeId === span.nodeId &&
      last.epoch === span.epoch
    ) {
      result[result.length - 1] = { ...last, end }
    } else {
      result.push({ ...span, start, end })
    }
  }
  return result
}

interface Column {
  missing: Map<GapCause, number>
  count: number
}

/** What is missing in each pixel that a gap touches. Long gaps fill their middle pixels by arithmetic on `view` only. */
const gapColumns = (gaps: ReadonlyArray<Gap>, view: Interval, pixelMs: number): ReadonlyMap<number, Column> => {
  const columns = new Map<number, Column>()
  for (const gap of clip(gaps, view)) {
    const { end, first } = columnsOf(gap, view, pixelMs)
    for (let at = first; at < end; at++) {
      const from = Math.max(gap.start, atColumn(view, pixelMs, at))
      const to = Math.min(gap.end, atColumn(view, pixelMs, at + 1))
      const column = columns.get(at) ?? { missing: new Map<GapCause, number>(), count: 0 }
      column.missing.set(gap.cause, (column.missing.get(gap.cause) ?? 0) + to - from)
      if (at === first) column.count++
      columns.set(at, column)
    }
  }
  return columns
}

/** Gaps rounded outwards to pixels; a pixel bears the cause of which most is missing, neighbours of one cause become one. */
export const pixelGaps = (gaps: ReadonlyArray<Gap>, view: Interval, pixelMs: number): ReadonlyArray<PixelGap> => {
  const result: Array<PixelGap> = []
  for (const [at, { count, missing }] of [...gapColumns(gaps, view, pixelMs)].sort(([a], [b]) => a - b)) {
    const [cause] = [...missing].reduce((most, one) => one[1] > most[1] ? one : most)
    const missingMs = [...missing.values()].reduce((sum, ms) => sum + ms, 0)
    const start = atColumn(view, pixelMs, at)
    const end = atColumn(view, pixelMs, at + 1)
    const last = result.at(-1)
    if (last !== undefined && last.end === start && last.cause === cause) {
      result[result.length - 1] = { ...last, end, count: last.count + count, missingMs: last.missingMs + missingMs }
    } else {
      result.push({ start, end, cause, count, missingMs })
    }
  }
  return result
}
