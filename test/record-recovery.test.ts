/** What assignments and footage tell of cameras and recordings that a database does not know; pure. */
import { forgottenUrl, sharedCredentials, switchedOn } from "#actors/behaviour/camera-recovery.ts"
import { type FoundFootage, foundOf, keptFromOf, namelessCamera } from "#actors/behaviour/record-found.ts"
import { changesOf, difference } from "#actors/behaviour/record-journal.ts"
import type { Assignment } from "#media/recorder.ts"
import { sourceUrlFault } from "#schema/camera-url.ts"
import { CameraId, ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { SegmentFile } from "#schema/record.ts"
import { uuid7, uuid7Time } from "#schema/uuid.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { footageFile } from "./record-fixtures.ts"

const uuid = (n: number) => `0190a0a0-0000-7000-8000-${n.toString(16).padStart(12, "0")}`
const dayMs = 86_400_000
const nowMs = 1_800_000_000_000
const of = (n: number) => ({
  recordingId: RecordingId.make(uuid(n)),
  recordingToken: RecordingToken.make(uuid(n + 1)),
  streamId: StreamId.make(uuid(n + 2)),
  channelId: ChannelId.make(uuid(n + 3)),
  nodeId: NodeId.make(uuid(1)),
})
const cameraId = CameraId.make(uuid(0xc0))
const assignment = (n: number, change: Partial<Assignment> = {}): Assignment => {
  const { channelId, nodeId, recordingId, recordingToken, streamId } = of(n)
  return {
    streamId,
    cameraId,
    channelId,
    cameraName: "Yard",
    channelName: "Gate",
    role: "main",
    driver: "rtsp",
    url: "rtsp://camera.example/main",
    username: "viewer",
    password: Redacted.make("secret"),
    transport: "udp",
    nodeId,
    epoch: 3,
    enabled: true,
    recording: { recordingId, recordingToken, enabled: true, retentionDays: 9, maxBytes: 5 },
    ...change,
  }
}
const footage = (n: number, change: Partial<FoundFootage> = {}, ageDays = 0): FoundFootage => ({
  files: [footageFile(of(n), `f${n}`, nowMs - ageDays * dayMs, nowMs - ageDays * dayMs + 1000)],
  origin: { cameraId, cameraName: "Yard", channelName: "Gate", role: "sub" },
  gaps: [],
  ...change,
})
const find = (
  assignments: ReadonlyArray<Assignment>,
  files: ReadonlyArray<readonly [number, FoundFootage]>,
  ...unheard: ReadonlyArray<string>
) =>
  foundOf({
    assignments,
    footage: new Map(files.map(([n, found]) => [of(n).recordingId, found])),
    unheard: new Set(unheard),
    nowMs,
    defaultDays: 30,
  })

describe("what is found", () => {
  it("is nothing where the database has heard of everything", () => {
    assert.deepStrictEqual(find([assignment(16)], []), { cameras: [], recordings: [] })
  })

  it("of an assignment is the camera as it was, and its recording", () => {
    const { cameras, recordings } = find([assignment(16)], [[16, footage(16)]], cameraId, uuid(16), uuid(18))
    assert.lengthOf(cameras, 1)
    assert.deepInclude(cameras[0], { id: cameraId, name: "Yard" })
    const [channel] = cameras[0]!.channels
    assert.deepInclude(channel, { id: of(16).channelId, name: "Gate" })
    assert.deepInclude(channel!.streams[0]!.source, {
      url: "rtsp://camera.example/main",
      transport: "udp",
      enabled: true,
    })
    assert.lengthOf(recordings, 1)
    assert.deepInclude(recordings[0]!.recording, {
      enabled: true,
      retentionDays: 9,
      maxBytes: 5,
      cameraId,
      role: "main",
    })
    assert.isTrue(recordings[0]!.working)
  })

  it("of footage alone is a recording that is off and loses nothing for its age", () => {
    const { cameras, recordings } = find([], [[16, footage(16, {}, 100)]], uuid(16))
    assert.isFalse(switchedOn(cameras[0]!))
    assert.deepInclude(cameras[0]!.channels[0]!.streams[0], { id: of(16).streamId, role: "sub", source: null })
    assert.deepInclude(recordings[0]!.recording, { enabled: false, retentionDays: 130, role: "sub", cameraId })
    assert.isFalse(recordings[0]!.working)
  })

  it("keeps a camera together whose streams are known from different places", () => {
    const { cameras } = find([assignment(16)], [[32, footage(32)]], cameraId, uuid(16), uuid(18), uuid(32))
    assert.deepStrictEqual(cameras.map(({ channels, id }) => [id, channels.length]), [[cameraId, 2]])
    assert.isTrue(switchedOn(cameras[0]!))
  })

  it("has the same camera each time where files do not tell it", () => {
    const again = () => find([], [[16, footage(16, { origin: null })]], uuid(16))
    assert.deepStrictEqual(again(), again())
    assert.deepInclude(again().cameras[0], { id: CameraId.make(of(16).channelId), name: namelessCamera })
  })

  it("is only the recording where the camera is known", () => {
    const { cameras, recordings } = find([assignment(16)], [], uuid(16))
    assert.deepStrictEqual([cameras.length, recordings.length], [1, 1])
  })
})

describe("the beginning of what is kept", () => {
  const file = (change: Partial<SegmentFile>) => ({ ...footage(16).files[0], ...change })
  it.each(
    [
      ["of the first file", [file({})], null],
      ["of a later file", [file({ sequence: 4 })], nowMs],
      ["of a later epoch", [file({ epoch: 2 })], nowMs],
    ] as const,
  )("%s", (_what, files, kept) => {
    assert.strictEqual(keptFromOf({ files, gaps: [] }), kept)
  })

  it("is no matter of retention where a gap reaches up to it", () => {
    const gap = {
      id: "g",
      recordingId: of(16).recordingId,
      startMs: nowMs - 500,
      endMs: nowMs,
      cause: "takeover" as const,
      detail: "",
    }
    assert.isNull(keptFromOf({ files: [file({ epoch: 2 })], gaps: [gap] }))
  })
})

describe("credentials", () => {
  const camera = (...all: ReadonlyArray<Assignment>) =>
    find(all, [], cameraId, ...all.map(({ streamId }) => streamId)).cameras[0]!
  it("are the camera's where its streams share them", () => {
    assert.deepInclude(sharedCredentials(camera(assignment(16), assignment(32))), { username: "viewer" })
    assert.isNull(sharedCredentials(camera(assignment(16), assignment(32, { password: Redacted.make("other") }))))
    assert.isNull(sharedCredentials(find([], [[16, footage(16)]], uuid(16)).cameras[0]!))
  })
  it("are never asked of the address that stands for a forgotten one, which people can replace", () => {
    assert.isNull(sourceUrlFault(forgottenUrl))
  })
})

describe("the index against the disk", () => {
  const file = footageFile(of(16), "f1", 1000, 9000)
  it("counts what came, what was wrong, and not what only grew", () => {
    const growing = { ...file, id: "f2", sealed: false }
    const before = [file, growing]
    assert.deepStrictEqual(changesOf(before, [file, { ...growing, endMs: 9500, bytes: 9 }]), { added: 0, corrected: 0 })
    assert.deepStrictEqual(changesOf(before, [{ ...file, bytes: 1 }, growing]), { added: 0, corrected: 1 })
    assert.deepStrictEqual(changesOf([growing], [file, { ...growing, sealed: true }]), { added: 1, corrected: 1 })
  })
  it("leaves a gap where a file lost its end", () => {
    const { gaps, goneFiles } = difference({
      indexed: [file],
      stored: [{ ...file, endMs: 6000, sealed: false }],
      folders: new Set(["main"]),
    })
    assert.deepStrictEqual(goneFiles, [])
    assert.deepStrictEqual(gaps.map(({ cause, endMs, startMs }) => [startMs, endMs, cause]), [
      [6000, 9000, "segment_missing"],
    ])
  })
})

it.effect("a UUIDv7 tells when it was made", () =>
  Effect.gen(function*() {
    yield* TestClock.setTime(nowMs)
    assert.strictEqual(uuid7Time(yield* uuid7), nowMs)
  }))
