/** Who drives a job of record-back: one fiber, whoever asks at the same moment; and nobody is left without an answer. */
import { makePromises } from "#actors/behaviour/federation-recordback-promise.ts"
import * as Back from "#actors/behaviour/federation-recordback.ts"
import { Events } from "#actors/protocol/event.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBackJobs, RecordBacks } from "#actors/protocol/federation-recordback.ts"
import { RecordLedger } from "#actors/protocol/record.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { type JobChange, type JobRow, RecordBackStore, type SegmentRow } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import { initialJob } from "#cluster/recordback.ts"
import { Storage, StorageError } from "#media/storage.ts"
import { NodeId } from "#schema/common.ts"
import { PeerRefused } from "#schema/federation.ts"
import { slots } from "#schema/ownership.ts"
import type { SegmentFile } from "#schema/record.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { identityOf } from "./media/made-up-files.ts"

const servingId = NodeId.make("01934b3e-000e-7000-8000-00000000bbbb")
const homeId = NodeId.make("01934b3e-000e-7000-8000-00000000aaaa")
const id = "01934b3e-1000-7000-8000-000000000001"
const order = { rerouteId: id, homeNodeId: homeId, slot: slots[3]!, firstEpoch: 2, lastEpoch: 2 }
const totals = { segmentsDone: 0, segmentsTotal: 0, bytesDone: 0, bytesTotal: 0, left: 0, lost: 0 }
const fresh: JobRow = {
  id,
  homeNodeId: homeId,
  slot: order.slot,
  firstEpoch: 2,
  lastEpoch: 2,
  state: initialJob.phase,
  attempt: 0,
  refusals: 0,
  dueMs: null,
  reason: "",
  createdMs: 0,
  endedMs: null,
}

/** What of a storage is not asked. */
const disk = {
  recordings: () => [],
  path: () => "",
  departed: () => null,
  quarantine: {
    open: () => Effect.never,
    adopt: () => Effect.never,
    discard: () => Effect.void,
    ids: Effect.succeed([]),
  },
}
const lostFile = { id: "01934b3e-9000-7000-8000-000000000001", folder: "main", recordingId: identityOf(1).recordingId }

/** A node with one job, in memory; `kept` may hold a change back. */
const nodeWith = (first: JobRow | null) => {
  const told: Array<string> = []
  const again: Array<string> = []
  const here: { files: ReadonlyArray<SegmentFile>; state: "ok" | "missing" } = { files: [], state: "ok" }
  let row = first
  let kept: (change: JobChange) => Effect.Effect<void> = () => Effect.void
  let home: Effect.Effect<never, PeerRefused> = Effect.never
  const store = Layer.mock(RecordBackStore, {
    add: () =>
      Effect.sync(() => {
        row ??= fresh
      }),
    get: () => Effect.sync(() => row),
    open: () => Effect.sync(() => row === null || row.endedMs !== null ? [] : [row]),
    change: (_id, change, endedMs) =>
      Effect.andThen(
        Effect.suspend(() => kept(change)),
        Effect.sync(() => {
          if (row !== null) row = { ...row, ...change, endedMs }
          return []
        }),
      ),
    ended: () => Effect.succeed([]),
    expire: () => Effect.succeed([]),
    planned: () => Effect.succeed(new Set<string>()),
    again: () =>
      Effect.sync(() => {
        again.push(id)
        return []
      }),
    totals: () => Effect.succeed(totals),
    lost: () => Effect.succeed([{ fileId: lostFile.id, folder: lostFile.folder, recordingId: lostFile.recordingId }]),
  })
  const services = Layer.mergeAll(
    store,
    Layer.mock(Ownership, { nodeId: servingId, slot: order.slot, entityId: (entity) => entity }),
    Layer.mock(FailoverStore, {
      settings: () => Effect.succeed({ settings: { recordBackMiB: 0 }, version: 1 }),
    }),
    Layer.mock(Events, { publish: ({ type }) => Effect.sync(() => void told.push(type)) }),
    Layer.mock(RecordLedger, { recordingsOf: () => Effect.succeed(new Set()) }),
    Layer.mock(Storage, {
      files: () => here.files,
      usage: Effect.sync(() => [{ name: lostFile.folder, state: here.state }] as never),
      ...disk,
    }),
    Layer.mock(Peers, { get: () => Effect.suspend(() => home) as never }),
  )
  return {
    told,
    again,
    disk: here,
    hold: (use: typeof kept) => void (kept = use),
    answer: (by: typeof home) => void (home = by),
    state: () => row?.state,
    live: Effect.map(
      Layer.build(Layer.provide(Back.layer({ rate: Effect.succeed(0), keptMs: 0 }), services)),
      (context) => ({ backs: Context.get(context, RecordBacks), jobs: Context.get(context, RecordBackJobs) }),
    ),
  }
}

/** Long enough for whatever runs to come to where it waits: nothing here waits for a disk or a network. */
const settled = Effect.repeat(Effect.yieldNow, { times: 200 })

