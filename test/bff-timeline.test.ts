/** One timeline out of several: compared with a model that looks at each moment by itself. */
import { type HeldTimeline, stretchesOf, uniteTimelines } from "#actors/behaviour/bff-timeline.ts"
import { NodeId } from "#schema/common.ts"
import type { Gap, GapCause, Span } from "#schema/record.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const [home, guardian, third] = ["a", "b", "c"].map((digit) =>
  NodeId.make(`01890000-0000-7000-8000-00000000000${digit}`)
) as [NodeId, NodeId, NodeId]

const span = (start: number, end: number, nodeId: NodeId, epoch: number): Span => ({
  start,
  end,
  kind: "continuous",
  nodeId,
  epoch,
})
const gap = (start: number, end: number, cause: GapCause): Gap => ({ start, end, cause })

describe("a timeline of several nodes", () => {
  it("joins what the home node and its guardian recorded, and tells what nobody did", () => {
    const held: ReadonlyArray<HeldTimeline> = [
      {
        holder: home,
        spans: [span(0, 100, home, 1), span(200, 300, home, 3)],
        gaps: [gap(100, 200, "node_down")],
      },
      { holder: guardian, spans: [span(104, 203, guardian, 2)], gaps: [gap(100, 104, "takeover")] },
    ]
    const { gaps, spans } = uniteTimelines(held)
    assert.deepStrictEqual(spans.map(({ end, holder, start }) => [start, end, holder]), [
      [0, 100, home],
      [104, 203, guardian],
      [203, 300, home],
    ])
    assert.strictEqual(gaps.length, 1)
    assert.deepStrictEqual([gaps[0]?.start, gaps[0]?.end], [100, 104])
    const late = held.map((one) => ({
      ...one,
      spans: one.spans.map((each) => ({ ...each, start: 10 * each.start, end: 10 * each.end })),
    }))
    assert.deepStrictEqual(stretchesOf(late), [
      { start: 0, end: 1_040, holder: home, joined: true, recordedMs: 1_000 },
      { start: 1_040, end: 2_000, holder: guardian, joined: true, recordedMs: 960 },
      { start: 2_000, end: 3_000, holder: home, joined: false, recordedMs: 1_000 },
    ])
  })

  const runs = Schema.Array(Schema.Struct({
    recorded: Schema.Boolean,
    length: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 9 })),
  })).check(Schema.isMaxLength(12))
  const timelines = Schema.Array(
    Schema.Struct({ from: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 20 })), runs }),
  ).check(Schema.isMaxLength(3))

  it.prop("agrees with looking at each moment by itself", [timelines], ([made]) => {
    const holders = [home, guardian, third] as const
    const held = made.map((one, n): HeldTimeline => {
      const spans: Array<Span> = []
      const gaps: Array<Gap> = []
      let at = one.from
      for (const { length, recorded } of one.runs) {
        if (recorded) spans.push(span(at, at + length, holders[n]!, n + 1))
        else gaps.push(gap(at, at + length, "camera_offline"))
        at += length
      }
      return { holder: holders[n]!, spans, gaps }
    })
    const { gaps, spans } = uniteTimelines(held)
    const covers = (list: ReadonlyArray<{ readonly start: number; readonly end: number }>, at: number) =>
      list.filter((one) => one.start <= at && at < one.end).length
    for (let at = 0; at < 140; at++) {
      const recorded = held.some((one) => covers(one.spans, at) > 0)
      const expected = recorded || held.some((one) => covers(one.gaps, at) > 0)
      assert.strictEqual(covers(spans, at), recorded ? 1 : 0)
      assert.strictEqual(covers(gaps, at), expected && !recorded ? 1 : 0)
    }
    for (const one of spans) {
      const source = held.find(({ holder }) => holder === one.holder)
      assert.isTrue(source?.spans.some((whole) => whole.start <= one.start && one.end <= whole.end))
    }
  })
})
