/**
 * What HTTP keeps for itself: the answers of requests that carried an `Idempotency-Key`.
 *
 * Invariants
 * 1. The same key from the same user with the same request gets the first answer again, for 24 hours; with another request
 *    it is refused.
 * 2. Of a request only a hash is kept. Answers above 256 KiB and server errors are not kept.
 */
import type { IdempotentRequest, KeptAnswer } from "#schema/http.ts"
import type { DependencyUnavailable, IdempotencyConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export class Idempotency extends Context.Service<Idempotency, {
  /** The kept answer, or `null`: the request is now running and must end with `keep` or `forget`. */
  readonly begin: (
    request: IdempotentRequest,
  ) => Effect.Effect<KeptAnswer | null, IdempotencyConflict | DependencyUnavailable>
  readonly keep: (request: IdempotentRequest, answer: KeptAnswer) => Effect.Effect<void, DependencyUnavailable>
  readonly forget: (request: IdempotentRequest) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/Idempotency") {}
