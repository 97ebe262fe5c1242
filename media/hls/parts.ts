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
import type { FragmentTable } from "../storage/fragment-table.ts"
import { decodeTimeComment, mediaNames, type RangeNames, textNames, type Variant } from "./names.ts"
import { type Grouping, keyEntries, type Plan } from "./plan.ts"

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

/** `#EXT-X-PROGRAM-DATE-TIME` (RFC 8216bis, 4.4.4.6), and, in a comment (4.1), the decode time it belongs to. */
const dateTime = (ms: number, ticks: number) =>
  `${decodeTimeComment}${ticks}\n#EXT-X-PROGRAM-DATE-TIME:${new Date(ms).toISOString()}\n`

const namesOf = ({ content }: Layout, fileId: string): RangeNames =>
  content.kind === "text" ? textNames(fileId) : mediaNames(content, fileId)

/** `EXTINF` (4.4.4.1) and the front of the name that follows it; most segments of a file have one of a few lengths. */
const makeLeads = (before: string) => {
  const leads = new Map<number, string>()
  return (ticks: number): string => {
    const known = leads.get(ticks)
    if (known !== undefined) return known
    const lead = `#EXTINF:${(ticks / videoClockHz).toFixed(6)},\n${before}`
    leads.set(ticks, lead)
    return lead
  }
}

/** Sums over the rows of segments. */
class Sums {
  bytes = 0
  frames = 0
  ticks = 0
  longestTicks = 0
  peakBps = 0
  independent = true

  /** `stepTicks`: a fast player gets key fragments only (their size is an upper bound); 0 for all. */
  add(table: FragmentTable, first: number, end: number, stepTicks: number, leastTicks: number): number {
    const ticks = table.endTicks(end - 1) - table.decodeTicks(first)
    let bytes = table.endOffset(end - 1) - table.offset(first)
    if (stepTicks > 0) {
      const keys = keyEntries(table, { from: first, to: end }, stepTicks)
      bytes = keys.reduce((sum, entry) => sum + entry.bytes, 0)
      this.frames += keys.length
    } else for (let row = first; row < end; row++) this.frames += table.frames(row)
    this.bytes += bytes
    this.ticks += ticks
    if (ticks > this.longestTicks) this.longestTicks = ticks
    if (ticks >= leastTicks) this.peakBps = Math.max(this.peakBps, bytes * 8 * videoClockHz / ticks)
    this.independent &&= table.key(first)
    return ticks
  }
}

/** The text and sums of a file's segments; `null` when there are none. */
export const partOf = (fileId: string, table: FragmentTable, plan: Plan, layout: Layout): Part | null => {
  const { breaks, edges } = plan
  const segments = edges.length - 1
  if (segments < 1) return null
  const { before, behind } = namesOf(layout, fileId)
  const leadOf = makeLeads(before)
  const afterName = `${behind}\n`
  const { content } = layout
  const stepTicks = content.kind === "keys" ? content.stepMs * ticksPerMs : 0
  const leastTicks = layout.grouping.targetTicks / 2
  const sums = new Sums()
  const runs: Array<Run> = []
  // Joined at once: a text that grows by concatenation stays a tree of its pieces, which the garbage collector carries about.
  const lines: Array<string | number> = []
  let expectedMs = Number.NaN
  let runFirst = edges[0] as number
  let runTicks = 0
  for (let segment = 0; segment < segments; segment++) {
    const first = edges[segment] as number
    const end = edges[segment + 1] as number
    const startMs = table.startMs(first)
    if (segment > 0 && breaks.has(first)) {
      lines.push("#EXT-X-DISCONTINUITY\n")
      expectedMs = Number.NaN
      runs.push({ first: table.at(runFirst), endMs: table.endMs(first - 1), ticks: runTicks })
      runFirst = first
      runTicks = 0
    }
    if (!(Math.abs(startMs - expectedMs) <= clockToleranceMs)) {
      lines.push(dateTime(startMs, table.decodeTicks(first)))
      expectedMs = startMs
    }
    const ticks = sums.add(table, first, end, stepTicks, leastTicks)
    const offset = table.offset(first)
    lines.push(leadOf(ticks), offset, "-", table.endOffset(end - 1) - offset, afterName)
    expectedMs += ticks / ticksPerMs
    runTicks += ticks
  }
  const last = (edges[segments] as number) - 1
  runs.push({ first: table.at(runFirst), endMs: table.endMs(last), ticks: runTicks })
  const { bytes, frames, independent, longestTicks, peakBps, ticks } = sums
  return {
    text: lines.join(""),
    segments,
    bytes,
    frames,
    ticks,
    longestTicks,
    peakBps,
    independent,
    runs,
    startMs: table.startMs(edges[0] as number),
    endMs: table.endMs(last),
    first: table.at(edges[0] as number),
    last: table.at(last),
  }
}
