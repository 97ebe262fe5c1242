/** Laws of the protection state machine, for any run of events at any times, and the roads that a person knows by name. */
import {
  Protection,
  type ProtectionCommand,
  type ProtectionEvent,
  register,
  statusOf,
} from "#cluster/protection-state.ts"
import { step } from "#cluster/protection.ts"
import { NodeId } from "#schema/common.ts"
import { defaultSettings } from "#schema/federation-protection.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const node = (n: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const [home, self, other] = [node(1), node(2), node(3)]
const reroute = "01990000-0000-7000-8000-0000000000aa"

const fresh = (automatic = true): Protection =>
  register(
    { self, homeNodeId: home, class: "warm", automatic, rank: 0, granted: true, settings: defaultSettings },
    1,
    0,
  )

const beat = (epoch: number, bootId = "a"): ProtectionEvent => ({
  type: "heartbeat",
  epoch,
  servingNodeId: home,
  bootId,
  bundleDigest: "d",
})
const tick: ProtectionEvent = { type: "tick", windowOpen: true }

const small = Schema.Literals([1, 2, 3, 4])
const Turns = Schema.Array(Schema.Struct({ epoch: small, nodeId: Schema.Literals([self, other]) })).check(
  Schema.isMaxLength(2),
)
/** Any event, with few values so that they meet. */
const AnyEvent = Schema.Union([
  Schema.Struct({
    type: Schema.Literals(["restarted", "granted", "revoked", "release", "leaseLost", "stopped"]),
  }),
  Schema.Struct({ type: Schema.Literal("failback"), withoutChanges: Schema.optionalKey(Schema.Boolean) }),
  Schema.Struct({ type: Schema.Literals(["homeAsked"]) }),
  Schema.Struct({ type: Schema.Literal("tick"), windowOpen: Schema.Boolean }),
  Schema.Struct({
    type: Schema.Literal("heartbeat"),
    epoch: small,
    servingNodeId: Schema.Literals([home, self]),
    bootId: Schema.Literals(["a", "b"]),
    bundleDigest: Schema.Literals(["d", "e"]),
  }),
  Schema.Struct({
    type: Schema.Literal("answered"),
    status: Schema.Struct({
      nodeId: Schema.Literals([home, self, other]),
      homeNodeId: Schema.Literals([home, other]),
      phase: Schema.Literals(["none", "taking", "serving", "returning"]),
      epoch: small,
      control: Schema.Boolean,
      turns: Turns,
    }),
  }),
  Schema.Struct({
    type: Schema.Literal("capacity"),
    short: Schema.Array(Schema.Literal("x")).check(Schema.isMaxLength(1)),
  }),
  Schema.Struct({ type: Schema.Literal("bundleRefreshed"), digest: Schema.Literals(["d", "e"]) }),
  Schema.Struct({ type: Schema.Literal("bundleFailed"), reason: Schema.Literal("away") }),
  Schema.Struct({ type: Schema.Literal("takeover"), drill: Schema.Boolean, override: Schema.Boolean }),
  Schema.Struct({ type: Schema.Literal("slotTaken"), epoch: small, rerouteId: Schema.Literal(reroute) }),
  Schema.Struct({
    type: Schema.Literals(["slotFailed", "giveBackFailed"]),
    reason: Schema.Literal("no"),
    inForce: Schema.Literals([0, 2]),
  }),
  Schema.Struct({ type: Schema.Literals(["leaseObtained", "gaveBack"]), epoch: small }),
  Schema.Struct({ type: Schema.Literal("leaseDenied"), turns: Turns }),
  Schema.Struct({ type: Schema.Literals(["recordedBack", "cleanedUp"]), rerouteId: Schema.Literal(reroute) }),
])
const Run = Schema.Array(Schema.Struct({ wait: Schema.Literals([0, 100, 500, 1_400, 3_000, 40_000]), event: AnyEvent }))
  .check(Schema.isMaxLength(40))

