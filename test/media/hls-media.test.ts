/** HLS media of real files: what is served is what was stored, and still plays when something is hidden or taken out. */
import { Hls, type HlsMedia, type HlsSource } from "#media/hls.ts"
import { layer as hlsLayer } from "#media/hls/live.ts"
import { parseName } from "#media/hls/names.ts"
import { Storage } from "#media/storage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import * as HlsParser from "hls-parser"
import { BufferSource, EncodedPacketSink, Input, MP4 } from "mediabunny"
import { readFileSync, truncateSync, unlinkSync } from "node:fs"
import { record, type Recorded, type Run, temporaryStorage } from "./recorded.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")

const testLayer = hlsLayer.pipe(Layer.provideMerge(temporaryStorage))

const recorded = (runs: ReadonlyArray<Run>) => Effect.flatMap(Storage, (storage) => record(storage, t0, runs))

const sourceOf = ({ endMs, identity, startMs }: Recorded, speed = 1): HlsSource => ({
  recordingId: identity.recordingId,
  start: startMs,
  end: endMs,
  speed,
  createdAt: endMs + 60_000,
})

const segmentsOf = (source: HlsSource) =>
  Effect.gen(function*() {
    const hls = yield* Hls
    const playlist = HlsParser.parse((yield* hls.playlist(source)).text) as HlsParser.types.MediaPlaylist
    return playlist.segments
  })

const media = (source: HlsSource, name: string) =>
  Effect.gen(function*() {
    const hls = yield* Hls
    const found = yield* hls.resource(source, name)
    if (found.kind !== "media") throw new Error(`${name} is text`)
    return found
  })

const bytesOf = (found: HlsMedia, from = 0, to = found.bytes) =>
  Effect.map(Stream.runCollect(found.read(from, to)), (chunks) => Buffer.concat([...chunks]))

/** Initialization and segments of the first map, as one file, read by an independent reader. */
const played = (source: HlsSource) =>
  Effect.gen(function*() {
    const segments = yield* segmentsOf(source)
    const parts = [yield* Effect.flatMap(media(source, segments[0]!.map.uri), (found) => bytesOf(found))]
    for (const segment of segments) {
      parts.push(yield* Effect.flatMap(media(source, segment.uri), (found) => bytesOf(found)))
    }
    return yield* Effect.promise(async () => {
      const input = new Input({ formats: [MP4], source: new BufferSource(Buffer.concat(parts)) })
      const video = (await input.getPrimaryVideoTrack())!
      const audio = await input.getPrimaryAudioTrack()
      const packets: Array<
        { readonly at: number; readonly duration: number; readonly type: string; readonly data: Uint8Array }
      > = []
      for await (const packet of new EncodedPacketSink(video).packets()) {
        packets.push({ at: packet.timestamp, duration: packet.duration, type: packet.type, data: packet.data })
      }
      return { packets, audio: audio === null ? null : audio.codec }
    })
  })

const h264: Run = { video: "main-640x360-25.h264", seconds: 20, afterMs: 0 }

