/** Control of cameras: who is let, and who is told where control is. */
import { layer } from "#actors/behaviour/federation-control.ts"
import { Controls } from "#actors/protocol/federation-control.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { ControlStore } from "#actors/store/federation-control.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { NodeId } from "#schema/common.ts"
import { Slot } from "#schema/ownership.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Stream } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"

const node = (n: number) => NodeId.make(`01890000-0000-7000-8000-00000000000${n}`)
const [self, guardian, ward, member] = [node(1), node(2), node(3), node(4)]
const [own, wards, members, foreign] = ["n00", "n01", "n02", "n03"].map((slot) => Slot.make(slot)) as [
  Slot,
  Slot,
  Slot,
  Slot,
]
const owners: ReadonlyArray<Owner> = [
  { slot: own, nodeId: self, homeNodeId: self, address: "", epoch: 4, adopted: false },
  { slot: wards, nodeId: self, homeNodeId: ward, address: "", epoch: 7, adopted: true },
  { slot: members, nodeId: self, homeNodeId: member, address: "", epoch: 2, adopted: false },
  { slot: foreign, nodeId: member, homeNodeId: guardian, address: "", epoch: 1, adopted: false },
]
const key = { privateKey: generateKeyPairSync("ed25519").privateKey, publicKey: "" }
/** What the database said last, and when; null: it does not answer. */
const database: { asOf: number; answers: ReadonlyArray<Owner> | null } = { asOf: 0, answers: null }
const gated = layer.pipe(Layer.provide([
  Layer.mock(Ownership, {
    nodeId: self,
    slot: own,
    entityId: (id) => id,
    owners: Effect.succeed(owners),
    changes: Stream.succeed(owners),
    asOf: Effect.sync(() => database.asOf),
    refresh: Effect.suspend(() => database.answers === null ? Effect.never : Effect.succeed(database.answers)),
  }),
  Layer.mock(Peers, { list: () => Effect.succeed([]) }),
  Layer.succeed(NodeIdentity, NodeIdentity.of({ nodeId: self, createdMs: 0, signing: key, transfer: key })),
  Layer.mock(ControlStore, { all: () => Effect.succeed([]), keep: () => Effect.void }),
]))
const told = <A, E extends { readonly _tag: string }>(asked: Effect.Effect<A, E>) =>
  Effect.match(asked, {
    onSuccess: (answer): unknown => answer ?? "allowed",
    onFailure: (error): unknown => "nodeId" in error ? error.nodeId : error._tag,
  })

describe("control", () => {
  it.effect("of this node's own cameras is unknown until its guardians were asked, and theirs while they have it", () =>
    Effect.gen(function*() {
      const [gate, controls] = yield* Effect.all([FailoverGate, Controls])
      const of = { slot: own, epoch: 4 }
      Object.assign(database, { asOf: 0, answers: null })
      assert.strictEqual(yield* told(gate.mayControl(of)), "DependencyUnavailable")
      assert.strictEqual(yield* told(gate.mayReleaseLicense), "DependencyUnavailable")
      yield* controls.tellServedBy(null)
      yield* TestClock.adjust("1 second")
      assert.strictEqual(yield* told(gate.mayControl(of)), "allowed")
      assert.strictEqual(yield* told(gate.mayDelete(of)), "allowed")
      yield* controls.tellServedBy({ nodeId: guardian, epoch: 5, control: false })
      assert.strictEqual(yield* told(gate.mayChange(of)), "allowed")
      assert.strictEqual(yield* told(gate.mayDelete(of)), guardian)
      assert.strictEqual(yield* told(gate.mayReleaseLicense), guardian)
      yield* controls.tellServedBy({ nodeId: guardian, epoch: 5, control: true })
      assert.strictEqual(yield* told(gate.mayControl(of)), guardian)
    }).pipe(Effect.provide(gated)))

  it.effect("of a node that is stood in for is there with the lease alone, and deletes nothing", () =>
    Effect.gen(function*() {
      const [gate, controls] = yield* Effect.all([FailoverGate, Controls])
      const of = { slot: wards, epoch: 7 }
      Object.assign(database, { asOf: 0, answers: null })
      yield* controls.tellServedBy(null)
      assert.strictEqual(yield* told(gate.mayControl(of)), ward)
      yield* controls.want(ward, { epoch: 7, override: true, turns: [] })
      yield* TestClock.adjust("7 seconds")
      database.asOf = 7_000
      assert.strictEqual(yield* told(gate.mayControl(of)), "allowed")
      assert.strictEqual(yield* told(gate.mayChange(of)), ward, "whose journal it belongs in")
      assert.strictEqual(yield* told(gate.mayDelete(of)), ward)
      assert.strictEqual(yield* told(gate.mayReleaseLicense), ward)
      assert.strictEqual(yield* told(gate.mayControl({ ...of, epoch: 6 })), "DependencyUnavailable")
      yield* controls.release(ward)
      assert.strictEqual(yield* told(gate.mayControl(of)), ward)
    }).pipe(Effect.provide(gated)))

  it.effect("within a cluster goes with the slot", () =>
    Effect.gen(function*() {
      const gate = yield* FailoverGate
      Object.assign(database, { asOf: 0, answers: null })
      assert.strictEqual(yield* told(gate.mayControl({ slot: members, epoch: 2 })), "allowed")
      assert.strictEqual(yield* told(gate.mayControl({ slot: members, epoch: 1 })), "DependencyUnavailable")
      assert.strictEqual(yield* told(gate.mayControl({ slot: foreign, epoch: 1 })), member)
      // Frozen for a minute, it reads before it controls, and does not where it cannot.
      yield* TestClock.adjust("1 minute")
      const asked = yield* Effect.forkChild(told(gate.mayControl({ slot: members, epoch: 2 })))
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(asked), "DependencyUnavailable")
      database.answers = owners.map((one) => one.slot === members ? { ...one, nodeId: member, epoch: 3 } : one)
      assert.strictEqual(yield* told(gate.mayControl({ slot: members, epoch: 2 })), member)
    }).pipe(Effect.provide(gated)))
})
