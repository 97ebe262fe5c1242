/** Days of a time zone as bounds for counting, and counts as days. Pure. */
import type { AuditDay } from "#schema/auth-audit.ts"
import type { EpochMs } from "#schema/common.ts"
import { DateTime } from "effect"
import type { AuditCount } from "../store/auth-audit.ts"

/** Longest range that is counted by day: a leap year. */
export const mostDays = 366

/** First instant of each day that the range touches, and of the day behind; the zone must be known. */
export const dayBounds = (
  start: EpochMs,
  end: EpochMs,
  timeZone: string,
): { readonly dates: ReadonlyArray<string>; readonly bounds: ReadonlyArray<EpochMs> } => {
  const zone = DateTime.zoneMakeNamedUnsafe(timeZone)
  const { day, month, year } = DateTime.toParts(DateTime.setZone(DateTime.makeUnsafe(start), zone))
  const dates: Array<string> = []
  const bounds: Array<EpochMs> = []
  for (let i = 0; i <= mostDays + 1; i++) {
    const date = new Date(Date.UTC(year, month - 1, day + i))
    // Midnight may come twice (the first counts) or not at all (then the first moment after it).
    const begin = DateTime.toEpochMillis(
      DateTime.makeZonedUnsafe(date, { timeZone: zone, adjustForTimeZone: true, disambiguation: "compatible" }),
    )
    bounds.push(begin)
    if (begin >= end) break
    dates.push(date.toISOString().slice(0, 10))
  }
  return { dates, bounds }
}

/** Every date once, also those without entries. */
export const daysOf = (dates: ReadonlyArray<string>, counts: ReadonlyArray<AuditCount>): ReadonlyArray<AuditDay> =>
  dates.map((date, day) => {
    const outcomes = { success: 0, failure: 0, refused: 0 }
    const groups: Record<string, number> = {}
    let total = 0
    for (const one of counts) {
      if (one.day !== day) continue
      total += one.count
      outcomes[one.outcome] += one.count
      groups[one.group] = (groups[one.group] ?? 0) + one.count
    }
    return { date, total, outcomes, groups }
  })
