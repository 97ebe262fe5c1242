/** Pictures over the seams of a replay: nodes whose clocks differ record one camera, and a viewer is given each picture once. */
import { type HeldTimeline, stretchesOf } from "#actors/behaviour/bff-timeline.ts"
import { keyNear } from "#media/hls-seam.ts"
import { rowsWithin } from "#media/hls/plan.ts"
import { FragmentTable } from "#media/storage/fragment-table.ts"
import { NodeId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const holders = ["a", "b", "c"].map((digit) => NodeId.make(`01890000-0000-7000-8000-00000000000${digit}`))
const pictureMs = 40
const t0 = Date.parse("2026-11-21T10:00:00Z")

/** Numbers of the key pictures of a camera: groups of half a second to four seconds. */
const keysOf = (groups: ReadonlyArray<number>): ReadonlyArray<number> => {
  const keys = [0]
  for (const length of groups) keys.push((keys.at(-1) as number) + length)
  return keys
}

/** What a node recorded: pictures `[from, to)`, the first a key picture. */
interface Recorded {
  readonly from: number
  readonly to: number
  readonly clockMs: number
}

/** Fragments as they are stored: each key picture begins one, and none is longer than a second. */
const storedBy = ({ clockMs, from, to }: Recorded, keys: ReadonlySet<number>) => {
  const starts: Array<number> = []
  for (let picture = from; picture < to; picture++) {
    if (keys.has(picture) || (picture - (starts.at(-1) as number)) * pictureMs >= 1_000) starts.push(picture)
  }
  const at = (picture: number) => t0 + clockMs + picture * pictureMs
  const table = FragmentTable.of(starts.map((first, n) => {
    const end = starts[n + 1] ?? to
    return {
      startMs: at(first),
      endMs: at(end),
      decodeTicks: first * 3_600,
      durationTicks: (end - first) * 3_600,
      offset: n * 100,
      bytes: 100,
      frames: end - first,
      key: keys.has(first),
      discontinuity: false,
    }
  }))
  /** What a session of an interval is given. */
  const shown = (start: number, end: number, joined: boolean): ReadonlyArray<number> => {
    const moments = starts.flatMap((first) => keys.has(first) ? [at(first)] : [])
    const near = joined ? keyNear(moments, end) : null
    const rows = rowsWithin(table, start, near === null || near <= start ? end : near)
    return starts.slice(rows.from, rows.to).flatMap((first, n) => {
      const next = starts[rows.from + n + 1] ?? to
      return Array.from({ length: next - first }, (_, more) => first + more)
    })
  }
  return { shown, span: { start: at(from), end: at(to) } }
}

/** All pictures of a replay that is sewn from these nodes, in the order of showing. */
const sewnFrom = (recorded: ReadonlyArray<Recorded>, keys: ReadonlyArray<number>): ReadonlyArray<number> => {
  const nodes = recorded.map((one) => storedBy(one, new Set(keys)))
  const held = nodes.map(({ span }, n): HeldTimeline => ({
    holder: holders[n] as NodeId,
    spans: [{ ...span, kind: "continuous", nodeId: holders[n] as NodeId, epoch: n + 1 }],
    gaps: [],
  }))
  return stretchesOf(held).flatMap(({ end, holder, joined, start }) =>
    nodes[holders.indexOf(holder)]?.shown(start, end, joined) ?? []
  )
}

const int = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))
const groups = Schema.Array(int(13, 100)).check(Schema.isMinLength(3), Schema.isMaxLength(10))
const parts = Schema.Array(Schema.Struct({
  key: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 9 })),
  length: int(1, 500),
  clockMs: int(-100, 100),
})).check(Schema.isMinLength(1), Schema.isMaxLength(3))

describe("a replay over several nodes", () => {
  it.prop("shows each picture once, and none is missing that two recorded", [groups, parts], ([made, of]) => {
    const keys = keysOf(made)
    const recorded = of.map(({ clockMs, key, length }): Recorded => {
      const from = keys[Math.min(key, keys.length - 1)] as number
      return { from, to: from + length, clockMs }
    })
    const shown = sewnFrom(recorded, keys)
    for (const [n, picture] of shown.entries()) {
      assert.isTrue(n === 0 || picture > (shown[n - 1] as number), `${picture} comes after ${shown[n - 1]}`)
    }
    const given = new Set(shown)
    for (const one of recorded) {
      for (let picture = one.from; picture < one.to; picture++) {
        const alone = recorded.filter(({ from, to }) => picture >= from && picture < to).length === 1
        // By the clocks it may be a little longer, or shorter, than what goes on for it.
        const loose = alone && (one.to - picture) * pictureMs <= 250
        assert.isTrue(given.has(picture) || loose, `${picture} is missing`)
      }
    }
  })

  it("goes on with the first picture of the next one, where both have it, as seldom as it can", () => {
    const keys = keysOf([50, 50, 50, 50, 50, 50])
    const home = { from: 0, to: 175, clockMs: 0 }
    const guardian = { from: 150, to: 300, clockMs: 120 }
    assert.deepStrictEqual(sewnFrom([home, guardian], keys), Array.from({ length: 300 }, (_, n) => n))
    // Of what has come home nothing is asked of its guardian.
    const held = [
      { from: 0, to: 175, clockMs: 0 },
      { from: 50, to: 100, clockMs: 0 },
    ].map((one, n): HeldTimeline => ({
      holder: holders[n] as NodeId,
      spans: [{ ...storedBy(one, new Set(keys)).span, kind: "continuous", nodeId: holders[n] as NodeId, epoch: 1 }],
      gaps: [],
    }))
    assert.deepStrictEqual(stretchesOf(held), [
      { start: t0, end: t0 + 7_000, holder: holders[0] as NodeId, joined: false, recordedMs: 7_000 },
    ])
  })

  it("counts once what a node has told of twice", () => {
    const told = (end: number): HeldTimeline => ({
      holder: holders[0] as NodeId,
      spans: [{ start: t0, end, kind: "continuous", nodeId: holders[0] as NodeId, epoch: 1 }],
      gaps: [],
    })
    assert.deepStrictEqual(stretchesOf([told(t0 + 5_000), told(t0 + 7_000)]), [
      { start: t0, end: t0 + 7_000, holder: holders[0] as NodeId, joined: false, recordedMs: 7_000 },
    ])
  })

  it("takes no other picture for the next one's", () => {
    assert.strictEqual(keyNear([], 1_000), null)
    assert.strictEqual(keyNear([1_000, 3_000], 1_250), 1_000)
    assert.strictEqual(keyNear([1_000, 3_000], 1_251), null)
    assert.strictEqual(keyNear([3_000, 1_000], 2_800), 3_000)
    assert.strictEqual(keyNear([1_000, 1_300], 1_160), 1_300)
    assert.strictEqual(keyNear([1_000, 1_100, 1_200], 1_260), null)
  })
})
