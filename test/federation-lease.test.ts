/** Control over several nodes, each with the production driver, on a virtual clock: calls between them go through, or not, as a test says. */
import { layer } from "#actors/behaviour/federation-control.ts"
import { Controls } from "#actors/protocol/federation-control.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { ControlStore, type KeptControl } from "#actors/store/federation-control.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Owner, Ownership } from "#cluster/ownership.ts"
import { NodeId } from "#schema/common.ts"
import { ControlRequest, LeaseRelease } from "#schema/federation-control.ts"
import { PeerUnreachable } from "#schema/federation.ts"
import { Slot } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Schema, Scope, SubscriptionRef } from "effect"
import { TestClock } from "effect/testing"
import { generateKeyPairSync } from "node:crypto"

const id = (n: number) => NodeId.make(`01890000-0000-7000-8000-00000000000${n}`)
const [home, first, second] = [id(1), id(2), id(3)]
const slots = { own: Slot.make("n00"), home: Slot.make("n01") }
const decodeRequest = Schema.decodeUnknownEffect(ControlRequest)
const decodeRelease = Schema.decodeUnknownEffect(LeaseRelease)

const key = (kind: "ed25519" | "x25519") => ({
  privateKey: kind === "ed25519" ? generateKeyPairSync("ed25519").privateKey : generateKeyPairSync("x25519").privateKey,
  publicKey: "",
})
/** Of each node, the same in all its lives. */
const identities = new Map([home, first, second].map((nodeId) => [
  nodeId,
  NodeIdentity.of({ nodeId, createdMs: 0, signing: key("ed25519"), transfer: key("x25519") }),
]))

interface Running {
  readonly controls: Controls["Service"]
  readonly gate: (typeof FailoverGate)["Service"]
  readonly owners: SubscriptionRef.SubscriptionRef<ReadonlyArray<Owner>>
  readonly scope: Scope.Closeable
}

/** Nodes, of which the first is the home node and the others may guard it. */
const world = Effect.gen(function*() {
  const running = new Map<NodeId, Running>()
  const disks = new Map<NodeId, Map<NodeId, KeptControl>>()
  const cut = new Set<NodeId>()
  const withoutDatabase = new Set<NodeId>()
  const guardians = new Set<NodeId>()

  const peersOf = (self: NodeId) =>
    Layer.mock(Peers, {
      list: () =>
        Effect.succeed(
          [home, first, second].filter((one) => one !== self).map((nodeId): Peer => ({
            nodeId,
            name: nodeId,
            relation: "peer",
            address: "",
            fingerprint: "" as Peer["fingerprint"],
            signingKey: "",
            transferKey: "",
            mediaReadEnforcement: true,
            guardianGranted: self === home && guardians.has(nodeId),
          })),
        ),
      call: ((to: NodeId, { body, path }: { readonly body: { readonly json: unknown }; readonly path: string }) =>
        Effect.gen(function*() {
          yield* Effect.sleep(20)
          const other = running.get(to)
          if (other === undefined || cut.has(to) || cut.has(self)) {
            return yield* new PeerUnreachable({ nodeId: to, reason: "cut" })
          }
          if (path.endsWith("/votes")) {
            return yield* other.controls.vote(self, yield* Effect.orDie(decodeRequest(body.json)))
          }
          yield* other.controls.letGo(self, yield* Effect.orDie(decodeRelease(body.json)))
          return { homeNodeId: home }
        })) as never,
    })
  const storeOf = (self: NodeId) =>
    Layer.mock(ControlStore, {
      all: () => Effect.sync(() => [...disks.get(self) ?? []].map(([homeNodeId, kept]) => ({ homeNodeId, ...kept }))),
      keep: (_self, about, kept) =>
        Effect.suspend(() => {
          if (withoutDatabase.has(self)) {
            return Effect.fail(new DependencyUnavailable({ dependency: "database", message: "away" }))
          }
          disks.set(self, new Map(disks.get(self)).set(about, kept))
          return Effect.void
        }),
    })
  const start = Effect.fnUntraced(function*(self: NodeId, epoch = 1) {
    const own = { nodeId: self, homeNodeId: self, address: "", adopted: false }
    const owners = yield* SubscriptionRef.make<ReadonlyArray<Owner>>([{ ...own, slot: slots.own, epoch }])
    const scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(
      layer.pipe(Layer.provide([
        peersOf(self),
        storeOf(self),
        Layer.succeed(NodeIdentity, identities.get(self)!),
        Layer.mock(Ownership, {
          nodeId: self,
          slot: slots.own,
          entityId: (one) => one,
          owners: SubscriptionRef.get(owners),
          changes: SubscriptionRef.changes(owners),
          epochOf: (slot) =>
            Effect.map(SubscriptionRef.get(owners), (all) =>
              all.find((one) => one.slot === slot && one.nodeId === self)?.epoch ?? null),
        }),
      ])),
      scope,
    )
    const node = { controls: Context.get(context, Controls), gate: Context.get(context, FailoverGate), owners, scope }
    running.set(self, node)
    yield* node.controls.tellServedBy(null)
    return node
  })
  const kill = Effect.fnUntraced(function*(self: NodeId) {
    const node = running.get(self)
    running.delete(self)
    if (node !== undefined) yield* Scope.close(node.scope, Exit.void)
  })
  /** A guardian serves the home node's slot and wants control of it. */
  const takeOver = Effect.fnUntraced(function*(self: NodeId, epoch: number, override = false) {
    const { controls, owners } = running.get(self)!
    const taken = { slot: slots.home, nodeId: self, homeNodeId: home, address: "", adopted: true, epoch }
    yield* SubscriptionRef.update(owners, (all) => [...all.filter(({ slot }) => slot !== slots.home), taken])
    yield* controls.want(home, { epoch, override, turns: [{ epoch, nodeId: self }] })
  })
  /** Who may control the home node's cameras now, asked of everybody by way of the gate. */
  const controllers = Effect.suspend(() =>
    Effect.filter([...running.keys()], (self) =>
      Effect.gen(function*() {
        const { gate, owners } = running.get(self)!
        const slot = self === home ? slots.own : slots.home
        const served = (yield* SubscriptionRef.get(owners)).find((one) => one.slot === slot)
        return served !== undefined && Exit.isSuccess(yield* Effect.exit(gate.mayControl(served)))
      }))
  )
  /** Lets the time pass in small steps; at no moment two control. */
  const pass = Effect.fnUntraced(function*(ms: number) {
    for (let at = 0; at < ms; at += 125) {
      yield* TestClock.adjust(125)
      assert.isAtMost((yield* controllers).length, 1)
    }
  })
  const node = (self: NodeId) => running.get(self)!
  yield* Effect.addFinalizer(() => Effect.forEach([...running.keys()], kill, { discard: true }))
  return { start, kill, takeOver, controllers, pass, cut, withoutDatabase, guardians, node, disks }
})

