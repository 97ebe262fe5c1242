/** The lease of control and the home node's return: laws for any order, loss and delay of messages, and cases by name. */
import { defaultHomecoming, homecoming, homeStep, isRerouted } from "#cluster/homecoming.ts"
import {
  defaultLease,
  type LeaseCommand,
  type LeaseHolder,
  leaseHolder,
  leaseStep,
  mayControl,
  type Promised,
  unvote,
  vote,
  type Voter,
  voter,
} from "#cluster/lease.ts"
import { NodeId } from "#schema/common.ts"
import type { LeaseRelease, LeaseRequest, Roll } from "#schema/federation-control.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const node = (n: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const [home, first, second] = [node(1), node(2), node(3)]

/** Voters and would-be holders on one clock; messages go where and when the test says. */
const world = (voters: ReadonlyArray<NodeId>) => {
  const roll: Roll = { version: 1, voters }
  const disks = new Map<NodeId, Promised | null>(voters.map((id) => [id, null]))
  const votes = new Map<NodeId, Voter>()
  const holders = new Map<NodeId, LeaseHolder>()
  const wire: Array<{ from: NodeId; command: Extract<LeaseCommand, { readonly type: "request" | "release" }> }> = []
  const told: Array<string> = []
  const start = (id: NodeId, now: number, boot: string): void => {
    votes.set(id, voter(id, home, disks.get(id) ?? null, defaultLease, now))
    holders.set(id, leaseHolder({ self: id, homeNodeId: home, bootId: boot, roll, settings: defaultLease }, now))
  }
  const tell = (id: NodeId, event: Parameters<typeof leaseStep>[1], now: number): void => {
    const next = leaseStep(holders.get(id)!, event, now)
    holders.set(id, next.holder)
    for (const command of next.commands) {
      if (command.type === "request" || command.type === "release") {
        if (command.to === id) deliver(id, command, now)
        else wire.push({ from: id, command })
      } else told.push(`${voters.indexOf(id)} ${command.type}`)
    }
  }
  const atVoter = (to: NodeId, release: LeaseRelease, now: number): void => {
    const next = unvote(votes.get(to)!, release, now)
    votes.set(to, next.voter)
    if (next.keep !== null) disks.set(to, next.keep)
  }
  const asked = (to: NodeId, request: LeaseRequest, override: boolean, now: number): void => {
    const next = vote(votes.get(to)!, request, override, defaultLease, now)
    votes.set(to, next.voter)
    if (next.keep !== null) disks.set(to, next.keep)
    tell(request.holder, { type: "answer", answer: next.answer }, now)
  }
  const deliver = (
    from: NodeId,
    command: Extract<LeaseCommand, { readonly type: "request" | "release" }>,
    now: number,
  ): void => {
    if (command.type === "request") asked(command.to, command.request, command.override && command.to === from, now)
    else atVoter(command.to, command.release, now)
  }
  for (const id of voters) start(id, 0, `${id} 0`)
  return { holders, start, tell, deliver, wire, told }
}

const Act = Schema.Struct({
  wait: Schema.Literals([0, 10, 400, 1_200, 5_100]),
  who: Schema.Literals([0, 1, 2]),
  what: Schema.Literals(["tick", "want", "want", "release", "deliver", "deliver", "duplicate", "lose", "restart"]),
  which: Schema.Literals([0, 1, 2, 3]),
  epoch: Schema.Literals([1, 2]),
})

