/**
 * Kept answers of requests with an `Idempotency-Key`, over PostgreSQL, so that a retry may reach another node.
 *
 * Invariants
 * 1. At most {@link most} answers are kept, of 256 KiB at most each, for 24 hours.
 * 2. A key whose request never ended (its node was killed) is free again after {@link abandonedAfterMs}.
 */
import { Idempotency } from "#actors/protocol/http.ts"
import { IdempotencyConflict } from "#schema/problem.ts"
import { Clock, Effect, Layer, Schedule } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { HttpStore } from "../store/http.ts"

const keptForMs = 86_400_000
/** Twice the longest a request may take. */
const abandonedAfterMs = 60_000
const most = 10_000

export const idempotencyLayer: Layer.Layer<Idempotency, never, SqlClient.SqlClient> = Layer.effect(
  Idempotency,
  Effect.gen(function*() {
    const store = yield* HttpStore
    const prune = Effect.flatMap(Clock.currentTimeMillis, (nowMs) => store.prune(nowMs - keptForMs, most))
    yield* prune.pipe(
      Effect.catchCause((cause) => Effect.logDebug("Pruning kept answers must wait", cause)),
      Effect.repeat(Schedule.spaced("1 hour")),
      Effect.forkScoped,
    )
    return Idempotency.of({
      begin: Effect.fnUntraced(function*(request) {
        const nowMs = yield* Clock.currentTimeMillis
        const state = yield* store.claim(request, nowMs, {
          keptMs: nowMs - keptForMs,
          abandonedMs: nowMs - abandonedAfterMs,
        })
        if (state.kind === "fresh") return null
        if (state.kind === "answered") return state.answer
        return yield* new IdempotencyConflict({
          message: state.kind === "running" ?
            "The first request with this Idempotency-Key is still running" :
            "This Idempotency-Key was used for another request",
        })
      }, answered),
      keep: (request, answer) => answered(Effect.asVoid(store.keep(request, answer))),
      forget: (request) => answered(Effect.asVoid(store.forget(request))),
    })
  }),
)
