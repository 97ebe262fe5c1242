/** Coverage: spans and gaps of random footage against a model that looks at every millisecond. */
import {
  beginOf,
  expectedWithin,
  type FootageFacts,
  footageOf,
  lengthOf,
  subtract,
  union,
} from "#actors/behaviour/record-coverage.ts"
import { NodeId } from "#schema/common.ts"
import { GapCause } from "#schema/record.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"

const nodes = ["0190a0a0-0000-7000-8000-00000000000a", "0190a0a0-0000-7000-8000-00000000000b"].map((id) =>
  NodeId.make(id)
)
const [nodeA, nodeB] = nodes as [NodeId, NodeId]

const file = (startMs: number, endMs: number, nodeId = nodeA, epoch = 1, holder = nodeId) => ({
  startMs,
  endMs,
  nodeId,
  epoch,
  holder,
})
const gap = (id: string, startMs: number, endMs: number | null, cause: GapCause, nodeId = nodeA) => ({
  id,
  startMs,
  endMs,
  cause,
  nodeId,
})
const footage = (facts: Partial<FootageFacts>) =>
  footageOf({ expected: { start: 0, end: 10_000 }, beginMs: 0, files: [], gaps: [], ...facts })

const At = Schema.Int.check(Schema.isBetween({ minimum: -100, maximum: 700 }))
const Length = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300 }))
const Node = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1 }))
const FileCase = Schema.Struct({
  at: At,
  length: Length,
  node: Node,
  epoch: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3 })),
})
const GapCase = Schema.Struct({ at: At, length: Length, node: Node, open: Schema.Boolean, cause: GapCause })
const Case = Schema.Struct({
  files: Schema.Array(FileCase).check(Schema.isMaxLength(8)),
  gaps: Schema.Array(GapCase).check(Schema.isMaxLength(8)),
})

const factsOf = (input: typeof Case.Type): FootageFacts => ({
  expected: { start: 0, end: 600 },
  beginMs: 0,
  files: input.files.map((one) => file(one.at, one.at + one.length, nodes[one.node], one.epoch)),
  gaps: input.gaps.map((one, index) =>
    gap(`gap-${index}`, one.at, one.open ? null : one.at + one.length, one.cause, nodes[one.node])
  ),
})

/** Highest epoch that has this moment, by looking at it alone. Holes up to 10 ms between files of a node and epoch count. */
const epochAt = (facts: FootageFacts, ms: number): number | null => {
  const over = (list: FootageFacts["files"]) => list.some((one) => one.startMs <= ms && ms < one.endMs)
  const lanes = nodes.flatMap((nodeId) => [1, 2, 3].map((epoch) => ({ nodeId, epoch })))
  const held = lanes.filter(({ nodeId, epoch }) => {
    const files = facts.files.filter((one) => one.nodeId === nodeId && one.epoch === epoch && one.endMs > one.startMs)
    const left = Math.max(...files.filter((one) => one.startMs <= ms).map((one) => one.endMs), Number.NEGATIVE_INFINITY)
    const right = Math.min(
      ...files.filter((one) => one.startMs > ms).map((one) => one.startMs),
      Number.POSITIVE_INFINITY,
    )
    const lost = facts.gaps.some((one) =>
      one.nodeId === nodeId && one.startMs <= ms && ms < (one.endMs ?? facts.expected.end)
    )
    return (over(files) || right - left <= 10) && !lost
  })
  return held.length === 0 ? null : Math.max(...held.map((lane) => lane.epoch))
}

