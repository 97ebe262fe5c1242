/** A home node that is asked to serve again: what it takes first, and when it refuses. */
import { makeReturn } from "#actors/behaviour/federation-failover-return.ts"
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { Controls } from "#actors/protocol/federation-control.ts"
import { FailoverJournals } from "#actors/protocol/federation-journal.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { CameraId, NodeId } from "#schema/common.ts"
import { PeerUnreachable } from "#schema/federation.ts"
import { Slot } from "#schema/ownership.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { TestClock } from "effect/testing"

const [self, guardian] = ["1", "2"].map((n) => NodeId.make(`01890000-0000-7000-8000-00000000000${n}`)) as [
  NodeId,
  NodeId,
]
const slot = Slot.make("n00")
const peer: Peer = {
  nodeId: guardian,
  name: "guardian",
  relation: "peer",
  address: "",
  fingerprint: "" as Peer["fingerprint"],
  signingKey: "",
  transferKey: "",
  mediaReadEnforcement: true,
  guardianGranted: true,
}

/** With so many cameras; `changes`: what their journal answers. */
const homeNode = Effect.fnUntraced(function*(cameras: number, changes: "taken" | "away") {
  let epoch = 1
  let asked = 0
  const owner = (): Owner => ({ slot, nodeId: self, homeNodeId: self, address: "", epoch, adopted: false })
  const ids = Array.from({ length: cameras }, (_, n) => CameraId.make(`01890000-0000-7000-8000-0000000000a${n}`))
  const comeBack = yield* makeReturn.pipe(Effect.provide(Layer.mergeAll(
    Layer.mock(FailoverStore, {
      homecoming: () => Effect.succeed(null),
      setHomecoming: () => Effect.void,
    }),
    Layer.mock(Ownership, {
      nodeId: self,
      entityId: (id) => id,
      slot,
      epochOf: () => Effect.sync(() => epoch),
      owners: Effect.sync(() => [owner()]),
      refresh: Effect.sync(() => [owner()]),
      raise: (_slot, to) =>
        Effect.sync(() => {
          epoch = to
        }),
    }),
    Layer.mock(Peers, {
      list: () => Effect.succeed([peer]),
      call: () => Effect.fail(new PeerUnreachable({ nodeId: guardian, reason: "not now" })),
    }),
    Layer.mock(Controls, {
      tellServedBy: () => Effect.void,
      denied: () => Effect.succeed(null),
    }),
    Layer.mock(CameraBundles, { ids: () => Effect.succeed(ids), start: () => Effect.void }),
    Layer.mock(RecordBundles, { stored: () => Effect.succeed([]) }),
    Layer.mock(FailoverJournals, {
      take: () =>
        Effect.suspend(() => {
          asked++
          return changes === "taken" ?
            Effect.void :
            Effect.fail(new PeerUnreachable({ nodeId: guardian, reason: "the line is one-way" }))
        }),
    }),
  )))
  // The guardians were asked for the first time.
  yield* TestClock.adjust("3 seconds")
  return { comeBack, epoch: () => epoch, asked: () => asked }
})
const wish = { epoch: 3, turns: [{ epoch: 2, nodeId: guardian }], cameras: 2 }

it.effect("takes what was changed elsewhere before it serves, says why it cannot, and goes without it when it is told to", () =>
  Effect.gen(function*() {
    const well = yield* homeNode(2, "taken")
    assert.strictEqual(yield* well.comeBack(guardian, wish), 3)
    assert.strictEqual(well.asked(), 1)

    const away = yield* homeNode(2, "away")
    const refused = yield* Effect.flip(away.comeBack(guardian, wish))
    assert.strictEqual(refused._tag, "DependencyUnavailable")
    assert.include(refused.message, "the line is one-way")
    assert.strictEqual(away.epoch(), 1)
    assert.strictEqual(yield* away.comeBack(guardian, { ...wish, withoutChanges: true }), 3)
    assert.strictEqual(away.asked(), 1)
  }).pipe(Effect.scoped))

it.effect("takes no cameras back that it does not know, unless it is told to", () =>
  Effect.gen(function*() {
    const { comeBack, epoch } = yield* homeNode(0, "taken")
    const refused = yield* Effect.flip(comeBack(guardian, wish))
    assert.deepInclude(refused, { _tag: "ConfigurationLost", cameras: 2 })
    assert.strictEqual(epoch(), 1)
    assert.strictEqual(yield* comeBack(guardian, { ...wish, withoutChanges: true }), 3)
    const { cameras: _none, ...earlier } = wish
    assert.strictEqual(yield* (yield* homeNode(0, "taken")).comeBack(guardian, earlier), 3)
  }).pipe(Effect.scoped))
