/** Times as people read them, in the browser's own time zone; lengths and sizes with their units. */

const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
})
const minutes = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  year: "numeric",
  month: "short",
  day: "numeric",
  hour: "2-digit",
  minute: "2-digit",
  second: "2-digit",
  hourCycle: "h23",
})
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" })
const month = new Intl.DateTimeFormat(undefined, { month: "long", year: "numeric" })

export const second = 1000
export const minute = 60 * second
export const hour = 60 * minute
export const dayLength = 24 * hour

/** The browser's time zone, by its IANA name. */
export const timeZone: string = Intl.DateTimeFormat().resolvedOptions().timeZone

export const clockOf = (ms: number): string => clock.format(ms)
export const minuteOf = (ms: number): string => minutes.format(ms)
export const dayOf = (ms: number): string => day.format(ms)
export const momentOf = (ms: number): string => dayAndClock.format(ms)
export const monthOf = (ms: number): string => month.format(ms)

/** `1 d 3 h`, `2 h 5 min`, `3 min 4 s`, `5.2 s`, `40 ms`. */
export const lengthOf = (ms: number): string => {
  if (ms < second) return `${Math.round(ms)} ms`
  if (ms < minute) return `${(ms / second).toFixed(1)} s`
  if (ms < hour) return `${Math.floor(ms / minute)} min ${Math.floor(ms % minute / second)} s`
  if (ms < dayLength) return `${Math.floor(ms / hour)} h ${Math.floor(ms % hour / minute)} min`
  return `${Math.floor(ms / dayLength)} d ${Math.floor(ms % dayLength / hour)} h`
}

const units = ["B", "KiB", "MiB", "GiB", "TiB"]

/** `1.5 GiB` */
export const sizeOf = (bytes: number): string => {
  const power = bytes < 1 ? 0 : Math.min(units.length - 1, Math.floor(Math.log2(bytes) / 10))
  return `${(bytes / 1024 ** power).toFixed(power === 0 ? 0 : 1)} ${units[power]}`
}

/** `4.0 Mbit/s` */
export const megabits = (bps: number): string => `${(bps / 1_000_000).toFixed(1)} Mbit/s`

/** A share in percent that says 100 only when nothing is missing. */
export const percentOf = (part: number, whole: number): string => {
  if (whole <= 0) return "—"
  if (part >= whole) return "100 %"
  return `${(Math.floor(part / whole * 100_000) / 1000).toFixed(part / whole > 0.99 ? 3 : 1)} %`
}

const two = (value: number): string => String(value).padStart(2, "0")

/** Local date of a moment, `YYYY-MM-DD`. */
export const dateOf = (ms: number): string => {
  const at = new Date(ms)
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`
}

/** Value of a `datetime-local` field. */
export const fieldOf = (ms: number): string => {
  const at = new Date(ms)
  return `${dateOf(ms)}T${two(at.getHours())}:${two(at.getMinutes())}:${two(at.getSeconds())}`
}

/** Causes of gaps in words. */
const causeText: Readonly<Record<string, string>> = {
  starting: "waiting for the first picture",
  camera_offline: "camera offline",
  publisher_away: "the phone was not sending",
  camera_frozen: "camera sent no pictures",
  auth_failed: "camera refused the password",
  stream_invalid: "unreadable stream",
  packet_loss: "packets lost",
  stream_changed: "camera changed its stream",
  clock_step: "clock set forward",
  node_down: "recorder not running",
  takeover: "takeover between recorders",
  disk_full: "disk full",
  disk_error: "disk error",
  disk_slow: "disk too slow",
  operator_paused: "paused by a person",
  segment_missing: "file missing",
}

export const causeOf = (cause: string): string => causeText[cause] ?? cause
