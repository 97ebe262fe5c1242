/**
 * WebVTT beside the pictures: the wall clock, second by second, and what is missing. Pure.
 *
 * Invariants
 * 1. The map in a segment's header (RFC 8216bis, 3.1.4) ties cue time 0 to the decode time of its first fragment, so cues
 *    follow the pictures over any discontinuity.
 * 2. Cues of a segment lie within it, so none is shown twice.
 */
import { videoClockHz } from "#schema/media.ts"
import type { Gap } from "#schema/record.ts"
import type { IndexEntry } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import type { Run } from "./parts.ts"
import { continuesAt, type Rows } from "./plan.ts"
import { joins, type PlacedPart } from "./playlist.ts"

const ticksPerMs = videoClockHz / 1000

/** How long the note about a gap stays on the screen after it. */
const gapNoteMs = 4_000

/** The end of a gap and the first fragment after it are told by different clocks' readings; this much apart is still one moment. */
const gapToleranceMs = 1_500

/** MPEG-2 time stamps have 33 bits. */
const mpegTimeWrap = 2 ** 33

const two = (value: number) => String(value).padStart(2, "0")

/** `HH:MM:SS.mmm` of a cue. */
const cueTime = (ms: number) => {
  const whole = Math.max(0, Math.round(ms))
  const second = Math.floor(whole / 1000)
  const rest = String(whole % 1000).padStart(3, "0")
  return `${two(Math.floor(second / 3600))}:${two(Math.floor(second / 60) % 60)}:${two(second % 60)}.${rest}`
}

const wallTime = (ms: number) => `${new Date(ms).toISOString().slice(0, 19).replace("T", " ")} UTC`

const lengthOf = (ms: number) => {
  const seconds = Math.round(ms / 1000)
  if (seconds < 60) return `${seconds} s`
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min`
}

const causeText = (cause: Gap["cause"]) => cause.replaceAll("_", " ")

/** A WebVTT segment for rows of a file. `gaps`: those that may end within it. `movedTicks`: so much later are its pictures served. */
export const cuesOf = (table: FragmentTable, { from, to }: Rows, gaps: ReadonlyArray<Gap>, movedTicks = 0): string => {
  const headTicks = table.decodeTicks(from)
  const mapped = Math.max(0, headTicks + movedTicks) % mpegTimeWrap
  const lines = [`WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:${mapped},LOCAL:00:00:00.000\n`]
  const lengthMs = (table.endTicks(to - 1) - headTicks) / ticksPerMs
  for (let row = from; row < to; row++) {
    const startMs = table.startMs(row)
    const localMs = (table.decodeTicks(row) - headTicks) / ticksPerMs
    const rowMs = table.durationTicks(row) / ticksPerMs
    const note = row === 0 || !continuesAt(table, row) ? gapBefore(table.at(row), gaps) : undefined
    if (note !== undefined) lines.push(cue(localMs, Math.min(localMs + gapNoteMs, lengthMs), gapText(note)))
    for (let wall = startMs; wall < startMs + rowMs;) {
      const next = Math.min(Math.floor(wall / 1000) * 1000 + 1000, startMs + rowMs)
      lines.push(cue(localMs + wall - startMs, localMs + next - startMs, wallTime(wall)))
      wall = next
    }
  }
  return lines.join("\n")
}

const cue = (fromMs: number, toMs: number, text: string) => `${cueTime(fromMs)} --> ${cueTime(toMs)}\n${text}\n`

const gapBefore = (entry: IndexEntry, gaps: ReadonlyArray<Gap>) =>
  gaps.find((gap) => Math.abs(gap.end - entry.startMs) <= gapToleranceMs)

const gapText = (gap: Gap) => `Nothing recorded for ${lengthOf(gap.end - gap.start)}: ${causeText(gap.cause)}`

/** Runs of a playlist, those that go on from one file to the next joined. */
const runsOf = (parts: ReadonlyArray<PlacedPart>): ReadonlyArray<Run> => {
  const runs: Array<Run> = []
  let previous: PlacedPart | undefined
  for (const placed of parts) {
    const [head, ...rest] = placed.part.runs
    if (head === undefined) continue
    const open = previous !== undefined && joins(previous, placed) ? runs.pop() : undefined
    runs.push(
      open === undefined ? head : { first: open.first, endMs: head.endMs, ticks: open.ticks + head.ticks },
      ...rest,
    )
    previous = placed
  }
  return runs
}

/**
 * The whole session's metadata in one WebVTT file: a cue for each run of footage, with the gap before it, as JSON. Cue times
 * are those of the media playlist, whose first segment begins at 0.
 */
export const metadataOf = (parts: ReadonlyArray<PlacedPart>, gaps: ReadonlyArray<Gap>): string => {
  const lines = ["WEBVTT\n"]
  let atMs = 0
  for (const run of runsOf(parts)) {
    const gap = gapBefore(run.first, gaps)
    const data = {
      start: new Date(run.first.startMs).toISOString(),
      end: new Date(run.endMs).toISOString(),
      gapBefore: gap === undefined ?
        null :
        { start: new Date(gap.start).toISOString(), end: new Date(gap.end).toISOString(), cause: gap.cause },
    }
    lines.push(cue(atMs, atMs + run.ticks / ticksPerMs, JSON.stringify(data)))
    atMs += run.ticks / ticksPerMs
  }
  return lines.join("\n")
}