describe("lease of control", () => {
  it.prop("is never held by two, whatever happens to messages and processes", {
    acts: Schema.Array(Act).check(Schema.isMaxLength(60)),
  }, ({ acts }) => {
    const ids = [home, first, second]
    const { deliver, holders, start, tell, wire } = world(ids)
    let now = 0
    acts.forEach((act, n) => {
      now += act.wait
      const id = ids[act.who]!
      const message = wire[act.which % Math.max(wire.length, 1)]
      if (act.what === "tick") tell(id, { type: "tick" }, now)
      else if (act.what === "want") tell(id, { type: "want", epoch: act.epoch, override: false, turns: [] }, now)
      else if (act.what === "release") tell(id, { type: "release" }, now)
      else if (act.what === "restart") start(id, now, `${id} ${n}`)
      else if (message !== undefined) {
        if (act.what !== "duplicate") wire.splice(wire.indexOf(message), 1)
        if (act.what !== "lose") deliver(message.from, message.command, now)
      }
      const controllers = ids.filter((id) => [1, 2].some((epoch) => mayControl(holders.get(id)!, epoch, now)))
      assert.isAtMost(controllers.length, 1)
    })
  })

  it("runs out for who is cut off, and goes to the majority after that", () => {
    const { deliver, holders, tell, wire } = world([home, first, second])
    const run = (until: number, reaches: (from: NodeId, to: NodeId) => boolean, from: number): void => {
      for (let now = from; now <= until; now += 100) {
        for (const id of [home, first, second]) tell(id, { type: "tick" }, now)
        for (const { command, from } of wire.splice(0)) if (reaches(from, command.to)) deliver(from, command, now)
      }
    }
    // New voters wait a term before they promise anything.
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 0)
    run(7_000, () => true, 0)
    assert.isTrue(mayControl(holders.get(home)!, 1, 7_000))
    tell(first, { type: "want", epoch: 2, override: false, turns: [{ epoch: 2, nodeId: first }] }, 7_000)
    run(11_000, (from, to) => from !== home && to !== home, 7_100)
    assert.isFalse(mayControl(holders.get(first)!, 2, 11_000))
    run(14_000, (from, to) => from !== home && to !== home, 11_100)
    assert.isFalse(mayControl(holders.get(home)!, 1, 14_000))
    assert.isTrue(mayControl(holders.get(first)!, 2, 14_000))
    // The home node comes back with its old epoch: refused, and told why.
    run(16_000, () => true, 14_100)
    assert.isFalse(mayControl(holders.get(home)!, 1, 16_000))
  })

  it("of two voters stays with the home node, until an administrator states that it is off", () => {
    const { deliver, holders, start, tell, wire } = world([home, first])
    const run = (from: number, until: number, both: boolean): void => {
      for (let now = from; now <= until; now += 100) {
        for (const id of both ? [home, first] : [first]) tell(id, { type: "tick" }, now)
        for (const { command, from } of wire.splice(0)) if (both) deliver(from, command, now)
      }
    }
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 0)
    run(0, 7_000, true)
    assert.isTrue(mayControl(holders.get(home)!, 1, 7_000))
    tell(first, { type: "want", epoch: 2, override: false, turns: [] }, 7_000)
    run(7_000, 60_000, false)
    assert.isFalse(mayControl(holders.get(first)!, 2, 60_000))
    tell(first, { type: "want", epoch: 2, override: true, turns: [{ epoch: 2, nodeId: first }] }, 60_000)
    run(60_000, 61_000, false)
    assert.isTrue(mayControl(holders.get(first)!, 2, 61_000))
    // The home node starts again and asks: the guardian has it.
    start(home, 61_000, "home again")
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 61_000)
    run(61_000, 70_000, true)
    assert.isFalse(mayControl(holders.get(home)!, 1, 70_000))
    tell(first, { type: "release" }, 70_000)
    tell(home, { type: "want", epoch: 3, override: false, turns: [] }, 70_000)
    run(70_000, 72_000, true)
    assert.isTrue(mayControl(holders.get(home)!, 3, 72_000))
    assert.isFalse(mayControl(holders.get(first)!, 2, 72_000))
  })

  it("is not moved by the statement that the home node is off while the home node asks for it", () => {
    const { deliver, holders, tell, wire } = world([home, first])
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 10_000)
    for (const { command, from } of wire.splice(0)) deliver(from, command, 10_000)
    tell(first, { type: "want", epoch: 2, override: true, turns: [{ epoch: 2, nodeId: first }] }, 10_600)
    assert.isFalse(mayControl(holders.get(first)!, 2, 10_600))
    for (let now = 11_000; now <= 16_000; now += 500) tell(first, { type: "tick" }, now)
    assert.isTrue(mayControl(holders.get(first)!, 2, 16_000))
  })

  it("ends with the word of one voter that knows of a later turn", () => {
    const { holders, tell } = world([home, first, second])
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 10_000)
    const { bootId, round } = holders.get(home)!
    const answer = { bootId, round, inForce: 0, turns: [] }
    tell(home, { type: "answer", answer: { ...answer, from: first, granted: true } }, 10_010)
    assert.isTrue(mayControl(holders.get(home)!, 1, 10_010))
    const later = { ...answer, from: second, granted: false, inForce: 2, turns: [{ epoch: 2, nodeId: first }] }
    tell(home, { type: "answer", answer: later }, 10_020)
    assert.isFalse(mayControl(holders.get(home)!, 1, 10_020))
  })

  it("of a node alone is its own at once", () => {
    const { holders, tell } = world([home])
    tell(home, { type: "want", epoch: 1, override: false, turns: [] }, 0)
    assert.isTrue(mayControl(holders.get(home)!, 1, 1))
    assert.isFalse(mayControl(holders.get(home)!, 2, 1))
  })
})

