/**
 * Whether PostgreSQL answers, as this node's engine sees it: told by the lock refresh, waited for by everything that would
 * otherwise fail again and again.
 *
 * Invariants
 * 1. The refresh runs every few seconds in an outage too, so a wait ends within one interval of the database's return.
 * 2. An outage is logged once when it begins and once when it ends.
 */
import { Context, Effect, Latch, Layer } from "effect"

export class Outage extends Context.Service<Outage, {
  readonly began: Effect.Effect<void>
  readonly ended: Effect.Effect<void>
  /** Tries `query`; when it fails, takes that for an outage and tries again after its end, as often as it takes. */
  readonly outlast: <A, E, R>(query: Effect.Effect<A, E, R>) => Effect.Effect<A, never, R>
}>()("nightjar/cluster/Outage") {
  static readonly layer = Layer.effect(
    Outage,
    Effect.gen(function*() {
      const answering = yield* Latch.make(true)
      const began = Effect.suspend(() =>
        answering.closeUnsafe() ? Effect.logWarning("PostgreSQL is away; the slots served here stay") : Effect.void
      )
      const ended = Effect.suspend(() => answering.openUnsafe() ? Effect.logInfo("PostgreSQL is back") : Effect.void)
      const outlast = <A, E, R>(query: Effect.Effect<A, E, R>): Effect.Effect<A, never, R> =>
        Effect.andThen(answering.await, query).pipe(Effect.catch(() => Effect.andThen(began, outlast(query))))
      return Outage.of({ began, ended, outlast })
    }),
  )
}
