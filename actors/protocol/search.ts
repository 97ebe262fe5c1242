/**
 * The search slice: what was recorded when. A plain service over the footage of `Recordings`; it stores nothing.
 *
 * Invariants
 * 1. An interval that is not one (`end` not after `start`), or is longer than {@link longestIntervalMs}, is `InvalidInput`.
 */
import type { Interval, PageOf, PageRequest, RecordingToken } from "#schema/common.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput } from "#schema/problem.ts"
import type { RecordingNotFound } from "#schema/record-config.ts"
import type {
  CalendarDay,
  CalendarMonthDates,
  RecordedSession,
  Timeline,
  TimelineRange,
  TimelineUpdates,
} from "#schema/search.ts"
import { Context, type Effect } from "effect"

/** 400 days: a year and a month to compare with. */
export const longestIntervalMs = 400 * 86_400_000

type OfRecording<A, E = never> = Effect.Effect<A, E | RecordingNotFound | InvalidInput | DependencyUnavailable>

export class Search extends Context.Service<Search, {
  readonly timeline: (token: RecordingToken, interval: Interval) => OfRecording<Timeline>
  /** Rounded outwards to `pixels` columns of equal length. */
  readonly timelineRange: (token: RecordingToken, interval: Interval, pixels: number) => OfRecording<TimelineRange>
  /** `cursor: null`: the whole from `start` on; afterwards `start` is taken from the cursor. */
  readonly timelineUpdates: (
    token: RecordingToken,
    from: { readonly start: number | null; readonly cursor: string | null },
  ) => OfRecording<TimelineUpdates, InvalidCursor>
  /** `date`: `YYYY-MM-DD`; `timeZone`: an IANA name. */
  readonly calendarDay: (token: RecordingToken, date: string, timeZone: string) => OfRecording<CalendarDay>
  /** `month`: `YYYY-MM`. */
  readonly calendarMonth: (token: RecordingToken, month: string, timeZone: string) => OfRecording<CalendarMonthDates>
  /** By start, those that overlap the interval, whole. */
  readonly sessions: (
    token: RecordingToken,
    interval: Interval,
    page: PageRequest,
  ) => OfRecording<PageOf<RecordedSession>, InvalidCursor>
}>()("nightjar/actors/Search") {}