describe("home node", () => {
  const served = { ...homecoming(home, 1, 0), fresh: false }
  const guarded = homeStep(served, { type: "guardians", guardians: [first, second] }, defaultHomecoming, 0).state
  const turn = (epoch: number, nodeId = first) => ({ epoch, nodeId })

  it("asks its guardians when it starts", () => {
    const { commands } = homeStep(guarded, { type: "started" }, defaultHomecoming, 5)
    assert.deepStrictEqual(commands, [{ type: "askGuardians" }])
  })

  it("takes its slot back with one more, and says so again when asked again", () => {
    const event = { type: "giveBack", from: first, epoch: 3, turns: [turn(2)] } as const
    const asked = homeStep(guarded, event, defaultHomecoming, 5)
    assert.deepStrictEqual(asked.commands.slice(0, 2), [{ type: "raise", epoch: 3 }, {
      type: "agree",
      to: first,
      epoch: 3,
    }])
    const raised = homeStep(asked.state, { type: "raised", epoch: 3 }, defaultHomecoming, 6).state
    assert.isFalse(isRerouted(raised))
    assert.deepStrictEqual(homeStep(raised, event, defaultHomecoming, 7).commands, [{
      type: "agree",
      to: first,
      epoch: 3,
    }])
  })

  it("refuses strangers and numbers that were skipped", () => {
    const stranger = homeStep(
      guarded,
      { type: "giveBack", from: node(9), epoch: 3, turns: [turn(2)] },
      defaultHomecoming,
      5,
    )
    assert.deepStrictEqual(stranger.commands, [{ type: "refuse", to: node(9), code: "not_granted", inForce: 1 }])
    const skipped = homeStep(
      guarded,
      { type: "giveBack", from: first, epoch: 9, turns: [turn(8)] },
      defaultHomecoming,
      5,
    )
    assert.deepInclude(skipped.commands, { type: "refuse", to: first, code: "epoch_skipped", inForce: 1 })
  })

  it("learns its number from others where new hardware took its place", () => {
    const replaced = { ...guarded, fresh: true }
    const heard = homeStep(replaced, { type: "leaseDenied", inForce: 7, turns: [] }, defaultHomecoming, 5)
    assert.deepInclude(heard.commands, { type: "raise", epoch: 8 })
    const back = { type: "giveBack", from: first, epoch: 9, turns: [turn(8)] } as const
    assert.deepInclude(homeStep(replaced, back, defaultHomecoming, 5).commands, { type: "agree", to: first, epoch: 9 })
    // What a guardian still tells of long ago says nothing of now.
    const long = { type: "giveBack", from: first, epoch: 5, turns: [turn(2), turn(4)] } as const
    assert.deepInclude(homeStep(replaced, long, defaultHomecoming, 5).commands, { type: "agree", to: first, epoch: 5 })
  })

  it("learns its number from others where an older backup was restored", () => {
    const status = (homeServed: number, nodeId = first) =>
      ({
        type: "answered",
        status: {
          nodeId,
          homeNodeId: home,
          phase: "serving",
          epoch: 4,
          control: true,
          turns: [turn(4)],
          homeServed,
        },
      }) as const
    const back = { type: "giveBack", from: first, epoch: 5, turns: [turn(4)] } as const
    // Turns 2 and 3 are behind it, and it does not know them any more.
    const { state } = homeStep(guarded, status(3), defaultHomecoming, 5)
    assert.deepInclude(homeStep(state, back, defaultHomecoming, 6).commands, { type: "agree", to: first, epoch: 5 })
    // Nobody stands in for it: its number is raised at once, and settled when every guardian was heard.
    const alone = { ...status(3).status, phase: "none", epoch: 3, control: false, turns: [] } as const
    const told = homeStep(guarded, { type: "answered", status: alone }, defaultHomecoming, 5)
    assert.deepInclude(told.commands, { type: "raise", epoch: 4 })
    const other = { ...alone, nodeId: second }
    const both = homeStep(told.state, { type: "answered", status: other }, defaultHomecoming, 6)
    const raised = homeStep(both.state, { type: "raised", epoch: 4 }, defaultHomecoming, 7).state
    assert.isFalse(raised.fresh)
    // Its own number is no news, and a guardian that knows less tells nothing.
    assert.isFalse(homeStep(guarded, status(1), defaultHomecoming, 5).state.fresh)
    const skipped = homeStep(guarded, { ...back, epoch: 9, turns: [turn(8)] }, defaultHomecoming, 5)
    assert.deepInclude(skipped.commands, { type: "refuse", to: first, code: "epoch_skipped", inForce: 1 })
  })

  it("goes on to learn its number until every guardian was heard, as a voter may tell of one long ago", () => {
    const replaced = { ...guarded, fresh: true }
    const old = homeStep(replaced, { type: "leaseDenied", inForce: 3, turns: [] }, defaultHomecoming, 5).state
    const raised = homeStep(old, { type: "raised", epoch: 4 }, defaultHomecoming, 6).state
    const back = { type: "giveBack", from: first, epoch: 7, turns: [turn(6)] } as const
    const given = homeStep(raised, back, defaultHomecoming, 7)
    assert.deepInclude(given.commands, { type: "agree", to: first, epoch: 7 })
    const none = { nodeId: second, homeNodeId: home, phase: "none", epoch: 6, control: false, turns: [] } as const
    const heard = homeStep(given.state, { type: "answered", status: none }, defaultHomecoming, 8).state
    const settled = homeStep(heard, { type: "raised", epoch: 7 }, defaultHomecoming, 9).state
    const skipped = homeStep(settled, { ...back, epoch: 20, turns: [turn(19)] }, defaultHomecoming, 10)
    assert.deepInclude(skipped.commands, { type: "refuse", to: first, code: "epoch_skipped", inForce: 7 })
  })

  it("takes its slot back by itself from a guardian that is gone", () => {
    let { state } = homeStep(guarded, { type: "leaseDenied", inForce: 2, turns: [turn(2)] }, defaultHomecoming, 100)
    assert.isTrue(isRerouted(state))
    for (let now = 1_100; now < 30_000; now += 1_000) {
      const next = homeStep(state, { type: "tick" }, defaultHomecoming, now)
      assert.deepStrictEqual(next.commands, [{ type: "askGuardians" }])
      state = next.state
    }
    assert.deepInclude(homeStep(state, { type: "tick" }, defaultHomecoming, 30_000).commands, {
      type: "raise",
      epoch: 3,
    })
  })
})
