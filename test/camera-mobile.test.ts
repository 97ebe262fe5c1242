/** What is told of a phone's code while it becomes a camera. */
import { layer } from "#actors/behaviour/camera-mobile.ts"
import { MobileCameras } from "#actors/protocol/camera-mobile.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { CameraMobileStore, type MobileTicketRow } from "#actors/store/camera-mobile.ts"
import { Ownership } from "#cluster/ownership.ts"
import { Publishers } from "#media/publish.ts"
import { makePublishers } from "#media/publish/live.ts"
import { NodeId } from "#schema/common.ts"
import { slots } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"

const nodeId = NodeId.make("01900000-0000-7000-8000-000000000001")
const down = new DependencyUnavailable({ message: "It does not answer", dependency: "database" })

/** One ticket, held in memory; no camera is placed before the test says how that ended. */
const stage = Effect.gen(function*() {
  const placing = yield* Deferred.make<void>()
  const placed = yield* Deferred.make<never, DependencyUnavailable>()
  let row: MobileTicketRow | null = null
  const change = (changes: Partial<MobileTicketRow>) =>
    Effect.sync(() => {
      if (row !== null) row = { ...row, ...changes }
    })
  const store = Layer.mock(CameraMobileStore, {
    prepare: ({ expiresMs, ...ticket }) =>
      Effect.sync(() => {
        row = { ...ticket, codeExpiresAt: new Date(expiresMs), claimedAt: null, cameraId: null }
        return true
      }),
    take: (_hash, nowMs) => Effect.andThen(change({ claimedAt: new Date(nowMs) }), () => Effect.succeed(row)),
    bind: (_id, { cameraId }) => Effect.as(change({ cameraId }), []),
    giveBack: () => Effect.as(change({ claimedAt: null }), []),
    get: () => Effect.sync(() => row),
  })
  const cameras = Layer.mock(Cameras, {
    place: () => Effect.andThen(Deferred.succeed(placing, undefined), Deferred.await(placed)),
    get: () => Effect.never,
  })
  const { claim, prepare, status } = yield* Effect.provide(
    MobileCameras,
    layer.pipe(Layer.provide([
      store,
      cameras,
      Layer.mock(Ownership, { nodeId, slot: slots[0]!, entityId: (id) => id }),
      Layer.succeed(Publishers, makePublishers()),
    ])),
  )
  const ticket = yield* prepare({ name: "Pocket camera" })
  const state = Effect.map(status(ticket.deviceUuid), ({ state }) => state)
  return { state, placing, placed, claim: claim(ticket.claimCode, "192.0.2.1") }
})

describe("a phone's code", () => {
  it.effect("that becomes a camera is told as prepared, though it is used up, and never as expired", () =>
    Effect.gen(function*() {
      const { claim, placing, state } = yield* stage
      assert.strictEqual(yield* state, "prepared")
      // Taken in its last second: its camera is made after the code would have expired.
      yield* TestClock.adjust("899 seconds")
      const claiming = yield* Effect.forkChild(claim)
      yield* Deferred.await(placing)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* state, "prepared")
      yield* Fiber.interrupt(claiming)
    }))

  it.effect("of which nothing came is good again, or expired once nobody can be making its camera", () =>
    Effect.gen(function*() {
      const { claim, placed, placing, state } = yield* stage
      const claiming = yield* Effect.forkChild(Effect.flip(claim))
      yield* Deferred.await(placing)
      yield* TestClock.adjust("59 seconds")
      assert.strictEqual(yield* state, "prepared")
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* state, "expired")
      yield* Deferred.fail(placed, down)
      assert.strictEqual((yield* Fiber.join(claiming))._tag, "DependencyUnavailable")
      assert.strictEqual(yield* state, "prepared")
    }))
})
