/** The local files of a recording that is gone, of names, and of what an overflow of the journal has lost. */
import { makeJournal } from "#media/capture/journal.ts"
import { RecordingId } from "#schema/common.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { assignment, FakeCamera, FakeDisk, FakeFolder, recordingId, startNode, streamId } from "./capture-harness.ts"

const begin = 1_760_000_000_000
const ledgers = (folder: FakeFolder) => folder.service.list("ledger")

describe("a deleted recording", () => {
  it.effect("takes its ledger along when its footage is gone, and not while it is assigned", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(begin)
      const folder = new FakeFolder()
      const node = yield* startNode(new FakeCamera(), new FakeDisk(), folder)
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("5 seconds")
      expect(yield* ledgers(folder)).toEqual([`${recordingId}.ndjson`])
      yield* node.supervisor.forget(recordingId)
      expect(yield* ledgers(folder)).toHaveLength(1)
      yield* node.supervisor.assign(assignment({ recording: null }))
      yield* TestClock.adjust("1 second")
      yield* node.supervisor.forget(recordingId)
      expect(yield* ledgers(folder)).toEqual([])
      expect(node.supervisor.gaps(recordingId, { start: 0, end: begin * 2 })).toEqual([])
      yield* node.supervisor.forget(RecordingId.make("01900000-0000-7000-8000-000000000099"))
      yield* node.stop
      expect(yield* ledgers(folder)).toEqual([])
    }))
})

describe("the assignment file", () => {
  it.effect("keeps the names that footage carries", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(begin)
      const folder = new FakeFolder()
      const disk = new FakeDisk()
      const first = yield* startNode(new FakeCamera(), disk, folder)
      yield* first.supervisor.assign(assignment({ cameraName: "Yard", channelName: "Gate", role: "sub" }))
      yield* first.stop
      const second = yield* startNode(new FakeCamera(), disk, folder)
      expect((yield* second.supervisor.assignments)[0]).toMatchObject({
        streamId,
        cameraName: "Yard",
        channelName: "Gate",
        role: "sub",
      })
      yield* second.stop
    }))
})

describe("an overflow of the journal", () => {
  it.effect("is told by its position, again when it comes again, until that is acknowledged", () =>
    Effect.scoped(Effect.gen(function*() {
      yield* TestClock.setTime(begin)
      const journal = yield* makeJournal(yield* new FakeFolder().service.open("journal.ndjson"), {
        maxBytes: 10_000,
        retryMs: 1_000,
        nowMs: begin,
        footage: false,
      })
      const fill = Effect.sync(() => {
        for (let n = 0; n < 100; n++) {
          const gap = { id: `g${n}`, recordingId, startMs: n, endMs: null, cause: "disk_slow" as const, detail: "" }
          journal.append([{ _tag: "GapOpened", gap, epoch: 1 }])
        }
      })
      expect(journal.lostAt()).toBeNull()
      yield* fill
      const first = journal.lostAt()!
      expect(first).toBeGreaterThan(begin)
      yield* fill
      const second = journal.lostAt()!
      expect(second).toBeGreaterThan(first)
      journal.acknowledge(first)
      expect(journal.acknowledged()).toBe(first)
      expect(journal.lostAt()).toBe(second)
      journal.acknowledge(second)
      expect(journal.lostAt()).toBeNull()
    })))
})
