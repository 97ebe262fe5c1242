/** The capture as a whole, on the test's clock: every trouble a camera or a disk can make ends in one state and one cause. */
import type { StreamHealth } from "#media/recorder.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { TestClock } from "effect/testing"
import { judge } from "./capture-checker.ts"
import { assignment, type FakeCamera, parametersOf, recordingId, streamId } from "./capture-harness.ts"
import { always, begin, causes, setup, spans } from "./capture-scene.ts"

describe("capture", () => {
  it.effect("records from the first key picture and explains what came before", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("60 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({
        health: "online",
        reason: "",
        recordingState: "recording",
        reconnects: 0,
      })
      expect(causes(node)).toEqual(["starting"])
      const entries = spans(disk)
      for (let i = 1; i < entries.length; i++) expect(entries[i]!.startMs).toBe(entries[i - 1]!.endMs)
      expect(entries.reduce((sum, entry) => sum + entry.frames, 0)).toBeGreaterThan(camera.sent - 15)
      expect(judge(entries, node.supervisor.gaps(recordingId, always), begin, begin + 60_000).faults).toEqual([])
      yield* node.stop
    }))

  it.effect("a frozen camera is connected anew, and the gap says so", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("60 seconds")
      camera.mode = "frozen"
      yield* TestClock.adjust("20 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "degraded", recordingState: "failed" })
      expect(causes(node)).toEqual(["starting", "camera_frozen…"])
      expect(camera.opened).toBeGreaterThan(1)
      camera.mode = "ok"
      yield* TestClock.adjust("60 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "recording" })
      expect(causes(node)).toEqual(["starting", "camera_frozen"])
      expect(disk.files.length).toBe(1)
      expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 140_000).faults).toEqual([])
      yield* node.stop
    }))

  const troubles: ReadonlyArray<readonly [FakeCamera["mode"], StreamHealth, string]> = [
    ["unreachable", "offline", "camera_offline"],
    ["wrongPassword", "authFailed", "auth_failed"],
    ["garbage", "degraded", "stream_invalid"],
    ["keyless", "degraded", "stream_invalid"],
    ["frozen", "degraded", "camera_frozen"],
  ]
  for (const [mode, health, cause] of troubles) {
    it.effect(`${mode} from the start: ${health}, ${cause}, and it recovers by itself`, () =>
      Effect.gen(function*() {
        const { camera, disk, node } = yield* setup()
        camera.mode = mode
        yield* node.supervisor.assign(assignment())
        yield* TestClock.adjust("60 seconds")
        expect(node.supervisor.status(streamId)).toMatchObject({ health })
        expect(node.supervisor.status(streamId)?.reason).not.toBe("")
        expect(causes(node)).toEqual(["starting", `${cause}…`])
        const attempts = camera.opened
        yield* TestClock.adjust("1 hour")
        expect(camera.opened - attempts).toBeGreaterThan(8)
        expect(camera.opened - attempts).toBeLessThan(mode === "wrongPassword" ? 40 : 400)
        camera.mode = "ok"
        yield* TestClock.adjust("10 minutes")
        expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "recording" })
        expect(causes(node)).toEqual(["starting", cause])
        expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 4_260_000).faults).toEqual(
          [],
        )
        yield* node.stop
      }))
  }

  it.effect("a camera that was cut after a long good run is back within a second", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("60 seconds")
      yield* camera.disconnect()
      yield* TestClock.adjust("5 seconds")
      const gaps = node.supervisor.gaps(recordingId, always)
      expect(causes(node)).toEqual(["starting", "camera_offline"])
      expect(gaps[1]!.endMs! - gaps[1]!.startMs).toBeLessThan(600)
      expect(disk.files.length).toBe(1)
      expect(spans(disk).filter((entry) => entry.discontinuity).length).toBe(2)
      yield* node.stop
    }))

  it.effect("lost packets: the hole is exactly the pictures that did not come", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("20 seconds")
      camera.lose = 3
      yield* TestClock.adjust("3 seconds")
      const gaps = node.supervisor.gaps(recordingId, always)
      expect(gaps.slice(1).map((gap) => [gap.endMs! - gap.startMs, gap.cause])).toEqual([[300, "packet_loss"]])
      expect(node.supervisor.status(streamId)).toMatchObject({
        health: "degraded",
        recordingState: "recording",
        lostPackets: 9,
      })
      yield* TestClock.adjust("20 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", reason: "" })
      expect(disk.files.length).toBe(1)
      yield* node.stop
    }))

  it.effect("other parameters begin another file; a jump of the camera's clock makes no gap", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("20 seconds")
      camera.parameters = parametersOf(640)
      yield* TestClock.adjust("20 seconds")
      expect(disk.files.map((file) => file.parameters.video.width)).toEqual([1280, 640])
      expect(causes(node)).toEqual(["starting"])
      expect(disk.files[0]!.sealed).toBe(true)
      camera.jump = 90_000 * 100_000
      yield* TestClock.adjust("20 seconds")
      camera.jump = -90_000 * 5_000
      yield* TestClock.adjust("20 seconds")
      expect(causes(node)).toEqual(["starting"])
      expect(disk.files.length).toBe(2)
      expect(spans(disk).filter((entry) => entry.discontinuity).length).toBe(4)
      const { faults, recordedMs } = judge(
        spans(disk),
        node.supervisor.gaps(recordingId, always),
        begin,
        begin + 80_000,
      )
      expect(faults).toEqual([])
      expect(recordedMs).toBeGreaterThan(78_000)
      yield* node.stop
    }))

  for (const [mode, cause] of [["full", "disk_full"], ["broken", "disk_error"]] as const) {
    it.effect(`a disk that is ${mode}: ${cause} from the last fragment that was written, and it recovers by itself`, () =>
      Effect.gen(function*() {
        const { disk, node } = yield* setup()
        yield* node.supervisor.assign(assignment())
        yield* TestClock.adjust("60 seconds")
        disk.breakDown(mode, 3)
        yield* TestClock.adjust("60 seconds")
        expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "failed" })
        expect(node.supervisor.status(streamId)?.reason).toContain(mode === "full" ? "ENOSPC" : "EIO")
        expect(causes(node)).toEqual(["starting", `${cause}…`])
        expect(node.supervisor.gaps(recordingId, always)[1]!.startMs).toBe(spans(disk).at(-1)!.endMs)
        disk.mode = "ok"
        yield* TestClock.adjust("60 seconds")
        expect(node.supervisor.status(streamId)).toMatchObject({ reason: "", recordingState: "recording" })
        expect(causes(node)).toEqual(["starting", cause])
        expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 180_000).faults).toEqual([])
        yield* node.stop
      }))
  }

  it.effect("a defect while storing is a gap that ends with it, not the end of the recording", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("20 seconds")
      disk.mode = "bug"
      camera.parameters = parametersOf(640)
      yield* TestClock.adjust("20 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "failed" })
      expect(node.supervisor.status(streamId)?.reason).toContain("internal error")
      expect(causes(node)).toEqual(["starting", "stream_invalid…"])
      disk.mode = "ok"
      yield* TestClock.adjust("40 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ reason: "", recordingState: "recording" })
      expect(causes(node)).toEqual(["starting", "stream_invalid"])
      expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 80_000).faults).toEqual([])
      yield* node.stop
    }))

  it.effect("a disk that does not keep up costs whole groups of pictures", () =>
    Effect.gen(function*() {
      const { disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("20 seconds")
      disk.mode = "slow"
      yield* TestClock.adjust("10 seconds")
      disk.mode = "ok"
      yield* TestClock.adjust("40 seconds")
      expect(new Set(causes(node))).toEqual(new Set(["starting", "disk_slow"]))
      expect(disk.files.length).toBe(1)
      const entries = disk.files[0]!.entries
      const resumed = entries.findIndex((entry, i) => i > 0 && entry.startMs > entries[i - 1]!.endMs)
      expect(entries[resumed]!.key).toBe(true)
      expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 70_000).faults).toEqual([])
      yield* node.stop
    }))

  it.effect("files turn about every ten minutes, at a key picture, without a hole", () =>
    Effect.gen(function*() {
      const { disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment())
      yield* TestClock.adjust("35 minutes")
      expect(disk.files.length).toBeGreaterThanOrEqual(4)
      expect(disk.files.every((file) => file.entries[0]!.key)).toBe(true)
      expect(disk.files.map((file) => file.sequence)).toEqual(disk.files.map((_, i) => i))
      const entries = spans(disk)
      for (let i = 1; i < entries.length; i++) {
        expect(entries[i]!.startMs).toBe(entries[i - 1]!.endMs)
        expect(entries[i]!.decodeTicks).toBe(entries[i - 1]!.decodeTicks + entries[i - 1]!.durationTicks)
      }
      yield* node.stop
    }))

  it.effect("switched off and on: the pause is a person's; retention alone touches nothing", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      const one = assignment()
      yield* node.supervisor.assign(one)
      yield* TestClock.adjust("20 seconds")
      yield* node.supervisor.assign({ ...one, recording: { ...one.recording!, retentionDays: 3 } })
      yield* node.supervisor.assign({ ...one, recording: { ...one.recording!, retentionDays: 3 } })
      yield* TestClock.adjust("20 seconds")
      expect(camera.opened).toBe(1)
      yield* node.supervisor.assign({ ...one, recording: { ...one.recording!, enabled: false } })
      yield* TestClock.adjust("20 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "disabled" })
      expect(camera.open).toBe(0)
      yield* node.supervisor.assign(one)
      yield* TestClock.adjust("20 seconds")
      expect(causes(node).filter((cause) => cause !== "starting")).toEqual(["operator_paused"])
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "recording" })
      yield* node.supervisor.assign({ ...one, enabled: false })
      yield* TestClock.adjust("20 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "disabled", recordingState: "disabled" })
      expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin, begin + 100_000).faults).toEqual([])
      yield* node.stop
    }))

  it.effect("without a recording the stream is probed now and then", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      yield* node.supervisor.assign(assignment({ recording: null }))
      yield* TestClock.adjust("5 seconds")
      expect(node.supervisor.status(streamId)).toMatchObject({
        health: "online",
        recordingState: "disabled",
        parameters: { video: { width: 1280 } },
      })
      expect(camera.open).toBe(0)
      yield* TestClock.adjust("5 minutes")
      expect(camera.opened).toBe(6)
      expect(disk.files).toEqual([])
      camera.mode = "unreachable"
      yield* TestClock.adjust("2 minutes")
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "offline" })
      yield* node.stop
    }))

  it.effect("a recording that is wanted while the stream is probed takes over the probe's connection", () =>
    Effect.gen(function*() {
      const { camera, disk, node } = yield* setup()
      camera.mode = "keyless"
      yield* node.supervisor.assign(assignment({ recording: null }))
      yield* TestClock.adjust("1 second")
      expect(camera.open).toBe(1)
      yield* node.supervisor.assign(assignment())
      camera.mode = "ok"
      yield* TestClock.adjust("20 seconds")
      expect(camera.opened).toBe(1)
      expect(node.supervisor.status(streamId)).toMatchObject({ health: "online", recordingState: "recording" })
      expect(causes(node)).toEqual(["starting"])
      expect(judge(spans(disk), node.supervisor.gaps(recordingId, always), begin + 1_000, begin + 21_000).faults)
        .toEqual([])
      yield* node.stop
    }))
})
