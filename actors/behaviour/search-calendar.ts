/**
 * Days of a time zone as instants. Pure.
 *
 * Invariants
 * 1. A day begins with the first instant that bears its date and ends where the next day begins, so the days of a month
 *    leave nothing out and share nothing, whatever the clocks do.
 */
import type { Interval } from "#schema/common.ts"
import type { CalendarEntry } from "#schema/search.ts"
import { DateTime } from "effect"
import { clip, lengthOf } from "./search-timeline.ts"

/** A date, without zone. `month` and `day` from 1; a day beyond the month is one of the next. */
interface DateParts {
  readonly year: number
  readonly month: number
  readonly day: number
}

const partsOf = (date: string): DateParts => ({
  year: Number(date.slice(0, 4)),
  month: Number(date.slice(5, 7)),
  day: Number(date.slice(8, 10)),
})

/**
 * First instant of a date. Midnight may come twice (the first counts) or not at all (then the first moment after it counts,
 * which is what "compatible" means in both cases).
 */
const beginOf = ({ day, month, year }: DateParts, zone: DateTime.TimeZone): number =>
  DateTime.toEpochMillis(DateTime.makeZonedUnsafe(new Date(Date.UTC(year, month - 1, day)), {
    timeZone: zone,
    adjustForTimeZone: true,
    disambiguation: "compatible",
  }))

/** The day `YYYY-MM-DD` of a zone; empty where the zone skipped it. The zone must be known. */
export const dayInterval = (date: string, timeZone: string): Interval => {
  const zone = DateTime.zoneMakeNamedUnsafe(timeZone)
  const parts = partsOf(date)
  return { start: beginOf(parts, zone), end: beginOf({ ...parts, day: parts.day + 1 }, zone) }
}

/** What of each day is recorded and missing; days without footage are left out. */
export const datesOf = (
  days: ReadonlyArray<Interval & { readonly date: string }>,
  { gaps, spans }: { readonly gaps: ReadonlyArray<Interval>; readonly spans: ReadonlyArray<Interval> },
): ReadonlyArray<CalendarEntry> =>
  days.map((day): CalendarEntry => ({
    ...day,
    recordedMs: lengthOf(clip(spans, day)),
    missingMs: lengthOf(clip(gaps, day)),
  })).filter(({ recordedMs }) => recordedMs > 0)

/** The days of the month `YYYY-MM`, in order. */
export const monthDays = (month: string, timeZone: string): ReadonlyArray<Interval & { readonly date: string }> => {
  const zone = DateTime.zoneMakeNamedUnsafe(timeZone)
  const { year, month: number } = partsOf(`${month}-01`)
  const count = new Date(Date.UTC(year, number, 0)).getUTCDate()
  return Array.from({ length: count }, (_, i) => ({
    date: `${month}-${String(i + 1).padStart(2, "0")}`,
    start: beginOf({ year, month: number, day: i + 1 }, zone),
    end: beginOf({ year, month: number, day: i + 2 }, zone),
  }))
}
