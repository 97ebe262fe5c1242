/**
 * What a player asks PLAY for of recorded footage: `Range` and `Scale` (RFC 2326, sections 12.29, 12.34 and 3.5 to 3.7), and what ONVIF
 * adds (Streaming Specification, section 6): `Rate-Control`, `Frames`, `Immediate`.
 *
 * Invariants
 * 1. Reading is total. A header that cannot be read, or asks for what is not offered, is an answer of status 456 or 457, never a guess.
 * 2. Times are milliseconds: of `clock` and `ntp` since the epoch, of `npt` since the beginning of the interval.
 */
import { type Head, header } from "../rtsp/message.ts"

/** `ntp`: GStreamer, told of a range by the clock, asks for seconds since 1900 and calls them `npt`. */
export type RangeStyle = "clock" | "npt" | "ntp"

/** Of the asked range; null where an end is left open. `style` is that of the answer. */
export interface PlayRange {
  readonly style: RangeStyle
  readonly fromMs: number | null
  readonly toMs: number | null
}

export interface PlayRequest {
  /** Null: as it was, or from where it was paused. */
  readonly range: PlayRange | null
  /** One of {@link scales}; negative: backwards. */
  readonly scale: number
  /** False: as fast as the connection takes it, in the times that it was recorded in. */
  readonly paced: boolean
  /** Key pictures alone, and not more often than every so many milliseconds of footage. */
  readonly keysEveryMs: number | null
  /** What plays is left at once. */
  readonly immediate: boolean
}

/** Offered speeds; from the second on of key pictures alone. */
export const scales = [1, 2, 4, 8, 16] as const

const maxHeader = 256
/** From 1900 to 1970. */
const unixInNtp = -Date.UTC(1900, 0, 1)
const clockTime = /^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(\d{2})(\.\d{1,9})?Z$/
const hours = /^(\d{1,6}):(\d{1,2}):(\d{1,2}(?:\.\d{1,9})?)$/
const seconds = /^\d{1,10}(?:\.\d{0,9})?$/

const clockMs = (text: string): number | null => {
  const match = clockTime.exec(text)
  if (match === null) return null
  const [year, month, day, hour, minute, second] = match.slice(1, 7)
  const whole = `${year}-${month}-${day}T${hour}:${minute}:${second}Z`
  const ms = Date.parse(whole)
  // A day that does not exist is rolled on by some engines: what is written back must be what was read.
  if (Number.isNaN(ms) || new Date(ms).toISOString().slice(0, 19) !== whole.slice(0, 19)) return null
  return ms + Math.floor(Number(`0${match[7] ?? ""}`) * 1000)
}

const nptMs = (text: string): number | null => {
  if (text === "now") return 0
  if (seconds.test(text)) return Math.round(Number(text) * 1000)
  const match = hours.exec(text)
  return match === null ?
    null :
    Math.round((Number(match[1]) * 3600 + Number(match[2]) * 60 + Number(match[3])) * 1000)
}

/** Null: it cannot be read. */
export const rangeOf = (text: string): PlayRange | null => {
  const match = text.length > maxHeader ?
    null :
    /^\s*(clock|npt)\s*=\s*([^-\s]*)\s*-\s*([^-;\s]*)\s*(?:;.*)?$/i.exec(text)
  if (match === null) return null
  const style = match[1]!.toLowerCase() === "clock" ? "clock" : "npt"
  const read = style === "clock" ? clockMs : nptMs
  const [from, to] = match.slice(2, 4).map((part) => part === "" ? null : read(part) ?? Number.NaN)
  if (from === undefined || to === undefined || Number.isNaN(from) || Number.isNaN(to)) return null
  if (from === null && to === null) return null
  const absolute = style === "npt" && [from, to].every((ms) => ms === null || ms >= unixInNtp)
  if (!absolute) return { style, fromMs: from, toMs: to }
  return { style: "ntp", fromMs: from === null ? null : from - unixInNtp, toMs: to === null ? null : to - unixInNtp }
}

/** The offered speed that is nearest below the asked one (section 12.34 lets a server choose); null: it cannot be read. */
export const scaleOf = (text: string): number | null => {
  const asked = /^\s*[+-]?\d{1,4}(?:\.\d{1,6})?\s*$/.test(text) ? Number(text) : 0
  if (asked === 0) return null
  const speed = scales.findLast((one) => one <= Math.abs(asked)) ?? 1
  return asked < 0 ? -speed : speed
}

/** `all`, `intra` or `intra/<milliseconds>`; undefined: another, or it cannot be read. */
const framesOf = (text: string): number | null | undefined => {
  const match = /^\s*(?:(all)|intra(?:\/(\d{1,9}))?)\s*$/i.exec(text)
  return match === null ? undefined : match[1] !== undefined ? null : Number(match[2] ?? 0)
}

const yesOrNo = (text: string | null, otherwise: boolean): boolean | null => {
  const word = (text ?? (otherwise ? "yes" : "no")).trim().toLowerCase()
  return word === "yes" ? true : word === "no" ? false : null
}

/** The status of the refusal where something cannot be had: 457 for a range, 456 for any other header. */
export const readPlay = (head: Head): PlayRequest | 456 | 457 => {
  const asked = header(head, "range")
  const range = asked === null ? null : rangeOf(asked)
  if (asked !== null && range === null) return 457
  const scale = scaleOf(header(head, "scale") ?? "1")
  const keysEveryMs = framesOf(header(head, "frames") ?? "all")
  const paced = yesOrNo(header(head, "rate-control"), true)
  const immediate = yesOrNo(header(head, "immediate"), false)
  if (scale === null || keysEveryMs === undefined || paced === null || immediate === null) return 456
  return {
    range,
    scale,
    paced,
    keysEveryMs: keysEveryMs ?? (Math.abs(scale) > 1 ? 0 : null),
    immediate,
  }
}

/** `20261121T210605.123Z`. */
export const clockText = (ms: number): string => new Date(ms).toISOString().replaceAll(/[-:]/g, "")

/** Both ends in epoch milliseconds; `startMs`: the beginning of the interval, which `npt` counts from. */
export const rangeText = (style: RangeStyle, fromMs: number, toMs: number, startMs: number): string => {
  if (style === "clock") return `clock=${clockText(fromMs)}-${clockText(toMs)}`
  const zeroMs = style === "ntp" ? -unixInNtp : startMs
  return `npt=${((fromMs - zeroMs) / 1000).toFixed(3)}-${((toMs - zeroMs) / 1000).toFixed(3)}`
}
