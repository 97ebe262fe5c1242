/** The capture over its life, on the test's clock: owners, clocks that are set, restarts, and what it tells others. */
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Stream } from "effect"
import { TestClock } from "effect/testing"
import { judge } from "./capture-checker.ts"
import {
  assignment,
  FakeCamera,
  FakeDisk,
  FakeFolder,
  makeSettableClock,
  recordingId,
  startNode,
  streamId,
  toSegmentFile,
} from "./capture-harness.ts"
import { always, begin, causes, setup, spans } from "./capture-scene.ts"

describe("the life of a capture", () => {
  it.effect("an older epoch is refused, also after the stream was withdrawn; a newer one gets its own file", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment({ epoch: 5 }))
      yield* TestClock.adjust("20 seconds")
      expect(yield* Effect.flip(node.supervisor.assign(assignment({ epoch: 4 })))).toMatchObject({
        _tag: "StaleAssignment",
        inForce: 5,
      })
      yield* node.supervisor.assign(assignment({ epoch: 6 }))
      yield* TestClock.adjust("20 seconds")
      expect(disk.files.map((file) => [file.identity.epoch, file.sequence])).toEqual([[5, 0], [6, 0]])
      expect(camera.opened).toBe(1)
      expect(causes(node)).toEqual(["starting"])
      expect(yield* Effect.flip(node.supervisor.withdraw(streamId, 5))).toMatchObject({ _tag: "StaleAssignment" })
      yield* node.supervisor.withdraw(streamId, 6)
      expect(node.supervisor.status(streamId)).toBe(null)
      expect(disk.files.every((file) => file.sealed)).toBe(true)
      expect(yield* Effect.flip(node.supervisor.assign(assignment({ epoch: 5 })))).toMatchObject({ inForce: 6 })
      yield* TestClock.adjust("20 seconds")
      expect(camera.open).toBe(0)
      yield* node.stop
    }))

  it.effect("the node's clock set forward is a gap, set back is none, and no footage is lost or overwritten", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(begin)
      const settable = makeSettableClock(yield* Clock.Clock)
      yield* Effect.gen(function*() {
        const [camera, disk, folder] = [new FakeCamera(), new FakeDisk(), new FakeFolder()]
        const node = yield* startNode(camera, disk, folder)
        yield* node.supervisor.assign(assignment())
        yield* TestClock.adjust("30 seconds")
        settable.set(3_600_000)
        yield* TestClock.adjust("30 seconds")
        expect(causes(node)).toEqual(["starting", "clock_step"])
        const filesBefore = disk.files.length
        expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 3_660_000).faults).toEqual(
          [],
        )
        settable.set(-3_600_000)
        yield* TestClock.adjust("30 seconds")
        const files = disk.files.map(toSegmentFile)
        expect(files.length).toBe(filesBefore + 1)
        expect(files.at(-1)!.startMs).toBeLessThan(files[filesBefore - 1]!.startMs)
        expect(Math.abs(disk.files.at(-1)!.entries.at(-1)!.endMs - begin - 90_000)).toBeLessThan(3_000)
        expect(files.reduce((sum, file) => sum + file.frames, 0)).toBeGreaterThan(camera.sent - 45)
        const { faults } = judge(
          spans(disk),
          node.supervisor.gaps(recordingId, { start: 0, end: begin + 90_000 }),
          begin,
          begin + 88_000,
        )
        expect(faults).toEqual([])
        yield* node.stop
      }).pipe(Effect.provideService(Clock.Clock, settable.clock))
    }))

  it.effect("a process that stood still says so, and not that its cameras went; one that is gone on waking is told as well", () =>
    Effect.gen(function*() {
      yield* TestClock.setTime(begin)
      const settable = makeSettableClock(yield* Clock.Clock)
      yield* Effect.gen(function*() {
        const [camera, disk] = [new FakeCamera(), new FakeDisk()]
        const node = yield* startNode(camera, disk, new FakeFolder())
        yield* node.supervisor.assign(assignment())
        yield* TestClock.adjust("30 seconds")
        // A connection that the camera closed meanwhile.
        settable.stand(20_000)
        yield* camera.disconnect()
        yield* TestClock.adjust("30 seconds")
        expect(causes(node)).toEqual(["starting", "node_down"])
        expect(node.supervisor.gaps(recordingId, always).at(-1)!.detail).toMatch(/^this node stood still for 2[01] s$/)
        // One that goes on: what did not fit into its buffers was lost.
        settable.stand(10_000)
        camera.lose = 1
        camera.jump += 9_900 * 90
        yield* TestClock.adjust("30 seconds")
        expect(causes(node)).toEqual(["starting", "node_down", "node_down"])
        // A camera that is not there on waking, and after a while is.
        settable.stand(10_000)
        camera.mode = "unreachable"
        yield* camera.disconnect()
        yield* TestClock.adjust("60 seconds")
        camera.mode = "ok"
        yield* TestClock.adjust("60 seconds")
        expect(causes(node)).toEqual(["starting", "node_down", "node_down", "node_down", "camera_offline"])
        // What happens later has its own cause.
        yield* camera.disconnect()
        yield* TestClock.adjust("30 seconds")
        expect(causes(node).at(-1)).toBe("camera_offline")
        expect(causes(node).length).toBe(6)
        const gaps = node.supervisor.gaps(recordingId, always)
        expect(judge(spans(disk), gaps, begin, begin + 280_000).faults).toEqual([])
        yield* node.stop
      }).pipe(Effect.provideService(Clock.Clock, settable.clock))
    }))

  it.effect("takes up its assignments from the disk alone; the time in between is the node's", () =>
    Effect.gen(function*() {
      const { camera, disk, folder, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("30 seconds")
      yield* node.stop
      expect(disk.files.every((file) => file.sealed)).toBe(true)
      yield* TestClock.adjust("30 seconds")
      const next = yield* startNode(camera, disk, folder)
      yield* TestClock.adjust("30 seconds")
      expect(causes(next)).toEqual(["starting", "node_down"])
      expect(disk.files.map((file) => file.sequence)).toEqual([0, 1])
      expect(disk.files[1]!.entries[0]!.decodeTicks).toBeGreaterThan(disk.files[0]!.entries.at(-1)!.decodeTicks)
      expect(judge(spans(disk), next.supervisor.gaps(recordingId, always), begin, begin + 90_000).faults).toEqual([])
      yield* next.stop
    }))

  it.effect("the journal tells everything once, in order, until it is acknowledged", () =>
    Effect.gen(function*() {
      const { camera, folder, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* node.supervisor.awaitJournal(0)
      yield* TestClock.adjust("95 seconds")
      yield* camera.disconnect()
      yield* TestClock.adjust("5 seconds")
      const first = yield* node.supervisor.journal(0, 100)
      // Of the three times the file grew only the newest is kept.
      expect(first.map((entry) => entry._tag)).toEqual([
        "GapOpened",
        "FileOpened",
        "GapClosed",
        "FileGrown",
        "GapOpened",
        "GapClosed",
      ])
      const positions = first.map((entry) => entry.position)
      expect(positions).toEqual([...positions].sort((a, b) => a - b))
      yield* node.supervisor.acknowledge(positions.at(-1)!)
      expect(yield* node.supervisor.journal(0, 100)).toEqual([])
      yield* node.stop
      const next = yield* startNode(camera, disk, folder)
      const later = yield* next.supervisor.journal(0, 100)
      expect(later.every((entry) => entry.position > positions.at(-1)!)).toBe(true)
      expect(later.some((entry) => entry._tag === "FileSealed")).toBe(true)
      expect(yield* next.supervisor.journalLostAt).toBeNull()
      yield* next.stop
    }))

  it.effect("a viewer shares the recording's connection and begins with a key picture", () =>
    Effect.gen(function*() {
      const { camera, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("11 seconds")
      const seen = yield* Effect.scoped(Effect.gen(function*() {
        const view = yield* node.live.watch(streamId, { maxBytes: 1_000, maxItems: 30 })
        yield* TestClock.adjust("1 second")
        const first = yield* view!.take
        expect(view!.dropped()).toBe(0)
        // 32 bytes a picture: the bound is reached in about three seconds, and everything that waited goes.
        yield* TestClock.adjust("20 seconds")
        const late = yield* view!.take
        yield* TestClock.adjust("2 seconds")
        return { first, second: [...late, ...yield* view!.take], dropped: view!.dropped() }
      }))
      expect(seen.first.slice(0, 2)).toMatchObject([{ _tag: "Parameters" }, { _tag: "Unit", unit: { key: true } }])
      expect(seen.second.map((item) => item._tag)).toContain("Break")
      expect(seen.second.find((item) => item._tag === "Unit")).toMatchObject({ unit: { key: true } })
      expect(seen.dropped).toBeGreaterThan(100)
      expect(camera.opened).toBe(1)
      yield* node.stop
    }))

  it.effect("tells every change of state", () =>
    Effect.gen(function*() {
      const { camera, node } = yield* setup()
      const healths: Array<string> = []
      yield* Effect.forkChild(Stream.runForEach(node.supervisor.changes, (status) =>
        Effect.sync(() =>
          void healths.push(`${status.health} ${status.recordingState}`)
        )))
      yield* Effect.yieldNow
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("10 seconds")
      camera.mode = "unreachable"
      yield* camera.disconnect()
      yield* TestClock.adjust("10 seconds")
      expect(healths[0]).toContain("probing")
      expect(healths).toContain("online recording")
      expect(healths.at(-1)).toBe("offline failed")
      yield* node.stop
    }))
})
