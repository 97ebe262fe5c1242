/**
 * Turns of guardians since a home node served: what nodes tell each other about it, and how the home node judges it.
 *
 * Invariants
 * 1. Numbers follow each other without a gap; two turns may have one number, taken by guardians that could not see each other.
 * 2. As many are kept as a chain of guardians may make before the home node is back (64); older ones go.
 */
import type { Turn } from "#schema/federation-protection.ts"

const turnsKept = 64

/** The newest of them back to where a number is left out: what was before that says nothing of these. */
export const lastRun = (turns: ReadonlyArray<Turn>): ReadonlyArray<Turn> =>
  turns.slice(Math.max(0, turns.findLastIndex((turn, n) => n > 0 && turn.epoch > turns[n - 1]!.epoch + 1)))

/** Turns of both, in order, without those up to `after`, which the home node has behind it. */
export const unite = (a: ReadonlyArray<Turn>, b: ReadonlyArray<Turn>, after: number): ReadonlyArray<Turn> => {
  // Nearly always, and twice a second.
  if (a.length + b.length === 0) return a
  const found = new Map<string, Turn>()
  for (const turn of [...a, ...b]) if (turn.epoch > after) found.set(`${turn.epoch} ${turn.nodeId}`, turn)
  return [...found.values()].toSorted((x, y) => x.epoch - y.epoch || (x.nodeId < y.nodeId ? -1 : 1)).slice(-turnsKept)
}
