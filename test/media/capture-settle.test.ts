/** The end of every file reaches the journal, whoever was there when it ended. */
import { makeJournal } from "#media/capture/journal.ts"
import { settleFiles } from "#media/capture/settle.ts"
import type { JournalEntry } from "#media/recorder.ts"
import { type FolderUsage, Storage } from "#media/storage.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { assignment, FakeCamera, FakeDisk, FakeFolder, startNode, streamId, toSegmentFile } from "./capture-harness.ts"

const folderNamed = (name: string, state: FolderUsage["state"]): FolderUsage => ({
  name,
  path: `/footage/${name}`,
  state,
  detail: "",
  totalBytes: 1,
  freeBytes: 1,
  floorBytes: 0,
  usedBytes: 0,
})

/** A disk that says how its folder is. */
const makeDisk = () => {
  const disk = new FakeDisk()
  const folder: { state: FolderUsage["state"] } = { state: "ok" }
  const usage = Effect.sync(() => [folderNamed("main", folder.state)])
  return Object.assign(disk, { folder, service: Storage.of({ ...disk.service, usage }) })
}

const told = (entries: ReadonlyArray<JournalEntry>) =>
  entries.flatMap((entry) => "file" in entry ? [`${entry._tag} ${entry.file.sequence} ${entry.file.fragments}`] : [])

const killed = Effect.gen(function*() {
  yield* TestClock.setTime(1_760_000_000_000)
  const [camera, disk, folder] = [new FakeCamera(), makeDisk(), new FakeFolder()]
  const node = yield* startNode(camera, disk, folder)
  yield* node.supervisor.assign(assignment())
  yield* TestClock.adjust("21 seconds")
  const before = yield* node.supervisor.journal(0, 100)
  // All that was told is in the index already: only the end is missing there.
  yield* node.supervisor.acknowledge(before.at(-1)!.position)
  yield* TestClock.adjust("1 second")
  disk.kill(1)
  const left = folder.kill()
  yield* Effect.forkChild(node.stop)
  yield* TestClock.adjust("20 seconds")
  return { camera, disk, folder: left, told: told(before) }
})

describe("files whose writer was killed", () => {
  it.effect("the next process tells their end, as the disk has it", () =>
    Effect.gen(function*() {
      const { camera, disk, folder, told: before } = yield* killed
      expect(before).toEqual(["FileOpened 0 0"])
      const { fragments } = toSegmentFile(disk.files[0]!)
      const next = yield* startNode(camera, disk, folder)
      expect(told(yield* next.supervisor.journal(0, 100))).toContain(`FileSealed 0 ${fragments}`)
      yield* next.stop
    }))

  it.effect("one that held nothing and was cleared away is told as deleted", () =>
    Effect.gen(function*() {
      const { camera, disk, folder } = yield* killed
      disk.files.splice(0)
      const next = yield* startNode(camera, disk, folder)
      expect(told(yield* next.supervisor.journal(0, 100))).toEqual(["FileDeleted 0 0"])
      yield* next.stop
    }))

  it.effect("while its folder is away nothing is told; when it is back, what is there", () =>
    Effect.gen(function*() {
      const { camera, disk, folder } = yield* killed
      const [file] = disk.files.splice(0)
      disk.folder.state = "missing"
      camera.mode = "unreachable"
      const next = yield* startNode(camera, disk, folder)
      yield* TestClock.adjust("3 minutes")
      expect(told(yield* next.supervisor.journal(0, 100))).toEqual([])
      disk.files.push(file!)
      disk.folder.state = "ok"
      yield* TestClock.adjust("2 minutes")
      expect(told(yield* next.supervisor.journal(0, 100))).toEqual([`FileSealed 0 ${toSegmentFile(file!).fragments}`])
      yield* next.stop
    }))

  it.effect("a journal that was tidied and read again still knows them", () =>
    Effect.gen(function*() {
      const { disk, folder } = yield* killed
      const options = { maxBytes: 1_000_000, retryMs: 1_000, nowMs: 1_760_000_100_000, footage: true }
      const line = yield* folder.service.open("journal.ndjson")
      // A torn end makes the journal write itself anew.
      yield* line.append("half a li")
      yield* Effect.scoped(Effect.andThen(makeJournal(line, options), TestClock.adjust("1 second")))
      yield* Effect.scoped(Effect.gen(function*() {
        const journal = yield* makeJournal(line, options)
        expect(journal.unsettled().map(({ id }) => id)).toEqual([disk.files[0]!.id])
        yield* settleFiles(disk.service, journal)
        expect(journal.unsettled()).toEqual([])
      }))
    }))
})

describe("a file that nothing comes to any more", () => {
  it.effect("a person's pause seals it", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_760_000_000_000)
      const [camera, disk, folder] = [new FakeCamera(), makeDisk(), new FakeFolder()]
      const node = yield* startNode(camera, disk, folder)
      const wanted = assignment()
      yield* node.supervisor.assign(wanted)
      yield* TestClock.adjust("10 seconds")
      yield* node.supervisor.assign({ ...wanted, recording: { ...wanted.recording!, enabled: false } })
      yield* TestClock.adjust("1 second")
      expect(disk.files.map(({ sealed }) => sealed)).toEqual([true])
      yield* node.supervisor.assign(wanted)
      yield* TestClock.adjust("10 seconds")
      expect(disk.files.map(({ sealed }) => sealed)).toEqual([true, false])
      expect(node.supervisor.status(streamId)?.recordingState).toBe("recording")
      yield* node.stop
    }))

  it.effect("a camera that stays away leaves it open for its time, not longer", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(1_760_000_000_000)
      const [camera, disk, folder] = [new FakeCamera(), makeDisk(), new FakeFolder()]
      const node = yield* startNode(camera, disk, folder, { rotateMs: 60_000 })
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("5 seconds")
      camera.mode = "unreachable"
      yield* camera.disconnect()
      yield* TestClock.adjust("70 seconds")
      expect(disk.files.every(({ sealed }) => sealed)).toBe(true)
      expect(told(yield* node.supervisor.journal(0, 100)).at(-1)).toMatch(/^FileSealed/)
      yield* node.stop
    }))
})