describe("media", () => {
  it.live("an initialization stays as it was stored after one without its sound was asked for", () =>
    Effect.gen(function*() {
      const footage = yield* recorded([{
        video: "main-640x360-25.h264",
        audio: "tone-16000.aac",
        seconds: 20,
        afterMs: 0,
      }])
      const initOf = (speed: number) =>
        Effect.gen(function*() {
          const source = sourceOf(footage, speed)
          const [first] = yield* segmentsOf(source)
          return Buffer.from(yield* bytesOf(yield* media(source, first!.map!.uri)))
        })
      const before = yield* initOf(1)
      assert.isFalse(before.equals(yield* initOf(16)), "key pictures come without the sound")
      assert.isTrue(before.equals(yield* initOf(1)))
    }).pipe(Effect.provide(testLayer)))

  it.effect("is the stored bytes, whole and in ranges", () =>
    Effect.gen(function*() {
      const storage = yield* Storage
      const footage = yield* recorded([{ ...h264, audio: "tone-16000.aac" }])
      const source = sourceOf(footage)
      const stored = readFileSync(storage.path(footage.files[0]!))
      const segments = yield* segmentsOf(source)
      assert.strictEqual(segments.length, 4)
      for (const segment of segments) {
        const name = parseName(segment.uri)
        if (name?.kind !== "media") throw new Error("no media name")
        const found = yield* media(source, segment.uri)
        assert.strictEqual(found.bytes, name.bytes)
        assert.isTrue((yield* bytesOf(found)).equals(stored.subarray(name.offset, name.offset + name.bytes)))
        assert.isTrue((yield* bytesOf(found, 5, 300)).equals(stored.subarray(name.offset + 5, name.offset + 300)))
      }
      const { audio, packets } = yield* played(source)
      assert.strictEqual(packets.length, footage.pictures)
      assert.strictEqual(audio, "aac")
    }).pipe(Effect.provide(testLayer)))

  it.effect("hides sound that browsers refuse, and nothing else", () =>
    Effect.gen(function*() {
      const storage = yield* Storage
      const footage = yield* recorded([{ ...h264, audio: "tone-8000.pcmu" }])
      const source = sourceOf(footage)
      const stored = readFileSync(storage.path(footage.files[0]!))
      const { audio, packets } = yield* played(source)
      assert.strictEqual(packets.length, footage.pictures)
      assert.isNull(audio)
      const [first] = yield* segmentsOf(source)
      const name = parseName(first!.uri)
      if (name?.kind !== "media") throw new Error("no media name")
      const found = yield* media(source, first!.uri)
      const whole = yield* bytesOf(found)
      const original = stored.subarray(name.offset, name.offset + name.bytes)
      assert.strictEqual(whole.length, original.length)
      const changed = whole.reduce((sum, byte, i) => sum + (byte === original[i] ? 0 : 1), 0)
      const hidden = whole.toString("latin1").split("free").length - original.toString("latin1").split("free").length
      assert.strictEqual(hidden, 6, "one box a fragment")
      assert.isAtMost(changed, 4 * hidden)
      assert.isTrue((yield* bytesOf(found, 1_000, 40_000)).equals(whole.subarray(1_000, 40_000)))
    }).pipe(Effect.provide(testLayer)))

  it.effect("for fast playback is the key pictures, each until the next", () =>
    Effect.gen(function*() {
      const normal = yield* recorded([h264])
      const all = yield* played(sourceOf(normal))
      const { audio, packets } = yield* played(sourceOf(normal, 8))
      assert.isNull(audio)
      const keys = all.packets.filter((packet) => packet.type === "key")
      assert.deepStrictEqual(packets.map((packet) => packet.at), keys.map((packet) => packet.at))
      assert.isTrue(packets.every((packet, i) => Buffer.compare(packet.data, keys[i]!.data) === 0))
      assert.closeTo(packets.reduce((sum, packet) => sum + packet.duration, 0), 20, 0.01)
    }).pipe(Effect.provide(testLayer)))

  it.effect("for fast playback keeps the composition of reordered pictures", () =>
    Effect.gen(function*() {
      const footage = yield* recorded([{ ...h264, video: "bframes-320x180-25.h264" }])
      const all = yield* played(sourceOf(footage))
      const { packets } = yield* played(sourceOf(footage, 16))
      const keys = new Map(all.packets.filter((packet) => packet.type === "key").map((packet) => [packet.at, packet]))
      assert.isAbove(packets.length, 5)
      assert.isTrue(packets.every((packet) => Buffer.compare(packet.data, keys.get(packet.at)!.data) === 0))
    }).pipe(Effect.provide(testLayer)))

  it.effect("is not given outside of the interval, of whole fragments, or of the recording", () =>
    Effect.gen(function*() {
      const footage = yield* recorded([h264])
      const source = sourceOf(footage)
      const [, , third] = yield* segmentsOf(source)
      const hls = yield* Hls
      const refused = (of: HlsSource, name: string) =>
        Effect.map(Effect.flip(hls.resource(of, name)), (error) => error._tag)
      const early = { ...source, end: t0 + 3_000 }
      assert.strictEqual(yield* refused(early, third!.uri), "ReplayFileNotFound")
      assert.strictEqual((yield* hls.resource(source, third!.uri)).kind, "media")
      const shifted = third!.uri.replace(/-(\d+)\.m4s$/, (_, bytes: string) => `-${Number(bytes) + 1}.m4s`)
      assert.strictEqual(yield* refused(source, shifted), "ReplayFileNotFound")
      const other = { ...source, recordingId: "01934b3e-000a-7000-8000-0000000000ff" as HlsSource["recordingId"] }
      assert.strictEqual(yield* refused(other, third!.uri), "ReplayFileNotFound")
      for (
        const name of ["../../../etc/passwd", "%2e%2e", "a-x-0-1.m4s", "", `${third!.uri}x`, third!.uri.toUpperCase()]
      ) {
        assert.strictEqual(yield* refused(source, name), "ReplayFileNotFound", name)
      }
    }).pipe(Effect.provide(testLayer)))

  it.effect("tells a file that is gone from one that is damaged", () =>
    Effect.gen(function*() {
      const storage = yield* Storage
      const footage = yield* recorded([h264])
      const source = sourceOf(footage)
      const last = (yield* segmentsOf(source)).at(-1)!
      const hls = yield* Hls
      const path = storage.path(footage.files[0]!)
      truncateSync(path, footage.files[0]!.bytes - 100)
      const found = yield* media(source, last.uri)
      const damaged = yield* Effect.flip(bytesOf(found))
      assert.strictEqual(damaged.code, "DAMAGED")
      unlinkSync(path)
      const gone = yield* Effect.flip(bytesOf(found))
      assert.strictEqual(gone.code, "ENOENT")
      yield* storage.remove(footage.files[0]!)
      assert.strictEqual((yield* Effect.flip(hls.resource(source, last.uri)))._tag, "ReplayFileNotFound")
    }).pipe(Effect.provide(testLayer)))

  it.effect("of several files plays as one where it runs on, and breaks where it does not", () =>
    Effect.gen(function*() {
      const footage = yield* recorded([
        h264,
        { ...h264, afterMs: 0 },
        { ...h264, afterMs: 90_000 },
        { ...h264, afterMs: 10_000, restarted: true },
        { ...h264, video: "wide-800x352-25.h264", afterMs: 0 },
      ])
      const segments = yield* segmentsOf(sourceOf(footage))
      assert.strictEqual(segments.length, 20)
      const breaks = segments.flatMap((segment, i) => segment.discontinuity ? [i] : [])
      // Each run is a connection of its own and tells so; the second and third of one epoch go on in decode time all the same.
      assert.deepStrictEqual(breaks.map((i) => i / 4), [1, 2, 3, 4])
      assert.strictEqual(new Set(segments.map((segment) => segment.map.uri)).size, 2)
    }).pipe(Effect.provide(testLayer)))
})
