/** The decorated runner storage over a storage of the test's own: outages, moves, locks that are slow to go. */
import { Members } from "#cluster/members.ts"
import { Outage } from "#cluster/outage.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { decorate } from "#cluster/runner-storage.ts"
import { NodeId } from "#schema/common.ts"
import { entityId, Slot } from "#schema/ownership.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Layer, Option, Stream } from "effect"
import { ClusterError, RunnerAddress, RunnerStorage, ShardId, ShardingConfig } from "effect/cluster"
import { TestClock } from "effect/testing"

const self = NodeId.make("01900000-0000-7000-8000-000000000001")
const other = NodeId.make("01900000-0000-7000-8000-000000000002")
const address = RunnerAddress.make("127.0.0.1", 5001)
const own = [ShardId.make("n00", 1), ShardId.make("n00", 2)]
const shared = [ShardId.make("default", 1)]

const owner = (nodeId: NodeId, epoch: number): Owner => ({
  slot: Slot.make("n00"),
  nodeId,
  homeNodeId: self,
  address: "127.0.0.1:5001",
  epoch,
  adopted: false,
})

/** A database that can be away, or silent; locks that survive or not; a table of owners. */
const world = Effect.gen(function*() {
  const state = {
    database: "there" as "there" | "away" | "silent",
    locks: new Set<ShardId.ShardId>(),
    /** Locks that a session of before still holds. */
    blocked: new Set<ShardId.ShardId>(),
    owners: [owner(self, 1)] as ReadonlyArray<Owner>,
    known: [owner(self, 1)] as ReadonlyArray<Owner>,
    releases: 0,
  }
  const reach = Effect.suspend(() =>
    state.database === "silent" ?
      Effect.never :
      state.database === "away" ?
      Effect.fail(new ClusterError.PersistenceError({ cause: new Error("refused") })) :
      Effect.void
  )
  const memory = yield* RunnerStorage.makeMemory
  const base = RunnerStorage.RunnerStorage.of({
    ...memory,
    acquire: (_address, shards) =>
      Effect.map(reach, () => {
        const free = Array.from(shards).filter((shard) => !state.blocked.has(shard))
        for (const shard of free) state.locks.add(shard)
        return free
      }),
    refresh: (_address, shards) =>
      Effect.map(reach, () => Array.from(shards).filter((shard) => state.locks.has(shard))),
    release: (_address, shard) =>
      Effect.map(reach, () => {
        state.releases++
        state.locks.delete(shard)
      }),
  })
  const ownership = Ownership.of({
    nodeId: self,
    slot: Slot.make("n00"),
    refresh: reach.pipe(Effect.orDie, Effect.map(() => state.known = state.owners)),
    owners: Effect.sync(() => state.known),
    asOf: Effect.succeed(0),
    changes: Stream.empty,
    epochOf: () => Effect.succeed(null),
    move: () => Effect.die("not here"),
    raise: () => Effect.die("not here"),
    adopt: () => Effect.die("not here"),
    disown: () => Effect.die("not here"),
    entityId: (id) => entityId(Slot.make("n00"), id),
  })
  const storage = yield* decorate(base).pipe(
    Effect.provideService(Ownership, ownership),
    Effect.provideService(Members, { list: Effect.succeed([]), changes: Stream.empty, refresh: Effect.succeed([]) }),
    Effect.provide(Layer.mergeAll(
      Outage.layer,
      ShardingConfig.layer({
        runnerAddress: Option.some(address),
        shardLockExpiration: 9_000,
        shardLockRefreshInterval: 3_000,
      }),
    )),
  )
  return { state, storage }
})

describe("runner storage", () => {
  it.effect("gives back what is locked, and keeps own shards while the database is away", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      expect(yield* storage.acquire(address, [...own, ...shared])).toEqual([...own, ...shared])
      expect(yield* storage.refresh(address, [...own, ...shared])).toEqual([...own, ...shared])
      state.database = "away"
      for (let n = 0; n < 10; n++) expect(yield* storage.refresh(address, [...own, ...shared])).toEqual(own)
      expect(Exit.isFailure(yield* Effect.exit(storage.refresh(address, shared)))).toBe(true)
    }))

  it.effect("keeps them within half an interval when the database is silent", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, own)
      state.database = "silent"
      const refresh = yield* Effect.forkChild(storage.refresh(address, own), { startImmediately: true })
      yield* TestClock.adjust("1500 millis")
      expect(yield* Fiber.join(refresh)).toEqual(own)
    }))

  it.effect("takes lost locks of its own again, never those of the shared group", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, [...own, ...shared])
      state.locks.clear()
      expect(yield* storage.refresh(address, [...own, ...shared])).toEqual(own)
      expect([...state.locks]).toEqual(own)
    }))

  it.effect("keeps an own shard whose lock a session of before still holds, and takes it when that has gone", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, own)
      state.locks.clear()
      state.blocked.add(own[1]!)
      expect(yield* storage.refresh(address, own)).toEqual(own)
      expect(state.locks.has(own[1]!)).toBe(false)
      state.blocked.clear()
      expect(yield* storage.refresh(address, own)).toEqual(own)
      expect(state.locks.has(own[1]!)).toBe(true)
    }))

  it.effect("gives up a slot that was moved during the outage, before it touches a lock", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, own)
      state.database = "away"
      state.owners = [owner(other, 2)]
      state.locks.clear()
      expect(yield* storage.refresh(address, own)).toEqual(own)
      state.database = "there"
      expect(yield* storage.refresh(address, own)).toEqual([])
      expect(state.locks.size).toBe(0)
    }))

  it.effect("gives up a slot that came back with another epoch, until it is acquired in that epoch", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, own)
      state.owners = state.known = [owner(self, 3)]
      expect(yield* storage.refresh(address, own)).toEqual([])
      expect(yield* storage.acquire(address, own)).toEqual(own)
      expect(yield* storage.refresh(address, own)).toEqual(own)
    }))

  it.effect("lets a release outlast an outage instead of failing in a loop", () =>
    Effect.gen(function*() {
      const { state, storage } = yield* world
      yield* storage.acquire(address, [...own, ...shared])
      state.database = "away"
      const release = yield* Effect.forkChild(storage.release(address, shared[0]!), { startImmediately: true })
      yield* TestClock.adjust("1 minute")
      expect(state.releases).toBe(0)
      state.database = "there"
      yield* storage.refresh(address, own)
      yield* Fiber.join(release)
      expect(state.releases).toBe(1)
    }))
})
