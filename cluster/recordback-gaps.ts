/**
 * What a guardian tells of footage that is missing on both nodes, made ready for the home node's ledger. Pure.
 *
 * Invariants
 * 1. The answer is sorted and disjoint. Where two causes overlap, one of the camera, the disk or a person counts before one of the
 *    change of nodes.
 * 2. That the guardian itself was not running explains nothing: the home node says as much.
 */
import type { Interval } from "#schema/common.ts"
import type { ToldGap } from "#schema/federation-recordback.ts"
import type { GapCause } from "#schema/record.ts"
import { unite, without } from "./recordback-manifest.ts"

export interface Explained extends Interval {
  readonly cause: GapCause
  readonly detail: string
}

/** What a guardian waits for at its beginning is a part of the takeover. */
const causeOf = (cause: GapCause): GapCause => cause === "starting" ? "takeover" : cause

const byStart = (a: ToldGap, b: ToldGap) => a.startMs - b.startMs || b.endMs - a.endMs

/** `by`: the guardian's name, for a person. */
export const explanationsOf = (gaps: ReadonlyArray<ToldGap>, by: string): ReadonlyArray<Explained> => {
  const told = gaps.filter(({ cause, endMs, startMs }) => cause !== "node_down" && endMs > startMs).sort(byStart)
  const layers = [
    told.filter(({ cause }) => causeOf(cause) !== "takeover"),
    told.filter(({ cause }) => causeOf(cause) === "takeover"),
  ]
  let taken: ReadonlyArray<Interval> = []
  const explained: Array<Explained> = []
  for (const layer of layers) {
    let reached = Number.NEGATIVE_INFINITY
    for (const { cause, detail, endMs, startMs } of layer) {
      const parts = without({ start: Math.max(startMs, reached), end: endMs }, taken).filter(({ end, start }) =>
        end > start
      )
      explained.push(...parts.map((part) => ({ ...part, cause: causeOf(cause), detail: `${by}: ${detail}` })))
      reached = Math.max(reached, endMs)
    }
    taken = unite(explained, 0)
  }
  return explained.sort((a, b) => a.start - b.start)
}
