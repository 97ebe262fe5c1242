/**
 * Work of the background that is done again a little later, whatever became of it.
 *
 * Invariants
 * 1. It never fails: who repeats it goes on.
 * 2. An outage of the database is said for debugging only: whoever keeps the database tells of it, once. Anything else is a
 *    mistake of ours or a broken disk, and is told as an error: once, until it is another or the work succeeds again.
 */
import { Cause, Effect, Predicate } from "effect"
import type { SqlError } from "effect/sql"
import { isOutage } from "../store/answer.ts"

const isAway = (error: unknown): boolean =>
  Predicate.isTagged(error, "DependencyUnavailable") ||
  Predicate.isTagged(error, "SqlError") && isOutage(error as unknown as SqlError.SqlError)

/** Every reason is an outage or an interruption, also where it was made a defect on the way. */
const isOutageOnly = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.every((reason) =>
    Cause.isInterruptReason(reason) || isAway(Cause.isFailReason(reason) ? reason.error : reason.defect)
  )

/** `what` begins the line of the log: `Pruning sessions must wait`. Make it once and repeat it: it remembers what it told. */
export const chore = <A, E, R>(what: string, work: Effect.Effect<A, E, R>): Effect.Effect<void, never, R> => {
  let told = ""
  const tell = (cause: Cause.Cause<E>) =>
    Effect.suspend(() => {
      const line = `${what} must wait`
      if (isOutageOnly(cause)) return Effect.logDebug(line, cause)
      const text = Cause.pretty(cause).split("\n")[0] ?? ""
      if (text === told) return Effect.logDebug(line, cause)
      told = text
      return Effect.logError(line, cause)
    })
  return work.pipe(
    Effect.tap(() =>
      Effect.sync(() => {
        told = ""
      })
    ),
    Effect.asVoid,
    Effect.catchCause(tell),
  )
}
