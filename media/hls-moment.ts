/**
 * The door to footage that has moved: what a playlist told of it, in words of time. Pure.
 *
 * Invariants
 * 1. Texts of other nodes are taken as far as they are understood; what is not is as if it were not there.
 * 2. Names are made of numbers that were read, never of text that was.
 */
import type { Interval } from "#schema/common.ts"
import { decodeTimeComment, type MomentName, momentName, parseMoment, parseName } from "./hls/names.ts"

/** A segment of a media playlist. */
export interface ListedSegment extends Interval {
  readonly name: string
  /** Decode time of its beginning, 90 kHz; null where the playlist does not tell. */
  readonly ticks: number | null
  readonly init: string | null
  /** It is told that its bytes are gone (RFC 8216bis, 4.4.4.7). */
  readonly gap: boolean
}

const dateTag = "#EXT-X-PROGRAM-DATE-TIME:"
const lengthTag = "#EXTINF:"
const gapTag = "#EXT-X-GAP"
const mapTag = /^#EXT-X-MAP:URI="([^"]*)"/
const ticksPerSecond = 90_000

/** Segments whose wall clock is known, in order. */
export const listedIn = (text: string): ReadonlyArray<ListedSegment> => {
  const listed: Array<ListedSegment> = []
  let [atMs, ticks, seconds]: [number, number | null, number] = [Number.NaN, null, 0]
  let [told, gap, init]: [number | null, boolean, string | null] = [null, false, null]
  for (const line of text.split("\n")) {
    if (line.startsWith(decodeTimeComment)) told = Number(line.slice(decodeTimeComment.length))
    else if (line.startsWith(dateTag)) {
      atMs = Date.parse(line.slice(dateTag.length))
      ticks = told !== null && Number.isSafeInteger(told) && told >= 0 ? told : null
      told = null
    } else if (line.startsWith(lengthTag)) seconds = Number.parseFloat(line.slice(lengthTag.length))
    else if (line === gapTag) gap = true
    else if (line.startsWith("#")) init = mapTag.exec(line)?.[1] ?? init
    else if (line !== "") {
      const endMs = atMs + seconds * 1_000
      if (Number.isFinite(endMs) && seconds > 0) {
        listed.push({ name: line, start: Math.round(atMs), end: Math.round(endMs), ticks, init, gap })
      }
      atMs = endMs
      ticks = ticks === null ? null : Math.round(ticks + seconds * ticksPerSecond)
      gap = false
    }
  }
  return listed
}

const named = (what: MomentName["what"], { end, start, ticks }: ListedSegment) => ({
  name: momentName({ what, start, end, ticks: what.kind === "init" ? null : ticks }),
  interval: { start, end },
})

/** The name, in words of time, of a file that a playlist names, and its time; null where that cannot be told. */
export const momentIn = (
  text: string,
  filename: string,
): { readonly name: string; readonly interval: Interval } | null => {
  const what = parseName(filename)
  if (what === null) return null
  const listed = listedIn(text)
  if (what.kind === "init") {
    const first = listed.find(({ init }) => init === filename)
    return first === undefined ? null : named({ kind: "init", sound: what.sound }, first)
  }
  const segment = listed.find(({ name }) => name === filename)
  if (segment === undefined) return null
  return named(what.kind === "text" ? { kind: "text" } : what.variant, segment)
}

/** The time of a name in words of time. */
export const intervalOf = (name: string): Interval | null => {
  const moment = parseMoment(name)
  return moment === null ? null : { start: moment.start, end: moment.end }
}

/** A playlist that does not call these segments gone. */
export const withoutGaps = (text: string, names: ReadonlySet<string>): string => {
  const kept: Array<string> = []
  let gapAt: number | null = null
  for (const line of text.split("\n")) {
    if (line === gapTag) gapAt = kept.length
    else if (line !== "" && !line.startsWith("#")) {
      if (gapAt !== null && names.has(line)) kept.splice(gapAt, 1)
      gapAt = null
    }
    kept.push(line)
  }
  return kept.join("\n")
}