const play = (
  run: typeof Run.Type,
  each: (
    before: Protection,
    event: ProtectionEvent,
    after: Protection,
    commands: ReadonlyArray<ProtectionCommand>,
    now: number,
  ) => void,
): { readonly state: Protection; readonly now: number } => {
  let state = fresh()
  let now = 0
  for (const { event, wait } of run) {
    now += wait
    const next = step(state, event as ProtectionEvent, now)
    each(state, event as ProtectionEvent, next.state, next.commands, now)
    state = next.state
  }
  return { state, now }
}

/** A world in which all is well: the home node is there, and whatever is commanded succeeds. */
const calm = (from: Protection, at: number, seconds: number) => {
  let state = from
  let epoch = from.epoch
  const given: Array<ProtectionCommand> = []
  const tell = (event: ProtectionEvent, now: number): void => {
    const next = step(state, event, now)
    state = next.state
    for (const command of next.commands) {
      given.push(command)
      const answer = well(command)
      if (answer !== null) tell(answer, now)
    }
  }
  const well = (command: ProtectionCommand): ProtectionEvent | null => {
    switch (command.type) {
      case "refreshBundle":
        return { type: "bundleRefreshed", digest: command.digest }
      case "takeSlot":
        return { type: "slotTaken", epoch: command.epoch, rerouteId: reroute }
      case "acquireLease":
        return { type: "leaseObtained", epoch: command.epoch }
      case "giveBack":
        epoch = command.epoch
        return { type: "gaveBack", epoch }
      case "stopServing":
        return { type: "stopped" }
      case "beginRecordBack":
        return { type: "recordedBack", rerouteId: command.rerouteId }
      case "cleanUp":
        return { type: "cleanedUp", rerouteId: command.rerouteId }
      default:
        return null
    }
  }
  tell({ type: "restarted" }, at)
  tell(tick, at)
  for (let now = at; now < at + seconds * 1_000; now += 500) tell(beat(epoch), now)
  return { state, given }
}

describe("protection, whatever happens", () => {
  it.prop("gives no command twice for one cause, skips no epoch, and stays plain data", { run: Run }, ({ run }) => {
    const decode = Schema.decodeUnknownSync(Protection)
    play(run, (before, event, after, commands, now) => {
      assert.isAtLeast(after.epoch, before.epoch)
      for (const command of commands) {
        if (command.type === "takeSlot") assert.isAbove(command.epoch, before.epoch)
        if (command.type === "giveBack") assert.isAbove(command.epoch, before.service!.epoch)
        if (command.type === "beginRecordBack") {
          assert.isTrue(after.owed.some((one) => one.rerouteId === command.rerouteId))
        }
      }
      const again = step(after, { type: "tick", windowOpen: after.windowOpen }, now)
      assert.deepStrictEqual(again.commands, [], `after ${event.type}`)
      assert.deepStrictEqual(again.state, after)
      assert.deepStrictEqual(decode(JSON.parse(JSON.stringify(after))), after)
    })
  })

  it.prop("has one command of a kind in flight", { run: Run }, ({ run }) => {
    let flying = 0
    play(run, (before, event, after, commands) => {
      const count = commands.filter(({ type }) =>
        type === "takeSlot" || type === "giveBack" || type === "stopServing"
      ).length
      if (event.type === "restarted" || before.service?.inFlight !== true) flying = 0
      if (after.service?.inFlight !== true) flying = 0
      flying += count
      assert.isAtMost(flying, 1)
    })
  })

  it.prop("lets control go before it leaves the slot", { run: Run }, ({ run }) => {
    play(run, (_, __, after, commands) => {
      const released = commands.findIndex((command) => command.type === "releaseLease")
      const gone = commands.findIndex((command) => command.type === "giveBack" || command.type === "stopServing")
      if (gone >= 0 && commands[gone]!.type === "giveBack" && released >= 0) assert.isBelow(released, gone)
      if (after.service !== null && after.service.step !== "serving") assert.strictEqual(after.service.lease, "none")
    })
  })

  it.prop("comes to rest after a restart in any state, once all is well", { run: Run }, ({ run }) => {
    const { now, state } = play(run, () => undefined)
    const rest = calm({ ...state, settings: defaultSettings }, now + 1, 120).state
    // What a person took over or did not grant is a person's to end.
    if (state.service?.hold === true && rest.service !== null) {
      const asked = step(rest, { type: "failback" }, rest.lastStepMs)
      assert.isTrue(asked.commands.some((command) => command.type === "giveBack"))
      return
    }
    assert.isNull(rest.service)
    assert.deepStrictEqual(rest.owed, [])
    const wanted = state.released ?
      "released" :
      !state.granted ?
      "pendingGrant" :
      state.short.length > 0 ?
      "capacityShort" :
      "protected"
    assert.strictEqual(rest.tag, wanted)
  })
})

