/** What this node carries and could carry: looked at again every few seconds, for heartbeats and for the accounting of protections. */
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import type { CapacityNeed } from "#schema/federation.ts"
import { Effect, Schedule, SubscriptionRef } from "effect"
import { chore } from "./chore.ts"
import { nothingNeeded } from "./federation-failover-capacity.ts"

const lookEvery = "5 seconds"

interface Load {
  readonly used: CapacityNeed
  readonly diskFreeBytes: number
}

export const makeLoad = Effect.gen(function*() {
  const [ownership, supervisor, storage, recordBundles] = yield* Effect.all([
    Ownership,
    RecorderSupervisor,
    Storage,
    RecordBundles,
  ])
  const look = Effect.gen(function*() {
    const assignments = yield* supervisor.assignments
    const cameras = new Set(assignments.filter(({ enabled }) => enabled).map(({ cameraId }) => cameraId)).size
    const slots = (yield* ownership.owners).filter(({ nodeId }) => nodeId === ownership.nodeId).map(({ slot }) => slot)
    const rates = yield* Effect.forEach(slots, recordBundles.rates)
    const ingestBps = rates.reduce((sum, streams) => [...streams.values()].reduce((a, b) => a + b, sum), 0)
    const usage = yield* storage.usage
    return {
      used: { cameras, ingestBps, diskBytesPerSecond: Math.ceil(ingestBps / 8), diskBytes: 0, memoryBytes: 0 },
      diskFreeBytes: usage.filter(({ state }) => state === "ok" || state === "slow")
        .reduce((sum, { floorBytes, freeBytes }) => sum + Math.max(0, freeBytes - floorBytes), 0),
    }
  })
  const known = yield* SubscriptionRef.make<Load>({ used: nothingNeeded, diskFreeBytes: 0 })
  const again = chore("Looking at this node's load", Effect.flatMap(look, (load) => SubscriptionRef.set(known, load)))
  yield* again
  yield* Effect.forkScoped(Effect.repeat(again, Schedule.spaced(lookEvery)))
  return SubscriptionRef.get(known)
})
