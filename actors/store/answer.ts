/**
 * What a caller hears when PostgreSQL does not answer: the database is away, try again later. Everything else that SQL can
 * say is a mistake of ours and stays a defect.
 *
 * Invariants
 * 1. An outage (refused, cut off, shutting down, out of connections, deadlock, time-out) is `DependencyUnavailable`.
 * 2. No SQL text reaches a caller.
 */
import { DependencyUnavailable } from "#schema/problem.ts"
import { Effect, Predicate } from "effect"
import type { SqlError } from "effect/sql"

/** Classes of SQLSTATE (PostgreSQL, appendix A) that tell of the server's state: connection, resources, intervention, system. */
const outageClasses = new Set(["08", "53", "57", "58"])

/** The server is away or cannot serve just now, rather than: the statement is wrong. */
export const isOutage = (error: SqlError.SqlError): boolean => {
  if (error.isRetryable) return true
  const cause: unknown = error.reason.cause
  return Predicate.hasProperty(cause, "code") && typeof cause.code === "string" &&
    outageClasses.has(cause.code.slice(0, 2))
}

export const databaseAway = (): DependencyUnavailable =>
  new DependencyUnavailable({ dependency: "database", message: "The database does not answer; try again in a moment." })

/** {@link isOutage} becomes an answer, the rest a defect. */
export const answered = <A, E, R>(
  query: Effect.Effect<A, E | SqlError.SqlError, R>,
): Effect.Effect<A, Exclude<E, SqlError.SqlError> | DependencyUnavailable, R> =>
  Effect.catchTag(
    query as Effect.Effect<A, SqlError.SqlError, R>,
    "SqlError",
    (error) => isOutage(error) ? Effect.fail(databaseAway()) : Effect.die(error),
  ) as never

/** Breaks the rule that `constraint` keeps. */
export const violates = (error: SqlError.SqlError, constraint: string): boolean => {
  const cause: unknown = error.reason.cause
  return Predicate.hasProperty(cause, "constraint") && cause.constraint === constraint
}