describe("protection, by name", () => {
  /** Heartbeats until 10 s, with the configuration held. */
  const protectedAt10 = (): Protection => {
    let state = fresh()
    for (let now = 0; now <= 10_000; now += 500) state = step(state, beat(1), now).state
    return step(state, { type: "bundleRefreshed", digest: "d" }, 10_000).state
  }
  const silentUntil = (from: Protection, at: number) => {
    let state = from
    const given: Array<readonly [number, ProtectionCommand]> = []
    for (let now = from.lastStepMs + 100; now <= at; now += 100) {
      const next = step(state, tick, now)
      state = next.state
      given.push(...next.commands.map((command) => [now, command] as const))
    }
    return { state, given }
  }

  it("asks after 1.5 s of silence and takes the slot after 3", () => {
    const { given, state } = silentUntil(protectedAt10(), 13_000)
    assert.strictEqual(given.find(([, command]) => command.type === "askRerouteStatus")?.[0], 11_500)
    assert.deepStrictEqual(given.find(([, command]) => command.type === "takeSlot"), [13_000, {
      type: "takeSlot",
      epoch: 2,
    }])
    assert.strictEqual(state.tag, "takingOver")
    assert.strictEqual(statusOf(state).phase, "taking")
  })

  it("waits while another guardian serves, and for as long again when that one falls silent", () => {
    const { state } = silentUntil(protectedAt10(), 12_000)
    const status = {
      nodeId: other,
      homeNodeId: home,
      phase: "serving" as const,
      epoch: 2,
      control: false,
      turns: [{ epoch: 2, nodeId: other }],
    }
    const told = step(state, { type: "answered", status }, 12_000).state
    assert.strictEqual(silentUntil(told, 14_900).state.tag, "suspect")
    const after = silentUntil(told, 15_000)
    assert.deepStrictEqual(after.given.at(-2), [15_000, { type: "takeSlot", epoch: 3 }])
  })

  it("hears with the next heartbeat whether it may still guard", () => {
    const state = protectedAt10()
    const revoked = step(state, { ...beat(1), granted: false } as ProtectionEvent, 10_500)
    assert.strictEqual(revoked.state.tag, "pendingGrant")
    assert.deepInclude(revoked.commands, { type: "dropBundle" })
    const granted = step(revoked.state, { ...beat(1), granted: true } as ProtectionEvent, 11_000)
    assert.deepInclude(granted.commands, { type: "refreshBundle", digest: "d" })
  })

  it("does not mistake its own freeze for the death of the home node", () => {
    const thawed = step(protectedAt10(), tick, 600_000)
    assert.strictEqual(thawed.state.tag, "protected")
    assert.deepStrictEqual(thawed.commands, [])
  })

  it("yields to the lower node id where two took the same number", () => {
    let { state } = silentUntil(protectedAt10(), 13_000)
    state = step(state, { type: "slotTaken", epoch: 2, rerouteId: reroute }, 13_100).state
    const status = (nodeId: NodeId) => ({
      nodeId,
      homeNodeId: home,
      phase: "serving" as const,
      epoch: 2,
      control: true,
      turns: [{ epoch: 2, nodeId }],
    })
    assert.strictEqual(step(state, { type: "answered", status: status(other) }, 13_200).state.tag, "takenOver")
    const yielded = step({ ...state, self: node(4) }, { type: "answered", status: status(other) }, 13_200)
    assert.strictEqual(yielded.state.tag, "fenced")
    assert.deepStrictEqual(yielded.commands[0], { type: "releaseLease", epoch: 2 })
  })

  it("gives back after a stable time, with an overlap, and sends the footage home", () => {
    let { state } = silentUntil(protectedAt10(), 13_000)
    state = step(state, { type: "slotTaken", epoch: 2, rerouteId: reroute }, 13_100).state
    const { given, state: rest } = calm(state, 14_000, 40)
    const order = given.map((command) => command.type).filter((type) =>
      type !== "askRerouteStatus" && type !== "tellState"
    )
    assert.deepStrictEqual(order, [
      "acquireLease",
      "releaseLease",
      "giveBack",
      "stopServing",
      "beginRecordBack",
      "cleanUp",
    ])
    assert.strictEqual(rest.epoch, 3)
    assert.strictEqual(rest.tag, "protected")
  })

  it("tells people of a failback that fails again and again, tries less often, and goes without the changes when told to", () => {
    let { state } = silentUntil(protectedAt10(), 13_000)
    state = step(state, { type: "slotTaken", epoch: 2, rerouteId: reroute }, 13_100).state
    const tried: Array<number> = []
    const told: Array<readonly [number, ProtectionCommand]> = []
    const tell = (event: ProtectionEvent, now: number): void => {
      const next = step(state, event, now)
      state = next.state
      for (const command of next.commands) {
        if (command.type === "tellHeld") told.push([tried.length, command])
        if (command.type !== "giveBack") continue
        tried.push(now)
        assert.isFalse(command.withoutChanges)
        tell({ type: "giveBackFailed", reason: "the changes cannot be read", inForce: 0 }, now)
      }
    }
    for (let now = 13_500; now < 180_000; now += 500) tell(beat(1), now)
    const waits = tried.slice(1).map((at, n) => at - tried[n]!)
    assert.deepStrictEqual(waits.slice(0, 4), [2_000, 4_000, 6_000, 8_000])
    assert.strictEqual(waits.at(-1), 16_000)
    assert.deepStrictEqual(told, [[3, { type: "tellHeld", refusals: 3, reason: "the changes cannot be read" }]])
    assert.strictEqual(state.tag, "restored")
    // A restart keeps what an administrator decided.
    const asked = step(state, { type: "failback", withoutChanges: true }, 180_100)
    assert.deepInclude(asked.commands, {
      type: "giveBack",
      epoch: 3,
      turns: [{ epoch: 2, nodeId: self }],
      withoutChanges: true,
    })
    assert.strictEqual(asked.state.tag, "restored", "each try is no news")
    const { given } = calm(asked.state, 181_000, 40)
    assert.isTrue(
      given.filter(({ type }) => type === "giveBack").every((one) => "withoutChanges" in one && one.withoutChanges),
    )
    assert.isTrue(given.some(({ type }) => type === "cleanUp"))
  })

  it("keeps footage of a turn that the home node does not know of yet", () => {
    let { state } = silentUntil(protectedAt10(), 13_000)
    state = step(state, { type: "slotTaken", epoch: 2, rerouteId: reroute }, 13_100).state
    const owed = [{ rerouteId: reroute, firstEpoch: 2, lastEpoch: 2, step: "owed" as const }]
    // Another guardian served meanwhile, and still does: the home node is back and has its old number.
    const old: ProtectionEvent = {
      type: "heartbeat",
      epoch: 1,
      servingNodeId: other,
      bootId: "b",
      bundleDigest: "d",
    }
    const back = step({ ...state, service: null, owed }, old, 13_500)
    assert.deepStrictEqual(back.commands.filter(({ type }) => type === "beginRecordBack"), [])
    const served = step(back.state, beat(4), 14_000)
    assert.deepInclude(served.commands, {
      type: "beginRecordBack",
      rerouteId: reroute,
      firstEpoch: 2,
      lastEpoch: 2,
    })
  })
})
