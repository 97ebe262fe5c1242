/**
 * A file's share of a playlist as ready text, with the sums a playlist header needs. Pure.
 *
 * Invariants
 * 1. A part depends on the file, its first entry used and the layout alone, never on a session: parts of sealed files are
 *    shared between sessions and kept.
 * 2. The first segment of a part carries its wall clock; what separates it from the part before (discontinuity, map) is
 *    written by the assembly.
 */
import { videoClockHz } from "#schema/media.ts"
import type { IndexEntry } from "../storage.ts"
import { mediaName, prefixOf, textName, type Variant } from "./names.ts"
import { type Grouping, keyEntries, type Segment } from "./plan.ts"

/** How the segments of a playlist are cut and named. `text`: WebVTT beside the pictures. */
export interface Layout {
  readonly grouping: Grouping
  readonly content: Variant | { readonly kind: "text" }
}

/** Footage that plays on without a break. */
export interface Run {
  readonly first: IndexEntry
  readonly endMs: number
  readonly ticks: number
}

export interface Part {
  readonly text: string
  readonly segments: number
  readonly bytes: number
  readonly frames: number
  readonly ticks: number
  /** Longest segment. */
  readonly longestTicks: number
  /** Highest bit rate of a segment that is not a short remainder. */
  readonly peakBps: number
  /** Every segment starts with a key fragment. */
  readonly independent: boolean
  /** Stretches without a discontinuity, in order. */
  readonly runs: ReadonlyArray<Run>
  readonly startMs: number
  readonly endMs: number
  readonly first: IndexEntry
  readonly last: IndexEntry
}

/** A wall clock that strays further than this from the sum of durations is written again. */
const clockToleranceMs = 40

const ticksPerMs = videoClockHz / 1000

/** `#EXT-X-PROGRAM-DATE-TIME` (RFC 8216bis, 4.4.4.6). */
const dateTime = (ms: number) => `#EXT-X-PROGRAM-DATE-TIME:${new Date(ms).toISOString()}\n`

const nameOf = (layout: Layout, fileId: string) => {
  if (layout.content.kind === "text") {
    return (segment: Segment) => textName(fileId, segment.offset, segment.bytes)
  }
  const prefix = prefixOf(layout.content)
  return (segment: Segment) => mediaName(prefix, fileId, segment.offset, segment.bytes)
}

/** Bytes and pictures as they will be sent: a fast player gets key fragments only (their size is an upper bound). */
const contentOf = (
  layout: Layout,
  entries: ReadonlyArray<IndexEntry>,
  segment: Segment,
): { readonly bytes: number; readonly frames: number } => {
  if (layout.content.kind !== "keys") return segment
  const keys = keyEntries(entries, { from: segment.first, to: segment.end }, layout.content.stepMs * ticksPerMs)
  return { bytes: keys.reduce((sum, entry) => sum + entry.bytes, 0), frames: keys.length }
}

/** The text and sums of a file's segments; `null` when there are none. */
export const partOf = (
  fileId: string,
  entries: ReadonlyArray<IndexEntry>,
  segments: ReadonlyArray<Segment>,
  layout: Layout,
): Part | null => {
  const head = segments[0]
  const tail = segments.at(-1)
  if (head === undefined || tail === undefined) return null
  const name = nameOf(layout, fileId)
  const durations = new Map<number, string>()
  let text = ""
  let bytes = 0
  let frames = 0
  let ticks = 0
  let longestTicks = 0
  let peakBps = 0
  let independent = true
  const runs: Array<Run> = []
  let expectedMs = Number.NaN
  for (const segment of segments) {
    if (segment !== head && segment.breaks) {
      text += "#EXT-X-DISCONTINUITY\n"
      expectedMs = Number.NaN
    }
    if (!(Math.abs(segment.startMs - expectedMs) <= clockToleranceMs)) {
      text += dateTime(segment.startMs)
      expectedMs = segment.startMs
    }
    expectedMs += segment.durationTicks / ticksPerMs
    let duration = durations.get(segment.durationTicks)
    if (duration === undefined) {
      duration = `#EXTINF:${(segment.durationTicks / videoClockHz).toFixed(6)},\n`
      durations.set(segment.durationTicks, duration)
    }
    text += `${duration}${name(segment)}\n`
    const content = contentOf(layout, entries, segment)
    bytes += content.bytes
    frames += content.frames
    ticks += segment.durationTicks
    longestTicks = Math.max(longestTicks, segment.durationTicks)
    if (segment.durationTicks * 2 >= layout.grouping.targetTicks) {
      peakBps = Math.max(peakBps, content.bytes * 8 * videoClockHz / segment.durationTicks)
    }
    independent &&= segment.key
    const run = segment === head || segment.breaks ? undefined : runs.pop()
    runs.push({
      first: run?.first ?? entries[segment.first] as IndexEntry,
      endMs: segment.endMs,
      ticks: (run?.ticks ?? 0) + segment.durationTicks,
    })
  }
  return {
    text,
    segments: segments.length,
    bytes,
    frames,
    ticks,
    longestTicks,
    peakBps,
    independent,
    runs,
    startMs: head.startMs,
    endMs: tail.endMs,
    first: entries[head.first] as IndexEntry,
    last: entries[tail.end - 1] as IndexEntry,
  }
}