describe("coverage", () => {
  it.prop("agrees with a look at every millisecond", { input: Case }, ({ input }) => {
    const facts = factsOf(input)
    const { gaps, spans } = footageOf(facts)
    for (let ms = facts.expected.start; ms < facts.expected.end; ms++) {
      const span = spans.filter((one) => one.start <= ms && ms < one.end)
      const missing = gaps.filter((one) => one.start <= ms && ms < one.end)
      assert.strictEqual(span.length + missing.length, 1, `moment ${ms} is told ${span.length + missing.length} times`)
      assert.strictEqual(span[0]?.epoch ?? null, epochAt(facts, ms), `moment ${ms}`)
      if (missing[0] === undefined) continue
      const holding = facts.gaps.filter((one) => one.startMs <= ms && ms < (one.endMs ?? facts.expected.end))
      // What is missing right up to a disk's failure went with the disk.
      const failures = facts.gaps.filter((one) =>
        one.cause.startsWith("disk_") && one.startMs > ms &&
        !spans.some(({ end, start }) => start < one.startMs && end > ms)
      )
      const causes = holding.length > 0 ?
        holding.map((one) => one.cause) :
        ["starting", "node_down", "takeover", ...failures.map((one) => one.cause)]
      assert.include(causes, missing[0].cause, `moment ${ms}`)
    }
  }, { arbitrary: { runs: 60 } })

  it.prop("adds up and stays in order", { input: Case }, ({ input }) => {
    const facts = factsOf(input)
    const { gaps, spans } = footageOf(facts)
    const length = facts.expected.end - facts.expected.start
    assert.strictEqual(lengthOf(spans) + lengthOf(gaps), length)
    const all = [...spans, ...gaps].sort((a, b) => a.start - b.start)
    assert.deepStrictEqual(union(all), [{ ...facts.expected }])
    all.slice(1).forEach((one, index) => assert.strictEqual(one.start, all[index]!.end))
    assert.deepStrictEqual(subtract([facts.expected], union(spans)), union(gaps))
  })

  it("knows what is missing within footage of another node by the ledger of the one that has it", () => {
    const came = footage({
      files: [file(0, 4_000), file(4_000, 8_000, nodeB, 2, nodeA), file(8_000, 10_000, nodeA, 3)],
      gaps: [gap("a", 5_000, 6_000, "camera_offline")],
    })
    assert.deepStrictEqual(came.gaps, [{ start: 5_000, end: 6_000, cause: "camera_offline" }])
    assert.deepStrictEqual(came.spans.map(({ end, nodeId, start }) => [start, end, nodeId]), [
      [0, 4_000, nodeA],
      [4_000, 5_000, nodeB],
      [6_000, 8_000, nodeB],
      [8_000, 10_000, nodeA],
    ])
  })

  it("gives an overlap of gaps to the one that began first", () => {
    const { gaps } = footage({
      gaps: [gap("b", 2000, 5000, "disk_full"), gap("a", 1000, 3000, "camera_offline")],
      files: [file(0, 10_000)],
    })
    assert.deepStrictEqual(gaps, [{ start: 1000, end: 3000, cause: "camera_offline" }, {
      start: 3000,
      end: 5000,
      cause: "disk_full",
    }])
  })

  it("lets an open gap last to the end of what is expected", () => {
    assert.deepStrictEqual(footage({ files: [file(0, 4000)], gaps: [gap("a", 4000, null, "auth_failed")] }).gaps, [
      { start: 4000, end: 10_000, cause: "auth_failed" },
    ])
  })

  it("shows what a second node recorded in a gap of the first", () => {
    const { gaps, spans } = footage({
      files: [file(0, 4000), file(8000, 10_000), file(5000, 8500, nodeB, 2)],
      gaps: [gap("a", 4000, 8000, "camera_offline")],
    })
    assert.deepStrictEqual(spans.map(({ end, epoch, start }) => [start, end, epoch]), [[0, 4000, 1], [5000, 8500, 2], [
      8500,
      10_000,
      1,
    ]])
    assert.deepStrictEqual(gaps, [{ start: 4000, end: 5000, cause: "camera_offline" }])
  })

  it("names a cause where the ledger is silent", () => {
    const { gaps } = footage({ files: [file(500, 2000), file(3000, 4000), file(5000, 6000, nodeB, 2)] })
    assert.deepStrictEqual(gaps, [
      { start: 0, end: 500, cause: "starting" },
      { start: 2000, end: 3000, cause: "node_down" },
      { start: 4000, end: 5000, cause: "takeover" },
      { start: 6000, end: 10_000, cause: "node_down" },
    ])
  })

  it("puts what a disk had not yet kept down to its failure", () => {
    const { gaps } = footage({
      files: [file(0, 2000), file(6000, 10_000)],
      gaps: [gap("a", 3000, 6000, "disk_error")],
    })
    assert.deepStrictEqual(gaps, [{ start: 2000, end: 6000, cause: "disk_error" }])
  })

  it("does not take rounding between files for a gap, but any entry of the ledger for one", () => {
    assert.lengthOf(footage({ files: [file(0, 5000), file(5008, 10_000)] }).gaps, 0)
    assert.deepStrictEqual(
      footage({ files: [file(0, 5000), file(5008, 10_000)], gaps: [gap("a", 5000, 5008, "packet_loss")] }).gaps,
      [
        { start: 5000, end: 5008, cause: "packet_loss" },
      ],
    )
  })

  it("expects from the creation, or from what retention left, to the newest fragment or now", () => {
    const asked = { start: 0, end: 1_000_000 }
    const facts = { createdMs: 1000, keptFromMs: null, oldestMs: 1500, newestMs: 8000, recording: true, nowMs: 9000 }
    assert.deepStrictEqual(expectedWithin(asked, facts), { start: 1000, end: 8000 })
    assert.deepStrictEqual(expectedWithin(asked, { ...facts, recording: false }), { start: 1000, end: 9000 })
    assert.deepStrictEqual(expectedWithin(asked, { ...facts, keptFromMs: 4000 }), { start: 4000, end: 8000 })
    assert.strictEqual(expectedWithin({ start: 8500, end: 9500 }, facts), null)
    assert.strictEqual(beginOf({ ...facts, oldestMs: 500 }), 500)
  })
})
