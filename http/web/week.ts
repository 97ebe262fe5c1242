/**
 * A week by hours, and the windows of a schedule that say the same.
 *
 * Invariant
 * 1. `windowsOf(weekOf(windows))` applies at the same hours as `windows`, wherever these begin and end at full hours.
 */
import { type RuleSchedule, type Weekday, weekdays } from "#schema/notification-rules.ts"

type Windows = RuleSchedule["windows"]

export const hoursOfDay = 24

/** Hours that are chosen, `<day>-<hour>`; Monday is 0. */
export type Week = ReadonlySet<string>

export const hourKey = (day: number, hour: number): string => `${day}-${hour}`

export const wholeWeek: Week = new Set(
  weekdays.flatMap((_, day) => Array.from({ length: hoursOfDay }, (_, hour) => hourKey(day, hour))),
)

const hourOf = (text: string): number => Number(text.slice(0, 2))

/** Whether the grid can show it as it is. */
export const fullHours = (windows: Windows): boolean =>
  windows.every(({ end, start }) => start.endsWith(":00") && end.endsWith(":00"))

/** Hours that a window touches; one that ends before it begins goes on into the next day. */
export const weekOf = (windows: Windows): Week => {
  const week = new Set<string>()
  for (const { days, end, start } of windows) {
    const first = hourOf(start)
    const last = hourOf(end) + (end.endsWith(":00") ? 0 : 1)
    const length = last > first ? last - first : last + hoursOfDay - first
    for (const name of days) {
      const day = weekdays.indexOf(name)
      for (let hour = first; hour < first + length; hour++) {
        week.add(hourKey((day + Math.floor(hour / hoursOfDay)) % weekdays.length, hour % hoursOfDay))
      }
    }
  }
  return week
}

const clockOf = (hour: number): string => `${String(hour).padStart(2, "0")}:00`

/** Runs of chosen hours of each day; days with the same run share a window. */
export const windowsOf = (week: Week): Windows => {
  const runs = new Map<string, { readonly days: Array<Weekday>; readonly start: string; readonly end: string }>()
  for (const [day, name] of weekdays.entries()) {
    for (let hour = 0; hour < hoursOfDay; hour++) {
      if (!week.has(hourKey(day, hour))) continue
      const first = hour
      while (hour < hoursOfDay && week.has(hourKey(day, hour))) hour++
      const [start, end] = [clockOf(first), clockOf(hour)]
      const run = runs.get(`${start} ${end}`)
      if (run === undefined) runs.set(`${start} ${end}`, { days: [name], start, end })
      else run.days.push(name)
    }
  }
  return [...runs.values()]
}
