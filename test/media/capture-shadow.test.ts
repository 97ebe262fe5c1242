/** Rings in the capture as a whole: what is held before a stream is assigned is where its recording begins. */
import { ringHoldMs } from "#media/shadow.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { judge } from "./capture-checker.ts"
import { assignment, type FakeDisk, recordingId, startNode, streamId } from "./capture-harness.ts"
import { always, begin, causes, setup, spans } from "./capture-scene.ts"

const held = { ...assignment(), epoch: 0, recording: null }
const key = "home"
const framesOf = (disk: FakeDisk) => spans(disk).reduce((sum, entry) => sum + entry.frames, 0)

describe("shadow", () => {
  it.effect("a recording begins where the ring does, without a new connection and without a hole", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.rings.want(key, [held])
      yield* TestClock.adjust("90 seconds")
      const [ring] = node.rings.status(key)
      expect(ring?.heldMs).toBeGreaterThanOrEqual(ringHoldMs)
      expect(ring?.heldMs).toBeLessThan(ringHoldMs + 2_000)
      expect(ring).toMatchObject({ health: "online", reason: "" })
      const since = (yield* node.rings.keep(key)).get(streamId)!
      // A takeover takes its time.
      yield* TestClock.adjust("2500 millis")
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("20 seconds")
      const entries = spans(disk)
      expect(entries[0]).toMatchObject({ startMs: since, key: true })
      for (let i = 1; i < entries.length; i++) expect(entries[i]!.startMs).toBe(entries[i - 1]!.endMs)
      expect(Math.abs(since - (begin + 90_000 - ring!.heldMs))).toBeLessThan(200)
      // Ten pictures a second, the newest of which are still being put together.
      expect(framesOf(disk)).toBeGreaterThan((begin + 112_500 - since) / 100 - 15)
      expect(judge(entries, node.supervisor.gaps(recordingId, always), since, begin + 112_500).faults).toEqual([])
      expect(camera.opened).toBe(1)
      expect(node.rings.status(key)).toEqual([])
      yield* node.stop
    }))

  it.effect("nothing of it is told, watched or on record before", () =>
    Effect.gen(function*() {
      const { disk, folder, node } = yield* setup()
      yield* node.rings.want(key, [held])
      yield* TestClock.adjust("10 seconds")
      expect(node.supervisor.status(streamId)).toBeNull()
      expect(node.supervisor.statuses()).toEqual([])
      expect(yield* node.supervisor.assignments).toEqual([])
      expect(yield* Effect.scoped(node.live.watch(streamId, { maxBytes: 1, maxItems: 1 }))).toBeNull()
      expect(node.live.parameters(streamId)).toBeNull()
      expect(disk.files).toEqual([])
      expect(yield* Effect.flatMap(folder.service.open("assignments.json"), ({ load }) => load)).toBe("")
      yield* node.stop
    }))

  it.effect("a camera that went and came back: what is held stays, and the gap has its cause", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.rings.want(key, [held])
      yield* TestClock.adjust("20 seconds")
      camera.mode = "unreachable"
      yield* camera.disconnect()
      yield* TestClock.adjust("4 seconds")
      camera.mode = "ok"
      yield* TestClock.adjust("20 seconds")
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("10 seconds")
      expect(causes(node)).toEqual(["camera_offline"])
      const entries = spans(disk)
      expect(entries[0]!.startMs).toBeLessThan(begin + 14_000)
      const faults =
        judge(entries, node.supervisor.gaps(recordingId, always), entries[0]!.startMs, begin + 54_000).faults
      expect(faults).toEqual([])
      yield* node.stop
    }))

  it.effect("other credentials connect anew; released, it is closed; withdrawn, it begins again", () =>
    Effect.gen(function*() {
      const { camera, node } = yield* setup()
      yield* node.rings.want(key, [held])
      yield* TestClock.adjust("5 seconds")
      yield* node.rings.want(key, [held])
      yield* TestClock.adjust("5 seconds")
      expect(camera.opened).toBe(1)
      yield* node.rings.want(key, [{ ...held, password: Redacted.make("another") }])
      yield* TestClock.adjust("5 seconds")
      expect(camera.opened).toBe(2)
      expect(node.rings.status(key)[0]?.heldMs).toBeGreaterThan(9_000)
      yield* node.supervisor.assign(assignment({ password: Redacted.make("another") }))
      yield* TestClock.adjust("5 seconds")
      expect(camera.opened).toBe(2)
      yield* node.supervisor.withdraw(streamId, 1)
      yield* TestClock.adjust("5 seconds")
      expect(camera.open).toBe(1)
      expect(node.rings.status(key)[0]?.heldMs).toBeLessThan(5_000)
      yield* node.rings.want(key, [])
      yield* TestClock.adjust("5 seconds")
      expect(camera.open).toBe(0)
      expect(node.rings.status(key)).toEqual([])
      yield* node.stop
    }))

  it.effect("a second takeover doubles nothing, and a stream that is not recorded forgets its ring", () =>
    Effect.gen(function*() {
      const { camera, disk, folder } = yield* setup()
      const node = yield* startNode(camera, disk, folder)
      yield* node.rings.want(key, [held])
      for (const epoch of [1, 3]) {
        yield* TestClock.adjust("40 seconds")
        yield* node.supervisor.assign(assignment({ epoch }))
        yield* TestClock.adjust("10 seconds")
        yield* node.supervisor.withdraw(streamId, epoch)
      }
      const entries = spans(disk).toSorted((a, b) => a.startMs - b.startMs)
      expect(new Set(disk.files.map(({ identity }) => identity.epoch))).toEqual(new Set([1, 3]))
      for (let i = 1; i < entries.length; i++) expect(entries[i]!.startMs).toBeGreaterThanOrEqual(entries[i - 1]!.endMs)
      const before = disk.files.length
      yield* TestClock.adjust("40 seconds")
      yield* node.supervisor.assign(assignment({ epoch: 5, recording: null }))
      yield* TestClock.adjust("5 seconds")
      expect(disk.files.length).toBe(before)
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online" })
      yield* node.stop
    }))
})