describe("control", () => {
  it.effect("of a node alone is there at once, and stays when a guardian comes", () =>
    Effect.gen(function*() {
      const { controllers, guardians, node, pass, start } = yield* world
      yield* start(home)
      yield* pass(125)
      assert.deepStrictEqual(yield* controllers, [home])
      yield* start(first)
      guardians.add(first)
      for (let n = 0; n < 100; n++) {
        yield* pass(125)
        assert.deepStrictEqual(yield* controllers, [home])
      }
      assert.deepStrictEqual((yield* node(home).controls.view())[0], {
        homeNodeId: home,
        epoch: 1,
        holder: home,
        until: null,
        voters: [home, first],
        refused: [],
      })
    }).pipe(Effect.scoped))

  it.effect("of two never moves by itself; a statement moves it, and the home node has it again when it was let go", () =>
    Effect.gen(function*() {
      const { controllers, cut, guardians, kill, node, pass, start, takeOver } = yield* world
      guardians.add(first)
      yield* start(first)
      yield* start(home)
      yield* pass(15_000)
      cut.add(home)
      yield* takeOver(first, 2)
      yield* pass(60_000)
      assert.deepStrictEqual(yield* controllers, [home])
      const refusal = yield* Effect.flip(node(first).gate.mayControl({ slot: slots.home, epoch: 2 }))
      assert.deepInclude(refusal, { _tag: "ControlElsewhere", nodeId: home })
      yield* kill(home)
      yield* takeOver(first, 2, true)
      yield* pass(1_000)
      assert.deepStrictEqual(yield* controllers, [first])
      cut.delete(home)
      yield* start(home)
      yield* pass(10_000)
      assert.deepStrictEqual(yield* controllers, [first])
      assert.deepStrictEqual((yield* node(home).controls.denied(home))?.inForce, 2)
      yield* node(first).controls.release(home)
      yield* SubscriptionRef.update(node(home).owners, ([own]) => [{ ...own!, epoch: 3 }])
      yield* pass(3_000)
      assert.deepStrictEqual(yield* controllers, [home])
    }).pipe(Effect.scoped))

  it.effect("comes to a home node that was restored from before its last guardian came: it knows its own list again", () =>
    Effect.gen(function*() {
      const { controllers, disks, guardians, kill, node, pass, start } = yield* world
      guardians.add(first)
      yield* start(first)
      yield* start(second)
      yield* start(home)
      yield* pass(15_000)
      const backup = new Map(disks.get(home))
      assert.deepStrictEqual((yield* node(home).controls.view())[0]?.voters, [home, first])
      guardians.add(second)
      yield* pass(15_000)
      guardians.delete(first)
      yield* pass(15_000)
      guardians.add(first)
      yield* pass(15_000)
      const list = [home, second, first]
      assert.deepStrictEqual((yield* node(home).controls.view())[0]?.voters, list)
      yield* kill(home)
      disks.set(home, backup)
      yield* start(home, 2)
      yield* pass(15_000)
      assert.deepStrictEqual(yield* controllers, [home])
      assert.deepStrictEqual((yield* node(home).controls.view())[0]?.voters, list)
    }).pipe(Effect.scoped))

  it.effect("of two is not the home node's after its start without the guardian, until its administrator says so", () =>
    Effect.gen(function*() {
      const { controllers, guardians, kill, node, pass, start } = yield* world
      guardians.add(first)
      yield* start(first)
      yield* start(home)
      yield* pass(15_000)
      yield* kill(first)
      yield* kill(home)
      yield* start(home)
      yield* pass(10_000)
      assert.deepStrictEqual(yield* controllers, [])
      assert.deepStrictEqual((yield* node(home).controls.view())[0]!.holder, null)
      yield* node(home).controls.takeBack()
      yield* pass(500)
      assert.deepStrictEqual(yield* controllers, [home])
      yield* start(first)
      yield* pass(10_000)
      assert.deepStrictEqual(yield* controllers, [home])
      guardians.delete(first)
      yield* pass(10_000)
      assert.deepStrictEqual((yield* node(home).controls.view())[0]!.voters, [home])
    }).pipe(Effect.scoped))

  it.effect("of three goes with the majority once the lease of who is cut off ran out", () =>
    Effect.gen(function*() {
      const { controllers, cut, guardians, node, pass, start, takeOver } = yield* world
      guardians.add(first).add(second)
      for (const self of [home, first, second]) yield* start(self)
      yield* pass(20_000)
      assert.deepStrictEqual((yield* node(home).controls.view())[0]!.voters.length, 3)
      assert.deepStrictEqual(yield* controllers, [home])
      const { until } = (yield* node(home).controls.view())[0]!
      assert.isNotNull(until)
      cut.add(home)
      yield* takeOver(first, 2)
      yield* pass(3_000)
      assert.deepStrictEqual(yield* controllers, [home])
      yield* pass(9_000)
      assert.deepStrictEqual(yield* controllers, [first])
      cut.delete(home)
      yield* pass(10_000)
      assert.deepStrictEqual(yield* controllers, [first])
      const view = (yield* node(home).controls.view())[0]!
      assert.strictEqual(view.holder, null)
      assert.include(view.refused, "device_command")
      // Who serves with a stale epoch is refused by every voter.
      const voters = [home, first, second]
      const old = {
        homeNodeId: home,
        bootId: "old",
        round: 9,
        epoch: 1,
        turns: [],
        rollVersion: 99,
        termMs: 5_000,
        voters,
      }
      const answer = yield* node(second).controls.vote(home, { ...old, holder: home })
      assert.deepInclude(answer, { granted: false, inForce: 2 })
    }).pipe(Effect.scoped))

  it.effect("is promised to nobody whom the home node did not name, nor to who speaks for another", () =>
    Effect.gen(function*() {
      const { guardians, node, pass, start } = yield* world
      guardians.add(first)
      for (const self of [home, first, second]) yield* start(self)
      yield* pass(15_000)
      const voters = [home, first, second]
      const request = {
        homeNodeId: home,
        bootId: "b",
        round: 1,
        epoch: 9,
        turns: [],
        rollVersion: 9,
        termMs: 5_000,
        voters,
      }
      const refused = Effect.fnUntraced(function*(to: NodeId, asker: NodeId, holder: NodeId) {
        return (yield* Effect.flip(node(to).controls.vote(asker, { ...request, holder })))._tag
      })
      assert.strictEqual(yield* refused(home, second, second), "GuardianNotGranted")
      assert.strictEqual(yield* refused(first, second, second), "GuardianNotGranted")
      assert.strictEqual(yield* refused(first, second, home), "GuardianNotGranted")
      const release = { homeNodeId: home, holder: home, bootId: "b", round: 99 }
      assert.strictEqual((yield* Effect.flip(node(first).controls.letGo(second, release)))._tag, "GuardianNotGranted")
    }).pipe(Effect.scoped))

  it.effect("is not promised where the promise cannot be kept, and what was promised outlives the process", () =>
    Effect.gen(function*() {
      const { cut, disks, guardians, kill, node, pass, start, withoutDatabase } = yield* world
      guardians.add(first).add(second)
      for (const self of [home, first, second]) yield* start(self)
      yield* pass(20_000)
      const { version, voters } = disks.get(second)!.get(home)!.roll as {
        version: number
        voters: ReadonlyArray<NodeId>
      }
      const request = {
        homeNodeId: home,
        bootId: "b",
        round: 1,
        turns: [],
        rollVersion: version,
        termMs: 5_000,
        voters,
      }
      const asked = { ...request, holder: first, epoch: 2 }
      cut.add(home)
      withoutDatabase.add(second)
      yield* pass(12_000)
      const failed = yield* Effect.flip(node(second).controls.vote(first, asked))
      assert.strictEqual(failed._tag, "DependencyUnavailable")
      withoutDatabase.delete(second)
      assert.isTrue((yield* node(second).controls.vote(first, asked)).granted)
      yield* kill(second)
      yield* start(second)
      const other = yield* node(second).controls.vote(home, { ...request, holder: home, epoch: 2 })
      assert.isFalse(other.granted)
    }).pipe(Effect.scoped))
})
