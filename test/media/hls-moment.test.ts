/** Footage found by its time, for players that were told of it by a node that has given it away since. */
import { intervalOf, listedIn, momentIn, withoutGaps } from "#media/hls-moment.ts"
import { Hls, type HlsSource } from "#media/hls.ts"
import { layer as hlsLayer } from "#media/hls/live.ts"
import { momentName } from "#media/hls/names.ts"
import { Storage } from "#media/storage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"
import { record, type Recorded, temporaryStorage } from "./recorded.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")
const testLayer = hlsLayer.pipe(Layer.provideMerge(temporaryStorage))

const sourceOf = ({ endMs, identity, startMs }: Recorded, speed = 1): HlsSource => ({
  recordingId: identity.recordingId,
  start: startMs,
  end: endMs,
  speed,
  createdAt: endMs + 60_000,
})

const bytesOf = Effect.fnUntraced(function*(source: HlsSource, name: string) {
  const hls = yield* Hls
  const found = yield* hls.resource(source, name)
  if (found.kind === "text") return Buffer.from(found.render([]))
  const read = (from: number, to: number) =>
    Effect.map(Stream.runCollect(found.read(from, to)), (chunks) => Buffer.concat([...chunks]))
  const whole = yield* read(0, found.bytes)
  assert.strictEqual(whole.length, found.bytes)
  // A part of it is that part of it.
  const [from, to] = [Math.floor(found.bytes / 3), Math.ceil(found.bytes * 0.8)]
  assert.isTrue((yield* read(from, to)).equals(whole.subarray(from, to)))
  return whole
})

/** Decode time of the first track of each fragment (ISO/IEC 14496-12, 8.8.12), version 1. */
const decodeTimes = (bytes: Buffer): ReadonlyArray<number> => {
  const found: Array<number> = []
  for (let at = bytes.indexOf("moof"); at >= 0; at = bytes.indexOf("moof", at + 1)) {
    const tfdt = bytes.indexOf("tfdt", at)
    found.push(Number(bytes.readBigUInt64BE(tfdt + 8)))
  }
  return found
}

describe("footage by its time", () => {
  it.live("is byte for byte what it was named before, in every form", () =>
    Effect.gen(function*() {
      const [hls, storage] = yield* Effect.all([Hls, Storage])
      const run = { video: "main-640x360-25.h264", audio: "tone-8000.pcmu", seconds: 12 } as const
      const footage = yield* record(storage, t0, [{ ...run, afterMs: 0 }, { ...run, afterMs: 5_000 }])
      const names = new Map<string, { readonly name: string; readonly source: HlsSource }>()
      for (const speed of [1, 8]) {
        const source = sourceOf(footage, speed)
        for (const { text } of [yield* hls.playlist(source), yield* hls.subtitles(source)]) {
          for (const name of text.match(/[a-z0-9-]+\.(mp4|m4s|vtt)/g) ?? []) {
            const moment = momentIn(text, name)
            assert.isNotNull(moment, name)
            assert.deepStrictEqual(intervalOf(moment!.name), moment!.interval)
            const before = yield* bytesOf(source, name)
            assert.isTrue((yield* bytesOf(source, moment!.name)).equals(before), `${name} as ${moment!.name}`)
            names.set(name, { name: moment!.name, source })
          }
        }
      }
      assert.isAbove(names.size, 8)
      // A removed file is remembered by the same times.
      yield* storage.remove(footage.files[0]!)
      const departed = [...names].flatMap(([name, { name: told, source }]) => {
        const now = hls.departed(source, name)
        return now === null || now.startsWith("at-i") ? [] : [[now, told] as const]
      })
      assert.isAtLeast(departed.length, 4)
      for (const [now, told] of departed) {
        assert.strictEqual(now.replace(/-\d+-\d+\./, "-"), told.replace(/-\d+-\d+\./, "-"))
        const [one, other] = [intervalOf(now)!, intervalOf(told)!]
        assert.isAtMost(Math.abs(one.end - other.end), 1)
      }
    }).pipe(Effect.provide(testLayer)))

  it.live("of another recorder stands where the player expects it, and each fragment comes once", () =>
    Effect.gen(function*() {
      const storage = yield* Storage
      const run = { video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 10 } as const
      const footage = yield* record(storage, t0, [{ ...run, afterMs: 0 }, { ...run, afterMs: 5_000, restarted: true }])
      const source = sourceOf(footage)
      const whole = (yield* Hls).playlist(source)
      const second = footage.files[1]!
      const [from, to] = [second.startMs, second.endMs]
      const asked = (start: number, end: number) =>
        bytesOf(source, momentName({ what: { kind: "all" }, start, end, ticks: 5_000_000 + (start - from) * 90 }))
      const all = decodeTimes(yield* asked(from, to))
      assert.strictEqual(all[0], 5_000_000)
      // Stretches that stray from the fragments' own borders, as a playlist's clock does.
      const borders = [from, from + 1_980, from + 4_030, from + 7_990, to]
      const parts: Array<number> = []
      for (let at = 1; at < borders.length; at++) {
        parts.push(...decodeTimes(yield* asked(borders[at - 1]!, borders[at]!)))
      }
      assert.deepStrictEqual(parts, all)
      assert.deepStrictEqual(
        all.map((time) => time - all[0]!),
        decodeTimes(
          yield* bytesOf(
            source,
            momentName({
              what: { kind: "all" },
              start: from,
              end: to,
              ticks: null,
            }),
          ),
        ),
      )
      // Nothing outside of the source.
      const narrow = { ...source, end: from }
      const refused = yield* Effect.flip((yield* Hls).resource(
        narrow,
        momentName({
          what: { kind: "all" },
          start: from + 1_000,
          end: to,
          ticks: null,
        }),
      ))
      assert.strictEqual(refused._tag, "ReplayFileNotFound")
      assert.strictEqual(listedIn((yield* whole).text).filter(({ ticks }) => ticks === null).length, 0)
    }).pipe(Effect.provide(testLayer)))

  it("takes nothing from a text that is no playlist, and tells gaps that are none", () => {
    for (
      const text of ["", "#EXTM3U\nx.m4s", "#EXTINF:6,\nx.m4s", "#EXT-X-PROGRAM-DATE-TIME:soon\n#EXTINF:6,\nx.m4s"]
    ) {
      assert.deepStrictEqual(listedIn(text), [])
      assert.isNull(momentIn(text, "x.m4s"))
    }
    const text = "#EXT-X-GAP\n#EXTINF:6,\na.m4s\n#EXTINF:6,\nb.m4s\n#EXT-X-GAP\n#EXTINF:6,\nc.m4s\n"
    assert.strictEqual(
      withoutGaps(text, new Set(["a.m4s"])),
      "#EXTINF:6,\na.m4s\n#EXTINF:6,\nb.m4s\n#EXT-X-GAP\n#EXTINF:6,\nc.m4s\n",
    )
    assert.isNull(intervalOf("a-01934b3e-0000-7000-8000-00000000000d-0-1.m4s"))
  })
})
