/**
 * What of record-back goes after its time, on the home node and on the one that recorded.
 *
 * Invariants
 * 1. What is promised or held of a file that is not whole, and is not touched for {@link partMs}, is let go, with its part in quarantine:
 *    if it ever comes, it comes anew. What nobody waits for goes at once; what is whole is stored.
 * 2. Names and receipts of what came home are kept for {@link receiptMs}, as long as the serving node keeps its jobs. What is asked
 *    again afterwards is on the disk, and answered by it.
 * 3. The guardian's copy of a file goes a little after the last receipt of it is in; what could not be deleted then goes at a later look.
 */
import { RecordBackHomeStore } from "#actors/store/federation-recordback-home.ts"
import { RecordBackStore } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import { Storage } from "#media/storage.ts"
import { Clock, Duration, Effect, Schedule } from "effect"
import { chore } from "./chore.ts"
import type { makePlanner } from "./federation-recordback-plan.ts"

const lookEvery = Duration.hours(1)
const dayMs = 86_400_000
const partMs = 7 * dayMs
const receiptMs = 90 * dayMs

/**
 * Of the home node; `forget`: sessions that ended, `settle`: what is held whole. The first look is over when it returns, but for what
 * waits for disks.
 */
export const upkeepAtHome = Effect.fnUntraced(
  function*<E>(forget: (nowMs: number) => void, settle: Effect.Effect<void, E>) {
    const [storage, store] = yield* Effect.all([Storage, RecordBackHomeStore])
    const look = chore(
      "Upkeep of what comes home",
      Effect.gen(function*() {
        const nowMs = yield* Clock.currentTimeMillis
        forget(nowMs)
        yield* store.expire(nowMs - partMs, nowMs - receiptMs)
        const parts = yield* storage.quarantine.ids
        const awaited = yield* store.awaited(parts)
        yield* Effect.forEach(parts.filter((id) => !awaited.has(id)), (id) =>
          Effect.ignore(storage.quarantine.discard(id)), { discard: true })
      }),
    )
    yield* look
    yield* Effect.forkScoped(Effect.repeat(Effect.andThen(Effect.sleep(lookEvery), look), Schedule.forever))
    yield* Effect.forkScoped(Effect.repeat(chore("Storing what came home whole", settle), Schedule.spaced(lookEvery)))
  },
)

/** Of the node that recorded. */
export const upkeepOfJobs = Effect.fnUntraced(function*(planner: Effect.Success<ReturnType<typeof makePlanner>>) {
  const [{ nodeId }, store] = yield* Effect.all([Ownership, RecordBackStore])
  const look = Effect.gen(function*() {
    yield* store.expire((yield* Clock.currentTimeMillis) - receiptMs)
    for (const id of yield* store.ended(nodeId)) yield* planner.release(id)
  })
  yield* Effect.forkScoped(Effect.repeat(chore("Upkeep of record-back", look), Schedule.spaced(lookEvery)))
})
