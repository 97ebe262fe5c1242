/** The list of voters follows who should vote, one node at a time. */
import { nextVoters } from "#cluster/roll.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const id = (n: number) => NodeId.make(`01990000-0000-7000-8000-00000000000${n}`)
const [home, a, b, c] = [id(1), id(2), id(3), id(4)]
const Some = Schema.Array(Schema.Literals([2, 3, 4, 5])).check(Schema.isMaxLength(4))

describe("voters", () => {
  it("come and go one by one, and wait for the change before", () => {
    assert.deepStrictEqual(nextVoters([home], [home], [home, a, b]), [home, a])
    assert.isNull(nextVoters([home, a], [home], [home, a, b]))
    assert.deepStrictEqual(nextVoters([home, a], [home, a], [home, a, b]), [home, a, b])
    assert.deepStrictEqual(nextVoters([home, a], [home, a], [home, b]), [home])
    assert.isNull(nextVoters([home, a], [home, a], [a, home]))
  })

  it("that never answered are taken back", () => {
    assert.deepStrictEqual(nextVoters([home, a], [home], [home]), [home])
    assert.deepStrictEqual(nextVoters([home, a, b, c], [home, a, b], [home, a, b]), [home, a, b])
    assert.deepStrictEqual(nextVoters([home, a], [home, a, b], [home, a, b]), [home, a, b])
  })

  it("stay while the list before is not known any more", () => {
    assert.isNull(nextVoters([home, a], [], [home, a, b]))
    assert.isNull(nextVoters([a, home], [], [home]))
  })

  it.prop("get there from anywhere, never by two at once", { from: Some, to: Some }, ({ from, to }) => {
    const wanted = [home, ...new Set(to.map(id))]
    let now: ReadonlyArray<NodeId> = [home, ...new Set(from.map(id))]
    for (let n = 0; n < 12; n++) {
      const next = nextVoters(now, now, wanted)
      if (next === null) break
      const changed = next.filter((one) => !now.includes(one)).length + now.filter((one) => !next.includes(one)).length
      assert.strictEqual(changed, 1)
      now = next
    }
    assert.deepStrictEqual(now.toSorted(), wanted.toSorted())
  })
})
