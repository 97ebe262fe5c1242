/**
 * Whether a popup rule applies to an event: its schedule, its filter. Pure.
 *
 * Invariants
 * 1. A schedule is read off the clocks on the wall of its zone, whose rules (daylight saving and its changes) are those of the
 *    platform's IANA database. An hour that comes twice counts twice, one that is left out never comes.
 * 2. `[start, end)`: the minute `end` names is outside.
 */
import type { EpochMs } from "./common.ts"
import { atLeast, type StoredEvent } from "./event.ts"
import { type RuleFilter, type RuleSchedule, type Weekday, weekdays } from "./notification-rules.ts"
import { resourceKey } from "./permission.ts"

const minutesOf = (time: string): number => Number(time.slice(0, 2)) * 60 + Number(time.slice(3))

/** Making one is slow, and there are as many as zones that are used. */
const formats = new Map<string, Intl.DateTimeFormat>()
const mostFormats = 64
const formatOf = (timeZone: string): Intl.DateTimeFormat => {
  const known = formats.get(timeZone)
  if (known !== undefined) return known
  if (formats.size >= mostFormats) formats.clear()
  const made = new Intl.DateTimeFormat("en-US", {
    timeZone,
    weekday: "long",
    hour: "2-digit",
    minute: "2-digit",
    hourCycle: "h23",
  })
  formats.set(timeZone, made)
  return made
}

/** What a clock on a wall shows. */
const wallClock = (timeZone: string, atMs: EpochMs): { readonly day: Weekday; readonly minute: number } => {
  const parts = new Map(formatOf(timeZone).formatToParts(atMs).map(({ type, value }) => [type, value]))
  return {
    day: parts.get("weekday")!.toLowerCase() as Weekday,
    minute: Number(parts.get("hour")) * 60 + Number(parts.get("minute")),
  }
}

const dayBefore = (day: Weekday): Weekday => weekdays[(weekdays.indexOf(day) + 6) % 7]!

/** Whether the schedule covers a moment. */
export const isScheduled = (schedule: RuleSchedule | null, atMs: EpochMs): boolean => {
  if (schedule === null) return true
  const { day, minute } = wallClock(schedule.timeZone, atMs)
  return schedule.windows.some(({ days, end, start }) => {
    const from = minutesOf(start)
    const to = minutesOf(end)
    if (from < to) return days.includes(day) && minute >= from && minute < to
    return (days.includes(day) && minute >= from) || (days.includes(dayBefore(day)) && minute < to)
  })
}

const fits = (pattern: string, type: string): boolean =>
  pattern.endsWith(".*") ? type.startsWith(pattern.slice(0, -1)) : pattern === type

/** What a rule's cameras and resource groups hold, as `camera:<id>`; `null`: the rule does not ask where. */
export type Within = ReadonlySet<string> | null

/** Whether an event passes the filter; what the filter's resource groups hold is looked up before. */
export const passes = (filter: RuleFilter, within: Within, { event, resource }: StoredEvent): boolean =>
  atLeast(event.severity, filter.minimumSeverity) &&
  (filter.types.length === 0 || filter.types.some((pattern) => fits(pattern, event.type))) &&
  (within === null || resource.some((one) => within.has(resourceKey(one))))
