/** Why the embedded PostgreSQL could not be brought up, and the bridge from promises to it. */
import { Effect, Schema } from "effect"

export class PostgresError extends Schema.TaggedError<PostgresError>()("PostgresError", {
  /** What was being done. */
  step: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `PostgreSQL: ${this.step}: ${this.detail}`
  }
}

/** Runs a promise; what it throws is told with the step. */
export const attempt = <A>(step: string, run: () => Promise<A>): Effect.Effect<A, PostgresError> =>
  Effect.tryPromise({
    try: run,
    catch: (cause) => new PostgresError({ step, detail: cause instanceof Error ? cause.message : String(cause) }),
  })
