/** Roads through the protection state machine that a person can name: rank, yielding, restarts, what a guardian owes. */
import {
  type Protection,
  type ProtectionCommand,
  type ProtectionEvent,
  register,
  statusOf,
} from "#cluster/protection-state.ts"
import { step } from "#cluster/protection.ts"
import { NodeId } from "#schema/common.ts"
import { defaultSettings } from "#schema/federation-protection.ts"
import { assert, describe, it } from "@effect/vitest"

const node = (n: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const [home, self, other] = [node(1), node(2), node(3)]
const rerouteId = "01990000-0000-7000-8000-0000000000aa"
const { deadMs, drillMs, overlapMs, rankWaitMs, stableMs } = defaultSettings

const beat = (epoch: number, bootId = "a"): ProtectionEvent => ({
  type: "heartbeat",
  epoch,
  servingNodeId: home,
  bootId,
  bundleDigest: "d",
})
const tick: ProtectionEvent = { type: "tick", windowOpen: true }
type Given = ReadonlyArray<readonly [number, ProtectionCommand]>

/** Every 100 ms `event`, until `at`. */
const during = (from: Protection, event: ProtectionEvent, at: number): { state: Protection; given: Given } => {
  let state = from
  const given: Array<readonly [number, ProtectionCommand]> = []
  for (let now = from.lastStepMs + 100; now <= at; now += 100) {
    const next = step(state, event, now)
    state = next.state
    given.push(...next.commands.map((command) => [now, command] as const))
  }
  return { state, given }
}
const when = (given: Given, type: ProtectionCommand["type"]): number | undefined =>
  given.find(([, command]) => command.type === type)?.[0]
const tell = (state: Protection, event: ProtectionEvent, now = state.lastStepMs): Protection =>
  step(state, event, now).state

/** Heartbeats until 10 s, with the configuration held. */
const ready = (rank = 0): Protection => {
  const relation = { self, homeNodeId: home, class: "warm", automatic: true, rank, granted: true } as const
  const state = during(register({ ...relation, settings: defaultSettings }, 1, 0), beat(1), 10_000).state
  return tell(state, { type: "bundleRefreshed", digest: "d" })
}
/** Took the slot of a silent home node at 13 s, with epoch 2, and controls its cameras. */
const serving = (): Protection => {
  const { state } = during(ready(), tick, 13_000)
  const taken = tell(state, { type: "slotTaken", epoch: 2, rerouteId }, 13_100)
  return tell(taken, { type: "leaseObtained", epoch: 2 }, 13_100)
}
const told = (phase: "none" | "taking" | "serving", epoch: number, nodeId = other): ProtectionEvent => ({
  type: "answered",
  status: {
    nodeId,
    homeNodeId: home,
    phase,
    epoch,
    control: false,
    turns: phase === "serving" ? [{ epoch, nodeId }] : [],
  },
})

describe("a guardian", () => {
  it("waits its rank, and takes its turn then", () => {
    for (const rank of [0, 1, 2]) {
      assert.strictEqual(when(during(ready(rank), tick, 20_000).given, "takeSlot"), 10_000 + deadMs + rank * rankWaitMs)
    }
  })

  it("lets the slot be where its takeover failed and another serves meanwhile", () => {
    const failed = tell(during(ready(), tick, 13_000).state, { type: "slotFailed", reason: "away", inForce: 0 }, 13_050)
    const left = during(tell(failed, told("serving", 2), 13_100), tick, 15_900)
    assert.isNull(left.state.service)
    assert.isUndefined(when(left.given, "takeSlot"))
    // With nobody else it tries again.
    assert.isDefined(when(during(failed, tick, 15_900).given, "takeSlot"))
  })

  it("yields once the home node serves with a later number, and captures until the overlap is over", () => {
    const back = during(serving(), beat(3, "b"), 13_200)
    assert.deepStrictEqual(back.given.map(([, command]) => command.type).slice(-2), ["releaseLease", "tellState"])
    assert.strictEqual(back.state.service?.step, "overlap")
    const { given } = during(back.state, beat(3, "b"), 20_000)
    assert.strictEqual(when(given, "stopServing"), 13_200 + overlapMs)
    assert.isUndefined(when(given, "giveBack"))
  })

  it("that another fenced tells whoever asks that it does not serve", () => {
    const fenced = tell({ ...serving(), self: node(4) }, told("serving", 2, other), 13_200)
    assert.strictEqual(fenced.tag, "fenced")
    assert.strictEqual(statusOf(fenced).phase, "none")
    assert.strictEqual(statusOf(serving()).phase, "serving")
  })

  it("takes the slot anew where who took it later has fallen silent", () => {
    const lost = tell(serving(), { type: "leaseLost" }, 13_200)
    const denied = tell(lost, { type: "leaseDenied", turns: [{ epoch: 3, nodeId: other }] }, 13_300)
    const { given } = during(denied, tick, 20_000)
    assert.deepStrictEqual(given.find(([, command]) => command.type === "takeSlot"), [13_100 + deadMs, {
      type: "takeSlot",
      epoch: 4,
    }])
    // One that is heard serves on.
    const heard = during(denied, told("serving", 3), 13_400)
    assert.strictEqual(heard.state.tag, "fenced")
  })

  it("gives back after a stable time and not before, and captures until the overlap is over", () => {
    const { given, state } = during(serving(), beat(1, "b"), 60_000)
    assert.strictEqual(when(given, "giveBack"), 13_200 + stableMs)
    const agreed = tell(state, { type: "gaveBack", epoch: 3 }, 60_100)
    assert.strictEqual(when(during(agreed, beat(3, "b"), 70_000).given, "stopServing"), 60_100 + overlapMs)
  })

  it("gives back by itself what a person took over, once the home node was really gone", () => {
    const asked = tell(ready(), { type: "takeover", drill: false, override: false }, 10_100)
    const taken = tell(asked, { type: "slotTaken", epoch: 2, rerouteId }, 10_200)
    const held = during(taken, beat(1), 60_000)
    assert.isUndefined(when(held.given, "giveBack"))
    const gone = during(held.state, tick, 70_000).state
    assert.isDefined(when(during(gone, beat(1, "b"), 70_100 + stableMs).given, "giveBack"))
  })

  it("ends a drill by itself", () => {
    const asked = tell(ready(), { type: "takeover", drill: true, override: false }, 10_100)
    const taken = tell(asked, { type: "slotTaken", epoch: 2, rerouteId }, 10_200)
    assert.strictEqual(when(during(taken, beat(1), 60_000).given, "giveBack"), 10_200 + drillMs)
  })

  it("that is revoked gives back, and has no configuration of the home node afterwards", () => {
    const revoked = step(ready(), { type: "revoked" }, 10_100)
    assert.strictEqual(revoked.state.tag, "pendingGrant")
    assert.deepInclude(revoked.commands, { type: "dropBundle" })
    assert.isUndefined(when(during(revoked.state, tick, 30_000).given, "takeSlot"))
    const service = during(tell(serving(), { type: "revoked" }, 13_200), beat(1, "b"), 14_000)
    assert.strictEqual(when(service.given, "giveBack"), 13_300)
  })

  it("that starts anew sends on what it was sending, and clears up what it was clearing up", () => {
    const footage = { rerouteId, firstEpoch: 2, lastEpoch: 2 }
    const owes = (step: "sending" | "cleaning"): Protection => ({ ...ready(), owed: [{ ...footage, step }] })
    const again = (state: Protection): ReadonlyArray<ProtectionCommand> => {
      const { commands, state: anew } = step(state, { type: "restarted" }, 10_100)
      return [...commands, ...during(anew, beat(3, "b"), 12_000).given.map(([, command]) => command)]
    }
    assert.deepInclude(again(owes("sending")), { type: "beginRecordBack", ...footage })
    assert.deepInclude(again(owes("cleaning")), { type: "cleanUp", rerouteId })
    assert.isUndefined(when(during(owes("sending"), beat(3), 12_000).given, "beginRecordBack"))
  })
})
