/**
 * The entity `ReplaySession`: the single writer of a session, in the slot of the node that opened it.
 *
 * Invariants
 * 1. A handler answers within its time limit, with `DependencyUnavailable` if it must.
 * 2. Nothing is written without the epoch with which this node serves the session's slot.
 */
import { ReplaySessionActor } from "#actors/protocol/replay.ts"
import { ReplayStore } from "#actors/store/replay.ts"
import { Ownership } from "#cluster/ownership.ts"
import { parseEntityId, type StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Duration, Effect } from "effect"
import { Entity } from "effect/cluster"

/** Two statements; more time means that the database is away. */
const handlerLimit = Duration.seconds(5)
/** Nothing is kept in memory, so an entity may leave as soon as it is quiet. */
const idleTime = Duration.minutes(1)

const moved = () =>
  new DependencyUnavailable({ dependency: "node", message: "The session is moving to another node; try again." })

/** Answers in time, and tells a former owner's caller to ask again. */
const limited = <A>(
  work: Effect.Effect<A, StaleEpoch | DependencyUnavailable>,
): Effect.Effect<A, DependencyUnavailable> =>
  work.pipe(
    Effect.catchTag("StaleEpoch", () => Effect.fail(moved())),
    Effect.timeoutOrElse({
      duration: handlerLimit,
      orElse: () =>
        Effect.fail(
          new DependencyUnavailable({ dependency: "database", message: "The session's owner did not answer in time." }),
        ),
    }),
  )

const handlers = Effect.gen(function*() {
  const store = yield* ReplayStore
  const ownership = yield* Ownership
  const address = yield* Entity.CurrentAddress
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a replay session`))
  const { slot } = home

  const writer = Effect.gen(function*() {
    const epoch = yield* ownership.epochOf(slot)
    return epoch === null ? yield* moved() : { slot, epoch }
  })

  return ReplaySessionActor.of({
    Open: ({ payload: { keep, session } }) =>
      limited(Effect.gen(function*() {
        yield* store.insert(yield* writer, { ...session, slot, nodeId: ownership.nodeId, revokedAt: null }, keep)
      })),
    Revoke: ({ payload: { digest } }) =>
      limited(Effect.gen(function*() {
        yield* store.revoke(yield* writer, digest, yield* Clock.currentTimeMillis)
      })),
  })
})

export const layer = ReplaySessionActor.toLayer(handlers, { maxIdleTime: idleTime, disableFatalDefects: true })
