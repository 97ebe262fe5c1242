/**
 * {@link Trust}: reads again what this node decides by whenever somebody changed it, here or on another node.
 *
 * Invariants
 * 1. Readings never overlap, and one that began before a change never counts as having seen it: an older state cannot
 *    overwrite a newer one.
 * 2. Whoever asks while a reading waits to begin shares it; there are at most two at a time, one that runs and one that waits.
 * 3. A reader that fails keeps what it knew, and the others are read all the same.
 */
import { Trust } from "#actors/protocol/auth-trust.ts"
import { uuid7 } from "#schema/uuid.ts"
import type { PgClient } from "@effect/sql-pg"
import { type Duration, Effect, Layer, Schedule, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { AuthTrustStore } from "../store/auth-trust.ts"
import { chore } from "./chore.ts"

/** After the connection that hears notices broke; meanwhile the regular reading does. */
const listenAgainAfter = "1 second"

/** Over the channel that `store` is. */
export const makeTrust = Effect.fnUntraced(
  function*(store: Pick<Effect.Success<typeof AuthTrustStore>, "notify" | "listen">, every: Duration.Input) {
    const sender = yield* uuid7
    const readers = new Set<Effect.Effect<void>>()
    const one = yield* Semaphore.make(1)
    let asked = 0
    let seen = 0

    const readAll = Effect.suspend(() => {
      asked += 1
      const mine = asked
      return one.withPermits(1)(Effect.suspend(() => {
        if (seen >= mine) return Effect.void
        const upTo = asked
        return Effect.map(Effect.forEach(readers, (read) => read, { discard: true }), () => {
          seen = upTo
        })
      }))
    })

    yield* Effect.forkScoped(Effect.repeat(readAll, Schedule.spaced(every)))
    yield* chore("Hearing of changes of trust", Effect.scoped(store.listen(sender, readAll))).pipe(
      Effect.repeat(Schedule.spaced(listenAgainAfter)),
      Effect.forkScoped,
    )

    return Trust.of({
      fresh: readAll,
      changed: Effect.andThen(chore("Telling of a change of trust", store.notify(sender)), readAll),
      reads: (what, read) =>
        Effect.andThen(
          Effect.acquireRelease(
            Effect.sync(() => {
              const reader = chore(`Reading ${what}`, read)
              readers.add(reader)
              return reader
            }),
            (reader) =>
              Effect.sync(() => readers.delete(reader)),
          ),
          one.withPermits(1)(read),
        ),
    })
  },
)

/** `every`: how often everything is read though no notice came. */
export const trustLayer = (
  every: Duration.Input = "2 seconds",
): Layer.Layer<Trust, never, SqlClient.SqlClient | PgClient.PgClient> =>
  Layer.effect(Trust, Effect.flatMap(AuthTrustStore, (store) => makeTrust(store, every)))
