/** The lease of control, one rule at a time: what a voter promises and for how long, what a holder may conclude from answers. */
import { defaultHomecoming, homecoming, homeStep } from "#cluster/homecoming.ts"
import {
  defaultLease,
  type LeaseCommand,
  type LeaseHolder,
  leaseHolder,
  leaseStep,
  mayControl,
  unvote,
  vote,
  type Voter,
  voter,
} from "#cluster/lease.ts"
import { lastRun, unite } from "#cluster/turns.ts"
import { NodeId } from "#schema/common.ts"
import type { LeaseRequest } from "#schema/federation-control.ts"
import { assert, describe, it } from "@effect/vitest"

const node = (n: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const [home, first, second, third] = [node(1), node(2), node(3), node(4)]
const { leaseMs, renewMs } = defaultLease

const question = (holder: NodeId, change: Partial<LeaseRequest> = {}): LeaseRequest => ({
  homeNodeId: home,
  holder,
  bootId: `${holder} 1`,
  round: 1,
  epoch: 1,
  turns: [],
  rollVersion: 1,
  termMs: leaseMs,
  ...change,
})
/** A voter that has waited out what it may have promised before. */
const ready = (self: NodeId): Voter => ({ ...voter(self, home, null, defaultLease, 0), untilMs: 0 })
const asked = (before: Voter, request: LeaseRequest, nowMs: number, override = false) =>
  vote(before, request, override, defaultLease, nowMs)

describe("voter", () => {
  it("keeps a promise longer than its holder counts, whatever two clocks do, and no longer", () => {
    const promised = asked(ready(second), question(home), 1_000).voter
    // One second in a thousand each way.
    const kept = Math.floor(leaseMs * 1.001 / 0.999)
    assert.isFalse(asked(promised, question(first, { epoch: 2 }), 1_000 + kept).answer.granted)
    assert.isTrue(asked(promised, question(first, { epoch: 2 }), 1_000 + kept + 5).answer.granted)
  })

  it("counts the whole term again after a restart, a new one too, and not where it was free", () => {
    const before = asked(ready(second), question(home), 1_000)
    assert.isNotNull(before.keep)
    const restarted = voter(second, home, before.keep, defaultLease, 50)
    assert.isFalse(asked(restarted, question(first, { epoch: 2 }), 50 + leaseMs).answer.granted)
    assert.isTrue(asked(restarted, question(first, { epoch: 2 }), 50 + leaseMs + 12).answer.granted)
    assert.isFalse(asked(voter(second, home, null, defaultLease, 50), question(home), 50 + leaseMs).answer.granted)
    const freed = unvote(before.voter, { homeNodeId: home, holder: home, bootId: `${home} 1`, round: 1 }, 1_010)
    const again = voter(second, home, freed.keep, defaultLease, 50)
    assert.isTrue(asked(again, question(first, { epoch: 2 }), 51).answer.granted)
  })

  it("is free at once where the holder lets go, and not by word of an earlier question or process", () => {
    const later = asked(asked(ready(second), question(home), 10).voter, question(home, { round: 5 }), 20).voter
    const release = { homeNodeId: home, holder: home, bootId: `${home} 1`, round: 5 }
    const next = question(first, { epoch: 2 })
    for (const old of [{ ...release, round: 4 }, { ...release, bootId: `${home} 0` }]) {
      const { keep, voter } = unvote(later, old, 30)
      assert.isNull(keep)
      assert.isFalse(asked(voter, next, 31).answer.granted)
    }
    assert.isTrue(asked(unvote(later, release, 30).voter, next, 31).answer.granted)
  })

  it("is not freed by who does not have it, this node itself included", () => {
    const promised = asked(ready(first), question(home), 10).voter
    const own = unvote(promised, { homeNodeId: home, holder: first, bootId: `${first} 1`, round: 9 }, 20)
    assert.isNull(own.keep)
    assert.isFalse(asked(own.voter, question(first, { epoch: 2 }), 21).answer.granted)
  })

  it("keeps what it promised for longer, and refuses who has an older list of voters", () => {
    const promised = asked(ready(second), question(home, { rollVersion: 2 }), 10).voter
    assert.isFalse(asked(promised, question(home), 20).answer.granted)
    const shorter = asked(promised, question(home, { rollVersion: 2, termMs: 1_000, round: 2 }), 20).voter
    const next = question(first, { epoch: 2, rollVersion: 2 })
    assert.isFalse(asked(shorter, next, 10 + leaseMs).answer.granted)
    assert.isTrue(asked(shorter, next, 20 + leaseMs + 12).answer.granted)
  })

  it("that is the home node, and one of two, lets nobody else have it but by an administrator's word", () => {
    const own = ready(home)
    const guardian = question(first, { epoch: 2, termMs: null })
    assert.isFalse(asked(own, guardian, 60_000).answer.granted)
    assert.isTrue(asked(own, question(home, { termMs: null }), 60_000).answer.granted)
    // Of three it is one voice.
    assert.isTrue(asked(own, question(first, { epoch: 2 }), 60_000).answer.granted)
  })

  it("does not take a statement that the home node is off while that one asks", () => {
    const one = asked(ready(first), question(home, { termMs: null }), 10_000).voter
    const stated = question(first, { epoch: 2, termMs: null })
    assert.isFalse(asked(one, stated, 10_000 + leaseMs, true).answer.granted)
    assert.isTrue(asked(one, stated, 10_000 + leaseMs + 12, true).answer.granted)
  })
})

describe("holder", () => {
  const holding = (voters: ReadonlyArray<NodeId>, self = home): LeaseHolder =>
    leaseHolder(
      { self, homeNodeId: home, bootId: `${self} 1`, roll: { version: 1, voters }, settings: defaultLease },
      0,
    )
  const want = (holder: LeaseHolder, epoch: number, now: number) =>
    leaseStep(holder, { type: "want", epoch, override: false, turns: [] }, now)
  const granted = (holder: LeaseHolder, from: NodeId, round: number, now: number, bootId = holder.bootId) =>
    leaseStep(holder, { type: "answer", answer: { from, bootId, round, granted: true, inForce: 0, turns: [] } }, now)
  const kinds = (commands: ReadonlyArray<LeaseCommand>) => commands.map(({ type }) => type)

  it("needs more than half: not one of two, nor two of four", () => {
    const two = granted(want(holding([home, first]), 1, 0).holder, home, 1, 1)
    assert.isFalse(mayControl(two.holder, 1, 1))
    assert.isTrue(mayControl(granted(two.holder, first, 1, 2).holder, 1, 2))
    const half = granted(
      granted(want(holding([home, first, second, third]), 1, 0).holder, home, 1, 1).holder,
      first,
      1,
      2,
    )
    assert.isFalse(mayControl(half.holder, 1, 2))
    const more = granted(half.holder, second, 1, 3)
    assert.deepStrictEqual(more.commands, [{ type: "obtained", epoch: 1 }])
    assert.isTrue(mayControl(more.holder, 1, 3))
  })

  it("counts from when it asked, not from when the answers came", () => {
    let { holder } = want(holding([home, first, second]), 1, 0)
    holder = granted(granted(holder, home, 1, 0).holder, first, 1, 900).holder
    assert.isTrue(mayControl(holder, 1, leaseMs - 1))
    assert.isFalse(mayControl(holder, 1, leaseMs))
    // An answer that came too late promises nothing any more.
    const late = want(holding([home, first, second]), 1, 0).holder
    const ticked = leaseStep(late, { type: "tick" }, leaseMs - 1).holder
    assert.isFalse(mayControl(granted(granted(ticked, home, 1, leaseMs).holder, first, 1, leaseMs).holder, 1, leaseMs))
  })

  it("asks again before it runs out, and loses it only then", () => {
    let { holder } = want(holding([home, first, second]), 1, 0)
    holder = granted(granted(holder, home, 1, 0).holder, first, 1, 10).holder
    const asks: Array<number> = []
    const lost: Array<number> = []
    for (let now = 100; now <= leaseMs + 500; now += 100) {
      const next = leaseStep(holder, { type: "tick" }, now)
      holder = next.holder
      if (kinds(next.commands).includes("request")) asks.push(now)
      if (kinds(next.commands).includes("lost")) lost.push(now)
    }
    assert.deepStrictEqual(asks.slice(0, 4), [renewMs, 2 * renewMs, 3 * renewMs, 4 * renewMs])
    assert.deepStrictEqual(lost, [leaseMs])
  })

  it("counts a voter once, and no answer to a former process or to another list of voters", () => {
    const of = [home, first, second]
    const one = granted(want(holding(of), 1, 0).holder, home, 1, 1).holder
    assert.isFalse(mayControl(granted(one, home, 1, 2).holder, 1, 2))
    assert.isFalse(mayControl(granted(one, first, 1, 2, `${home} 0`).holder, 1, 2))
    assert.isFalse(mayControl(granted(one, third, 1, 2).holder, 1, 2))
    const listed = leaseStep(one, { type: "roll", roll: { version: 2, voters: [...of, third] } }, 2).holder
    assert.isFalse(mayControl(granted(granted(listed, first, 1, 3).holder, second, 1, 3).holder, 1, 3))
    assert.isTrue(mayControl(granted(one, first, 1, 2).holder, 1, 2))
  })

  it("of two has no use for an answer that came after a term, and an end once a third votes", () => {
    const late = leaseStep(
      granted(want(holding([home, first]), 1, 0).holder, home, 1, 1).holder,
      { type: "tick" },
      4_000,
    )
    assert.isFalse(mayControl(granted(late.holder, first, 1, leaseMs).holder, 1, leaseMs))
    const held = granted(late.holder, first, 1, 4_000).holder
    assert.isTrue(mayControl(held, 1, 4_000))
    const three = leaseStep(held, { type: "roll", roll: { version: 2, voters: [home, first, second] } }, 4_000).holder
    assert.isTrue(mayControl(leaseStep(three, { type: "tick" }, 8_000).holder, 1, 8_999))
    assert.isFalse(mayControl(leaseStep(three, { type: "tick" }, 8_000).holder, 1, 9_000))
  })

  it("that was not told of the time for a term may not, whatever it has", () => {
    const held = granted(granted(want(holding([home, first]), 1, 0).holder, home, 1, 1).holder, first, 1, 1).holder
    assert.isTrue(mayControl(held, 1, leaseMs))
    assert.isFalse(mayControl(held, 1, 1 + leaseMs))
  })

  it("of two that stood still knows nothing of what was decided meanwhile", () => {
    let { holder } = want(holding([home, first]), 1, 0)
    holder = granted(granted(holder, home, 1, 0).holder, first, 1, 10).holder
    const unbroken = leaseStep(leaseStep(holder, { type: "tick" }, 4_000).holder, { type: "tick" }, 8_000)
    assert.isTrue(mayControl(unbroken.holder, 1, 8_000))
    const thawed = leaseStep(holder, { type: "tick" }, 10 + leaseMs)
    assert.isFalse(mayControl(thawed.holder, 1, 10 + leaseMs))
    assert.include(kinds(thawed.commands), "lost")
  })

  it("has nothing of what was granted to an earlier epoch", () => {
    let { holder } = want(holding([home, first, second]), 1, 0)
    holder = granted(granted(holder, home, 1, 0).holder, first, 1, 10).holder
    const next = want(holder, 2, 20).holder
    assert.isFalse(mayControl(next, 2, 20))
    assert.isFalse(mayControl(granted(next, second, 1, 30).holder, 2, 30))
    // And goes on with what it has where it asks for the same again.
    assert.isTrue(mayControl(want(holder, 1, 20).holder, 1, 20))
  })
})

describe("turns", () => {
  it("of one number by two nodes are both kept, and those behind the home node are not", () => {
    const [a, b] = [{ epoch: 3, nodeId: first }, { epoch: 3, nodeId: second }]
    assert.deepStrictEqual(unite([a], [b, a], 2), [a, b])
    assert.deepStrictEqual(unite([a, b], [{ epoch: 4, nodeId: first }], 3), [{ epoch: 4, nodeId: first }])
  })

  it("before a number that was left out say nothing of those after it", () => {
    const turn = (epoch: number) => ({ epoch, nodeId: first })
    assert.deepStrictEqual(lastRun([turn(2), turn(3), turn(5), turn(6)]), [turn(5), turn(6)])
    assert.deepStrictEqual(lastRun([turn(2), turn(2), turn(3)]), [turn(2), turn(2), turn(3)])
  })
})

describe("home node of two guardians", () => {
  const guarded = { ...homecoming(home, 1, 0), fresh: false, guardians: [first, second] }

  it("serves with a number behind every turn that it was told of, whoever gives back", () => {
    const known = homeStep(
      guarded,
      {
        type: "answered",
        status: {
          nodeId: second,
          homeNodeId: home,
          phase: "serving",
          epoch: 4,
          control: true,
          turns: [{ epoch: 2, nodeId: first }, { epoch: 3, nodeId: first }, { epoch: 4, nodeId: second }],
        },
      },
      defaultHomecoming,
      10,
    ).state
    const back = homeStep(
      known,
      { type: "giveBack", from: first, epoch: 4, turns: [{ epoch: 2, nodeId: first }, { epoch: 3, nodeId: first }] },
      defaultHomecoming,
      20,
    )
    assert.deepInclude(back.commands, { type: "raise", epoch: 5 })
    assert.deepInclude(back.commands, { type: "agree", to: first, epoch: 5 })
  })
})
