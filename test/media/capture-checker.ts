/**
 * Judges a node's ledger by its footage. Shares no code with what it judges: it sorts the borders of everything it is given and
 * walks over them.
 */
import type { FileIdentity, IndexEntry } from "#media/storage.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"

export interface MemoryFile {
  readonly id: string
  readonly identity: FileIdentity
  readonly parameters: TrackParameters
  readonly sequence: number
  readonly startMs: number
  readonly entries: Array<IndexEntry>
  sealed: boolean
  dead: boolean
}

export const fileOrder = (a: Pick<SegmentFile, "startMs" | "sequence">, b: Pick<SegmentFile, "startMs" | "sequence">) =>
  a.startMs - b.startMs || a.sequence - b.sequence

interface Border {
  readonly at: number
  readonly kind: "recorded" | "gap"
  readonly by: 1 | -1
  readonly name: string
}

export interface Verdict {
  /** Stretches that are neither recorded nor in a gap, or both, or in two gaps; longer than the tolerance. */
  readonly faults: ReadonlyArray<string>
  readonly recordedMs: number
  readonly missingMs: number
  readonly recordedUntil: number
}

/** Half a frame at 60 a second. */
const toleranceMs = 10

export const judge = (
  spans: ReadonlyArray<{ readonly startMs: number; readonly endMs: number }>,
  gaps: ReadonlyArray<LedgerGap>,
  from: number,
  now: number,
): Verdict => {
  const open = gaps.some((gap) => gap.endMs === null)
  const recordedUntil = spans.reduce((max, span) => Math.max(max, span.endMs), from)
  const until = open ? now : Math.min(now, recordedUntil)
  const borders: Array<Border> = []
  for (const { endMs, startMs } of spans) {
    borders.push({ at: startMs, kind: "recorded", by: 1, name: "" }, { at: endMs, kind: "recorded", by: -1, name: "" })
  }
  for (const gap of gaps) {
    const name = `${gap.cause} ${gap.startMs}`
    borders.push({ at: gap.startMs, kind: "gap", by: 1, name }, {
      at: gap.endMs ?? Math.max(now, gap.startMs),
      kind: "gap",
      by: -1,
      name,
    })
  }
  borders.sort((a, b) => a.at - b.at)
  const faults: Array<string> = []
  const depth = { recorded: 0, gap: 0 }
  let at = from
  let recordedMs = 0
  let missingMs = 0
  const stretch = (end: number) => {
    const [start, stop] = [Math.max(at, from), Math.min(end, until)]
    at = end
    const length = stop - start
    if (length <= 0) return
    if (depth.recorded > 0) recordedMs += length
    if (depth.gap > 0) missingMs += length
    if (length < toleranceMs) return
    if (depth.recorded === 0 && depth.gap === 0) faults.push(`nothing between ${start} and ${stop} (${length} ms)`)
    if (depth.recorded > 0 && depth.gap > 0) {
      faults.push(`recorded and missing between ${start} and ${stop} (${length} ms)`)
    }
    if (depth.gap > 1) faults.push(`two gaps between ${start} and ${stop} (${length} ms)`)
  }
  for (const border of borders) {
    if (border.at > at) stretch(border.at)
    depth[border.kind] += border.by
  }
  stretch(Math.max(at, until))
  return { faults, recordedMs, missingMs, recordedUntil }
}
