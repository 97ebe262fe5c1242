/**
 * Judges a ledger by the frame numbers in the footage. The cameras send by an even clock, so that a frame's number tells when it was
 * due: that, and not what the product says of itself, is the time everything is compared with.
 */
import type { StoredFrame } from "./footage.ts"

export interface LedgerSpan {
  readonly startMs: number
  readonly endMs: number | null
  readonly cause: string
}

/** Numbers that are not there, `[from, to)`, and when they were due. */
export interface MissingFrames {
  readonly from: number
  readonly to: number
  readonly startMs: number
  readonly endMs: number
  /** Causes of the gaps that tell of it. */
  readonly causes: ReadonlyArray<string>
}

export interface Verdict {
  readonly frames: number
  readonly missing: ReadonlyArray<MissingFrames>
  readonly faults: ReadonlyArray<string>
  /** Farthest that a stored picture lies from the moment it was due, ms. */
  readonly wallErrorMs: number
  /** Farthest that the end of a gap lies from the frame it borders on, ms. */
  readonly gapErrorMs: number
}

/** When frame n was due: the least late of all tells where the camera's clock began. */
export const dueOf = (frames: ReadonlyArray<{ readonly frame: number; readonly sentMs: number }>, frameMs: number) => {
  const beginMs = frames.reduce((least, { frame, sentMs }) => Math.min(least, sentMs - frame * frameMs), Infinity)
  return (frame: number): number => beginMs + frame * frameMs
}

/** Gaps that touch are one stretch. */
const stretchesOf = (gaps: ReadonlyArray<LedgerSpan>) => {
  const stretches: Array<{ startMs: number; endMs: number; causes: Array<string> }> = []
  for (const gap of gaps.toSorted((a, b) => a.startMs - b.startMs)) {
    const last = stretches.at(-1)
    const endMs = gap.endMs ?? Infinity
    if (last !== undefined && gap.startMs - last.endMs <= 1) {
      last.endMs = Math.max(last.endMs, endMs)
      last.causes.push(gap.cause)
    } else stretches.push({ startMs: gap.startMs, endMs, causes: [gap.cause] })
  }
  return stretches
}

/**
 * `frames`: of one stream, in any order. Every stretch of missing numbers must be a gap of the ledger and the other way round,
 * both ends within `frameMs`; before the first frame there may be one gap more, behind the last another.
 */
export const judge = (
  frames: ReadonlyArray<StoredFrame>,
  gaps: ReadonlyArray<LedgerSpan>,
  frameMs: number,
): Verdict => {
  const faults: Array<string> = []
  const sorted = frames.toSorted((a, b) => a.frame - b.frame)
  const [first, last] = [sorted[0], sorted.at(-1)]
  if (first === undefined || last === undefined) {
    return { frames: 0, missing: [], faults: ["nothing is stored"], wallErrorMs: 0, gapErrorMs: 0 }
  }
  const due = dueOf(sorted, frameMs)
  let wallErrorMs = 0
  const ranges: Array<readonly [from: number, to: number]> = []
  sorted.forEach(({ frame, wallMs }, i) => {
    wallErrorMs = Math.max(wallErrorMs, Math.abs(wallMs - due(frame)))
    const before = sorted[i - 1]?.frame ?? frame - 1
    if (frame === before) faults.push(`frame ${frame} is stored twice`)
    if (frame > before + 1) ranges.push([before + 1, frame])
  })
  if (wallErrorMs > frameMs) faults.push(`a picture stands ${wallErrorMs.toFixed(0)} ms from when it was due`)
  const inside = stretchesOf(gaps).filter((gap) =>
    gap.endMs > due(first.frame) + frameMs && gap.startMs < due(last.frame)
  )
  let gapErrorMs = 0
  const missing = ranges.map(([from, to]): MissingFrames => {
    const [startMs, endMs] = [due(from), due(to)]
    const at = inside.findIndex((gap) => gap.startMs < endMs && gap.endMs > startMs)
    const gap = inside[at]
    if (gap === undefined) {
      faults.push(`frames ${from} to ${to - 1} (${to - from}) are missing and no gap tells of them`)
      return { from, to, startMs, endMs, causes: [] }
    }
    inside.splice(at, 1)
    const error = Math.max(Math.abs(gap.startMs - startMs), Math.abs(gap.endMs - endMs))
    gapErrorMs = Math.max(gapErrorMs, error)
    if (error > frameMs) {
      const off = `begins ${(gap.startMs - startMs).toFixed(0)} ms and ends ${(gap.endMs - endMs).toFixed(0)} ms away`
      faults.push(`the gap (${gap.causes.join(", ")}) of frames ${from} to ${to - 1} ${off}`)
    }
    return { from, to, startMs, endMs, causes: gap.causes }
  })
  for (const gap of inside) {
    faults.push(
      `a gap (${gap.causes.join(", ")}) of ${gap.endMs - gap.startMs} ms from ${
        new Date(gap.startMs).toISOString()
      } misses no frame`,
    )
  }
  return { frames: sorted.length, missing, faults, wallErrorMs, gapErrorMs }
}
