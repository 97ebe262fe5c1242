/** Who guards whom in a cluster by itself. */
import { guardedBy, guardiansOf, type GuardingMember } from "#actors/behaviour/federation-failover-members.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"

const id = (n: number): NodeId => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const member = (n: number, set: GuardingMember["set"] = {}, place: number | null = n): GuardingMember => ({
  nodeId: id(n),
  name: `node ${n}`,
  place,
  set,
})
const four = [1, 2, 3, 4].map((n) => member(n))

describe("members of a cluster", () => {
  it("guard each other in the order of nodes, two each, so that every one guards as many as guard it", () => {
    assert.deepStrictEqual(guardiansOf(id(1), four, []), [id(2), id(3)])
    assert.deepStrictEqual(guardiansOf(id(4), four, []), [id(1), id(2)])
    const all = four.map(({ nodeId }) =>
      [...guardedBy(nodeId, four, []).values()].map(({ rank }) => rank).toSorted((a, b) => a - b)
    )
    assert.deepStrictEqual(all, [[0, 1], [0, 1], [0, 1], [0, 1]])
    assert.deepStrictEqual(guardiansOf(id(1), [member(1)], []), [])
    assert.deepStrictEqual(guardiansOf(id(9), four, []), [])
  })

  it("without a place are ordered by name, behind those that have one", () => {
    const some = [member(3, {}, null), member(1, {}, null), member(2, {}, 5)]
    assert.deepStrictEqual(guardiansOf(id(2), some, []), [id(1), id(3)])
    assert.deepStrictEqual(guardiansOf(id(1), some, []), [id(3), id(2)])
  })

  it("that can take on more come first", () => {
    const unequal = [member(1), member(2), member(3, { maxCameras: 200 }), member(4, { maxIngestBps: 900_000_000 })]
    assert.deepStrictEqual(guardiansOf(id(1), unequal, []), [id(3), id(4)])
  })

  it("do so as both say", () => {
    const off = [member(1), member(2, { guardMembers: false }), member(3, { membersNotGuarded: [id(1)] }), member(4)]
    assert.deepStrictEqual(guardiansOf(id(1), off, []), [id(4)])
    assert.deepStrictEqual(guardiansOf(id(2), off, []), [])
    assert.deepStrictEqual(guardiansOf(id(4), off, []), [id(1), id(3)])
    const one = [member(1, { memberGuardians: 1, memberClass: "shadow" }), member(2), member(3)]
    assert.deepStrictEqual(guardiansOf(id(1), one, []), [id(2)])
    assert.deepStrictEqual(guardedBy(id(2), one, []).get(id(1)), {
      class: "shadow",
      automatic: true,
      rank: 0,
      sources: { protection: "default", class: "set", rank: "computed" },
    })
  })

  it("leave the first turn to guardians that people chose, who count", () => {
    const chosen = [{ nodeId: id(3), homeNodeId: id(1) }]
    assert.strictEqual(guardedBy(id(2), four, chosen).get(id(1))?.rank, 1)
    assert.isUndefined(guardedBy(id(3), four, chosen).get(id(1)))
    assert.isUndefined(guardedBy(id(4), four, chosen).get(id(1)))
    assert.strictEqual(guardedBy(id(3), four, chosen).get(id(2))?.rank, 0)
  })
})