describe("a job of record-back", () => {
  it.effect("has one fiber, however many ask for it while this node starts", () =>
    Effect.gen(function*() {
      const node = nodeWith(fresh)
      const { backs } = yield* node.live
      yield* Effect.all([backs.begin(order), backs.begin(order), backs.begin(order)], { concurrency: "unbounded" })
      yield* settled
      assert.strictEqual(node.state(), "keyExchange")
      assert.deepStrictEqual(node.told, ["failover.recordback.started"])
    }))

  it.effect("that goes on or has ended is not begun anew", () =>
    Effect.gen(function*() {
      const node = nodeWith(null)
      const { backs } = yield* node.live
      yield* settled
      yield* backs.begin(order)
      yield* settled
      yield* backs.begin(order)
      yield* settled
      assert.deepStrictEqual(node.told, ["failover.recordback.started"])
      const over = nodeWith({ ...fresh, state: "done", endedMs: 1 })
      yield* (yield* over.live).backs.begin(order)
      yield* settled
      assert.deepStrictEqual([over.state(), ...over.told], ["done"])
    }))

  it.effect("answers who asks while it ends, by what it ended with", () =>
    Effect.gen(function*() {
      const refused = new PeerRefused({ nodeId: homeId, theirStatus: 403, theirCode: "no", reason: "no" })
      const node = nodeWith({ ...fresh, state: "keyExchange", attempt: 7, refusals: 7 })
      node.answer(Effect.fail(refused))
      const [ending, go] = yield* Effect.all([Deferred.make<void>(), Deferred.make<void>()])
      node.hold(({ state }) =>
        state === "failed" ? Effect.andThen(Deferred.succeed(ending, undefined), Deferred.await(go)) : Effect.void
      )
      const { jobs } = yield* node.live
      yield* Deferred.await(ending)
      node.answer(Effect.never)
      const asked = yield* Effect.forkChild(jobs.retry(id))
      yield* settled
      yield* Deferred.succeed(go, undefined)
      assert.strictEqual((yield* Fiber.join(asked)).state, "keyExchange")
      assert.deepStrictEqual(node.told, ["failover.recordback.failed"])
    }))

  it.effect("that two administrators retry at once is begun once", () =>
    Effect.gen(function*() {
      const node = nodeWith({ ...fresh, state: "failed", endedMs: 1 })
      const { jobs } = yield* node.live
      const [one, other] = yield* Effect.all([Effect.result(jobs.retry(id)), Effect.result(jobs.retry(id))], {
        concurrency: "unbounded",
      })
      yield* settled
      assert.deepStrictEqual([one._tag, other._tag].sort(), ["Failure", "Success"])
      assert.strictEqual(node.state(), "keyExchange")
      assert.strictEqual(node.again.length, 1)
    }))

  it.effect("is over when what could not be brought home has left this node too, and not while its disk is away", () =>
    Effect.gen(function*() {
      const node = nodeWith({ ...fresh, state: "partial", endedMs: 1 })
      const { backs } = yield* node.live
      node.disk.files = [{ ...lostFile, nodeId: homeId } as SegmentFile]
      assert.isFalse(yield* backs.isOver(id), "somebody may mend it and try again")
      node.disk.files = []
      node.disk.state = "missing"
      assert.isFalse(yield* backs.isOver(id), "the disk may come back")
      node.disk.state = "ok"
      assert.isTrue(yield* backs.isOver(id), "it went by its age, or for want of room")
      assert.isFalse(yield* (yield* nodeWith({ ...fresh, state: "failed", endedMs: 1 }).live).backs.isOver(id))
    }))

  it.effect("waits for a disk that is away, and takes what cannot be read on one that is there for lost", () =>
    Effect.gen(function*() {
      let state = "missing"
      const settled: Array<string> = []
      const unread = new StorageError({
        cause: "disk_error",
        folder: "main",
        code: "EIO",
        detail: "it does not answer",
      })
      const row = { fileId: lostFile.id, folder: "main" } as SegmentRow
      const promises = yield* makePromises.pipe(Effect.provide(Layer.mergeAll(
        Layer.mock(RecordBackStore, {
          left: () => Effect.succeed([row, row]),
          settle: (_id, _name, to) =>
            Effect.sync(() => {
              settled.push(to)
              return []
            }),
        }),
        Layer.mock(Storage, {
          ...disk,
          files: () => [],
          index: () => Effect.fail(unread),
          usage: Effect.sync(() => [{ name: "main", state }] as never),
        }),
      )))
      const away = yield* Effect.forkChild(Effect.flip(promises.next(id)))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* Fiber.join(away), unread)
      assert.deepStrictEqual(settled, [])
      state = "ok"
      const there = yield* Effect.forkChild(promises.next(id))
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(yield* Fiber.join(there), { rows: 2, promised: [] })
      assert.deepStrictEqual(settled, ["lost", "lost"])
    }))
})
