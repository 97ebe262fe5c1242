/**
 * Words of search: timelines, calendars and recorded sessions of one recording.
 *
 * Invariants
 * 1. A gap is never lost by rounding: where something is missing within a pixel, the pixel says so.
 * 2. A calendar day is the day of the asked time zone: 23, 24 or 25 hours, or none at all where a zone skipped it.
 */
import { Schema } from "effect"
import { Instant, RecordingToken } from "./common.ts"
import { Gap, GapCause, Span } from "./record.ts"

export const Timeline = Schema.Struct({
  recordingToken: RecordingToken,
  start: Instant,
  end: Instant,
  spans: Schema.Array(Span),
  gaps: Schema.Array(Gap),
})
export type Timeline = typeof Timeline.Type

/** Columns of a viewport: 1 to 10,000. */
export const Pixels = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 10_000 }))

/** Gaps of one cause in neighbouring pixels, as one. */
export const PixelGap = Schema.Struct({
  start: Instant,
  end: Instant,
  cause: GapCause,
  /** Gaps that begin within. */
  count: Schema.Int,
  missingMs: Schema.Int,
})
export type PixelGap = typeof PixelGap.Type

/**
 * A timeline for a screen: bounds lie on whole pixels, counted from `start`. A pixel with both pictures and a gap is in both
 * lists.
 */
export const TimelineRange = Schema.Struct({
  recordingToken: RecordingToken,
  start: Instant,
  end: Instant,
  /** Length of a pixel, milliseconds; the last one may be shorter. */
  pixelMs: Schema.Int,
  spans: Schema.Array(Span),
  gaps: Schema.Array(PixelGap),
})
export type TimelineRange = typeof TimelineRange.Type

/** What changed since a cursor: all that was known from `start` on is replaced by this. */
export const TimelineUpdates = Schema.Struct({
  recordingToken: RecordingToken,
  /** Earlier parts changed too (retention, footage that came later): forget everything, this is the whole. */
  reset: Schema.Boolean,
  start: Instant,
  end: Instant,
  spans: Schema.Array(Span),
  gaps: Schema.Array(Gap),
  /** For the next call. */
  cursor: Schema.String,
})
export type TimelineUpdates = typeof TimelineUpdates.Type

const daysOfMonth = (year: number, month: number) => new Date(Date.UTC(year, month, 0)).getUTCDate()

/** `YYYY-MM`, 1970 to 2199. */
export const CalendarMonth = Schema.String.check(Schema.isPattern(/^(19[7-9]\d|2[01]\d\d)-(0[1-9]|1[0-2])$/))

/** `YYYY-MM-DD`, a date that exists. */
export const CalendarDate = Schema.String.check(
  Schema.isPattern(/^(19[7-9]\d|2[01]\d\d)-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$/),
  Schema.makeFilter((text: string) =>
    Number(text.slice(8)) <= daysOfMonth(Number(text.slice(0, 4)), Number(text.slice(5, 7))) ||
    "Expected a date that exists"
  ),
)

const knownZone = (name: string): boolean => {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).resolvedOptions().timeZone !== ""
  } catch {
    return false
  }
}

/** A name of the IANA time zone database, such as `Europe/Berlin`; offsets are not names. */
export const TimeZoneName = Schema.String.check(
  Schema.isPattern(/^[A-Za-z][A-Za-z0-9_+/-]{0,63}$/),
  Schema.makeFilter((name: string) => knownZone(name) || "Expected the name of an IANA time zone"),
)

export const CalendarDay = Schema.Struct({
  recordingToken: RecordingToken,
  date: Schema.String,
  timeZone: Schema.String,
  /** The day as instants; equal where the zone skipped it. */
  start: Instant,
  end: Instant,
  recordedMs: Schema.Int,
  missingMs: Schema.Int,
  spans: Schema.Array(Span),
  gaps: Schema.Array(Gap),
})
export type CalendarDay = typeof CalendarDay.Type

/** A date with footage. */
export const CalendarEntry = Schema.Struct({
  date: Schema.String,
  start: Instant,
  end: Instant,
  recordedMs: Schema.Int,
  missingMs: Schema.Int,
})
export type CalendarEntry = typeof CalendarEntry.Type

export const CalendarMonthDates = Schema.Struct({
  recordingToken: RecordingToken,
  month: Schema.String,
  timeZone: Schema.String,
  /** Dates on which something was recorded, in order. */
  dates: Schema.Array(CalendarEntry),
})
export type CalendarMonthDates = typeof CalendarMonthDates.Type

/** Footage without interruption, whatever nodes recorded it. */
export const RecordedSession = Schema.Struct({
  start: Instant,
  end: Instant,
  durationMs: Schema.Int,
})
export type RecordedSession = typeof RecordedSession.Type
