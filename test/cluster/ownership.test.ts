/** Slots, entity ids, virtual runners, services that come late: what needs no process. */
import { Late, lateLayer } from "#actors/protocol/late.ts"
import { lowestFree, type Owner } from "#cluster/ownership.ts"
import { ofMembers, shardGroups, withVirtualRunners } from "#cluster/runner-storage.ts"
import { NodeId } from "#schema/common.ts"
import { entityId, isSlot, parseEntityId, shardGroupOf, Slot, slots } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Scope } from "effect"
import { Runner, RunnerAddress } from "effect/cluster"

describe("slots", () => {
  it("are 64, in the order that lock numbers come from", () => {
    expect(slots.length).toBe(64)
    expect(slots.toSorted()).toEqual(slots)
    expect(shardGroups).toEqual(["default", ...slots])
    expect(slots.every(isSlot)).toBe(true)
    expect(["n64", "n0", "N00", "n000", "", "default"].some(isSlot)).toBe(false)
  })

  it("name entities, and the shard group of an entity", () => {
    const slot = Slot.make("n63")
    expect(parseEntityId(entityId(slot, "019"))).toEqual({ slot, id: "019" })
    expect(shardGroupOf(entityId(slot, "a/b"))).toBe("n63")
    for (const text of ["", "n00", "n00/", "n64/x", "/x", "x"]) {
      expect(parseEntityId(text)).toBe(null)
      expect(shardGroupOf(text)).toBe("default")
    }
  })

  it("are given out from the lowest", () => {
    expect(lowestFree(new Set())).toBe("n00")
    expect(lowestFree(new Set(["n00", "n02"]))).toBe("n01")
    expect(lowestFree(new Set(slots))).toBe(null)
  })
})

describe("virtual runners", () => {
  const node = (n: number) => NodeId.make(`01900000-0000-7000-8000-00000000000${n}`)
  const address = (n: number) => RunnerAddress.make("10.0.0.1", 5000 + n)
  const registered = (n: number, healthy = true) =>
    [Runner.make({ address: address(n), groups: ["default"], weight: 1 }), healthy] as const
  const owner = (slot: string, n: number, home = n): Owner => ({
    slot: Slot.make(slot),
    nodeId: node(n),
    homeNodeId: node(home),
    address: `10.0.0.1:${5000 + n}`,
    epoch: 1,
    adopted: false,
  })
  const groupsAt = (runners: ReturnType<typeof withVirtualRunners>, n: number) =>
    runners.filter(([runner]) => runner.address.port === 5000 + n).flatMap(([runner]) => runner.groups)
  const self = { nodeId: node(1), address: address(1) }

  it("stand at the address of the owner, each with a weight of its own", () => {
    const runners = withVirtualRunners([registered(1), registered(2)], [
      owner("n00", 1),
      owner("n01", 2),
      owner("n02", 2, 3),
    ], self)
    expect(groupsAt(runners, 1)).toEqual(["default", "n00"])
    expect(groupsAt(runners, 2)).toEqual(["default", "n01", "n02"])
    expect(new Set(runners.slice(2).map(([runner]) => runner.weight)).size).toBe(3)
  })

  it("leave out an owner that is gone, and carry the health of one that is not well", () => {
    const runners = withVirtualRunners([registered(1), registered(2, false)], [owner("n01", 2), owner("n02", 3)], self)
    expect(groupsAt(runners, 3)).toEqual([])
    expect(runners.find(([runner]) => runner.groups.includes("n01"))?.[1]).toBe(false)
  })

  it("keep this node for its own slots although its heartbeat is late or it was called unwell", () => {
    for (const known of [[], [registered(1, false)]]) {
      const own = withVirtualRunners(known, [owner("n00", 1)], self).find(([runner]) => runner.groups.includes("n00"))
      expect(own?.[1]).toBe(true)
    }
  })

  it("never give this node the slot of another that once had its address", () => {
    const stale: Owner = { ...owner("n05", 4), address: "10.0.0.1:5001" }
    expect(groupsAt(withVirtualRunners([registered(1)], [owner("n00", 1), stale], self), 1)).toEqual(["default", "n00"])
  })
})

describe("services that come late", () => {
  class Greeter extends Context.Service<Greeter, {
    readonly greet: (name: string) => Effect.Effect<string, DependencyUnavailable>
  }>()("test/Greeter") {}

  it.effect("fail with DependencyUnavailable while absent, answer while published, and fail again afterwards", () =>
    Effect.gen(function*() {
      const late = yield* Late
      const greeter = yield* Greeter
      expect((yield* Effect.flip(greeter.greet("a")))._tag).toBe("DependencyUnavailable")
      const publish = (text: string) =>
        Effect.gen(function*() {
          const scope = yield* Scope.make()
          yield* late.publish(Context.make(Greeter, { greet: (name) => Effect.succeed(text + name) })).pipe(
            Scope.provide(scope),
          )
          return Scope.close(scope, Exit.void)
        })
      const endFirst = yield* publish("hello ")
      expect(yield* late.present).toBe(true)
      expect(yield* greeter.greet("a")).toBe("hello a")
      const endSecond = yield* publish("good day ")
      yield* endFirst
      expect(yield* greeter.greet("a")).toBe("good day a")
      yield* endSecond
      expect(yield* late.present).toBe(false)
      expect((yield* Effect.flip(greeter.greet("a")))._tag).toBe("DependencyUnavailable")
    }).pipe(Effect.provide(lateLayer(Greeter).pipe(Layer.provideMerge(Late.layer)))))

  it.effect("die when what was published lacks them: a mistake of the wiring, not an outage", () =>
    Effect.gen(function*() {
      yield* (yield* Late).publish(Context.empty())
      const exit = yield* Effect.exit((yield* Greeter).greet("a"))
      expect(Exit.isFailure(exit) && Exit.hasDies(exit)).toBe(true)
    }).pipe(Effect.provide(lateLayer(Greeter).pipe(Layer.provideMerge(Late.layer)))))
})

describe("registered runners", () => {
  const at = (port: number) => RunnerAddress.make("10.0.0.1", port)
  const registered = [5001, 5002].map((port) =>
    [Runner.make({ address: at(port), groups: ["default"], weight: 1 }), true] as const
  )
  it("count only where their node was admitted; one that was not sees itself unwell and nobody else", () => {
    const ports = (admitted: ReadonlyArray<boolean>, self: string) =>
      ofMembers(registered, admitted.map((one, n) => ({ address: `10.0.0.1:${5001 + n}`, admitted: one })), self)
        .map(([runner, healthy]) => [runner.address.port, healthy])
    expect(ports([true, true], "10.0.0.1:5001")).toEqual([[5001, true], [5002, true]])
    expect(ports([true, false], "10.0.0.1:5001")).toEqual([[5001, true]])
    expect(ports([false, false], "10.0.0.1:5002")).toEqual([[5002, false]])
    expect(ports([], "10.0.0.1:5003")).toEqual([])
  })
})
