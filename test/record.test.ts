/** From journal to index: batches, differences, states; pure. */
import { batchOf, difference, type JournalBatch } from "#actors/behaviour/record-journal.ts"
import { statesOf } from "#actors/behaviour/record-status.ts"
import type { JournalEntry } from "#media/recorder.ts"
import { ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { GapCause } from "#schema/record.ts"
import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { footageFile } from "./record-fixtures.ts"

const uuid = (n: number) => `0190a0a0-0000-7000-8000-${n.toString(16).padStart(12, "0")}`
const nodeId = NodeId.make(uuid(1))
const recordingId = RecordingId.make(uuid(2))
const of = {
  recordingId,
  recordingToken: RecordingToken.make(uuid(3)),
  streamId: StreamId.make(uuid(4)),
  channelId: ChannelId.make(uuid(5)),
  nodeId,
}
const gap = (id: string, startMs: number, endMs: number | null, cause: GapCause = "camera_offline") => ({
  id,
  recordingId,
  startMs,
  endMs,
  cause,
  detail: "",
})

/** Entries by id. */
const sorted = (map: ReadonlyMap<string, unknown>) => [...map].sort(([a], [b]) => a < b ? -1 : 1)

/** An index in memory that takes batches as the store does. */
const index = () => {
  const files = new Map<string, unknown>()
  const gaps = new Map<string, unknown>()
  const events = new Map<string, unknown>()
  let keptFrom = 0
  return {
    apply: ({ events: told, ledger }: JournalBatch) => {
      for (const file of ledger.files) files.set(file.id, file)
      for (const one of ledger.gaps) gaps.set(one.id, one)
      for (const id of ledger.goneFiles) files.delete(id)
      for (const { untilMs } of ledger.keptFrom) keptFrom = Math.max(keptFrom, untilMs)
      for (const event of told) if (!events.has(event.id)) events.set(event.id, event)
    },
    state: () => ({ files: sorted(files), gaps: sorted(gaps), events: sorted(events), keptFrom }),
  }
}

const Step = Schema.Struct({
  kind: Schema.Literals(["FileOpened", "FileGrown", "FileSealed", "retention", "missing", "GapOpened", "GapClosed"]),
  what: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 3 })),
  cut: Schema.Boolean,
})

const entryOf = ({ kind, what }: typeof Step.Type, position: number): JournalEntry => {
  const file = footageFile(of, `f${what}`, what * 1000, what * 1000 + position)
  if (kind === "retention" || kind === "missing") return { _tag: "FileDeleted", position, file, reason: kind }
  if (kind === "GapOpened") return { _tag: kind, position, gap: gap(`g${what}`, what * 1000, null), epoch: 1 }
  if (kind === "GapClosed") {
    return { _tag: kind, position, gap: gap(`g${what}`, what * 1000, what * 1000 + 500), epoch: 1 }
  }
  return { _tag: kind, position, file }
}

describe("the journal on its way to the index", () => {
  it.prop("makes the same index however it is cut into batches", {
    steps: Schema.Array(Step).check(Schema.isMaxLength(24)),
  }, ({ steps }) => {
    const entries = steps.map((step, n) => entryOf(step, n + 1))
    const whole = index()
    whole.apply(batchOf(entries, nodeId, 0))
    const cut = index()
    let batch: Array<JournalEntry> = []
    entries.forEach((entry, n) => {
      batch.push(entry)
      if (!steps[n]!.cut && n < entries.length - 1) return
      // Told twice, as after a crash between the commit and the acknowledgement of an earlier one.
      cut.apply(batchOf(batch, nodeId, 0))
      cut.apply(batchOf(batch, nodeId, 0))
      batch = []
    })
    assert.deepStrictEqual(cut.state(), whole.state())
    assert.strictEqual(batchOf(entries, nodeId, 0).ledger.position, entries.length)
  })

  it("leaves a gap where footage is gone, and moves the beginning where retention took it", () => {
    const file = footageFile(of, "f", 1000, 9000)
    const missing = batchOf([{ _tag: "FileDeleted", position: 1, file, reason: "missing" }], nodeId, 0).ledger
    assert.deepInclude(missing.gaps[0], { id: "f", startMs: 1000, endMs: 9000, cause: "segment_missing", epoch: 1 })
    assert.deepStrictEqual([missing.goneFiles, missing.keptFrom], [["f"], []])
    const aged = batchOf([{ _tag: "FileDeleted", position: 1, file, reason: "space" }], nodeId, 0).ledger
    assert.deepStrictEqual([aged.gaps, aged.keptFrom], [[], [{ recordingId, untilMs: 9000 }]])
  })
})

describe("the index against the disk", () => {
  const files = [0, 1, 2, 3].map((n) => footageFile(of, `f${n}`, n * 1000, (n + 1) * 1000))

  it("knows retention from loss, and a folder that cannot be read from both", () => {
    const stored = [files[1]!, files[3]!]
    const found = difference({ indexed: files, stored, folders: new Set(["main"]) })
    assert.deepStrictEqual(found.goneFiles, ["f0", "f2"])
    assert.deepStrictEqual(found.keptFrom, [{ recordingId, untilMs: 1000 }])
    assert.deepStrictEqual(found.gaps.map(({ cause, startMs }) => [startMs, cause]), [[2000, "segment_missing"]])
    assert.deepStrictEqual(difference({ indexed: files, stored, folders: new Set() }), {
      goneFiles: [],
      gaps: [],
      keptFrom: [],
    })
  })
})

describe("states of recordings", () => {
  it("are those of their streams; a stream without a recording tells nothing", () => {
    const recording = { ...of, enabled: true, retentionDays: 1, maxBytes: 0 }
    const probed = StreamId.make(uuid(9))
    const states = statesOf([{ streamId: of.streamId, recording }, { streamId: probed, recording: null }], [
      { streamId: of.streamId, recordingState: "failed", reason: "no space left" },
      { streamId: probed, recordingState: "waiting", reason: "" },
    ])
    assert.deepStrictEqual(states, [{ recordingId, state: "failed", reason: "no space left" }])
  })
})
