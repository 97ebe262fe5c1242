/** HLS playlists of made-up footage, read back by an independent parser. */
import { Hls, type HlsSource } from "#media/hls.ts"
import { parseName } from "#media/hls/names.ts"
import { continues, type Grouping, growingGrouping, planOf, rowsWithin } from "#media/hls/plan.ts"
import { FragmentTable } from "#media/storage/fragment-table.ts"
import { footage, type FootageFile, pictures, type Step, withSound } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as HlsParser from "hls-parser"
import { media, source, t0, withFiles } from "./hls-made-up.ts"

const playlistOf = (files: ReadonlyArray<FootageFile>, of: HlsSource) =>
  Effect.gen(function*() {
    const hls = yield* Hls
    return media((yield* hls.playlist(of)).text)
  }).pipe(Effect.provide(withFiles(() => files)))

/** Pictures in a resource, counted from the index. */
const framesOf = (files: ReadonlyArray<FootageFile>, uri: string) => {
  const name = parseName(uri)
  if (name === null || name.kind === "init") throw new Error(`not a media name: ${uri}`)
  const { entries } = files.find((one) => one.file.id === name.fileId)!
  const within = entries.filter((entry) =>
    entry.offset >= name.offset && entry.offset + entry.bytes <= name.offset + name.bytes
  )
  assert.strictEqual(within.reduce((sum, entry) => sum + entry.bytes, 0), name.bytes, "a range of whole fragments")
  return within.map((entry) => `${name.fileId}/${entry.offset}`)
}

const StepSchema = Schema.Union([
  Schema.Struct({
    kind: Schema.tag("groups"),
    count: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 12 })),
    groupMs: Schema.Literals([400, 1000, 1001, 2000, 2002, 3000, 5000, 12_000]),
  }),
  Schema.Struct({ kind: Schema.tag("gap"), ms: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 600_000 })) }),
  Schema.Struct({ kind: Schema.tag("rotate") }),
  Schema.Struct({
    kind: Schema.tag("restart"),
    ms: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 600_000 })),
  }),
])
const Script = Schema.Array(StepSchema).check(Schema.isMinLength(1), Schema.isMaxLength(12))
const Fraction = Schema.Number.check(Schema.isBetween({ minimum: 0, maximum: 1 }))

describe("media playlists", () => {
  it.effect.prop(
    "hold every fragment of the interval once, in order",
    [Script, Fraction, Fraction],
    ([script, a, b]) =>
      Effect.gen(function*() {
        const files = footage(t0, [...script as ReadonlyArray<Step>, { kind: "groups", count: 1, groupMs: 2000 }])
        const end = files.at(-1)!.file.endMs
        const from = t0 + Math.floor(Math.min(a, b) * (end - t0))
        const to = t0 + Math.ceil(Math.max(a, b) * (end - t0)) + 1
        const needed = files.flatMap(({ entries, file }) =>
          entries.filter((entry) => entry.startMs < to && entry.endMs > from).map((entry) =>
            `${file.id}/${entry.offset}`
          )
        )
        if (needed.length === 0) return
        const playlist = yield* playlistOf(files, source(from, to))
        const listed = playlist.segments.flatMap((segment) => framesOf(files, segment.uri))
        assert.strictEqual(new Set(listed).size, listed.length, "nothing twice")
        // Before the first fragment that is needed there may be others of its group: decoding begins at a key picture.
        assert.deepStrictEqual(listed.slice(-needed.length), needed)
        const lead = listed.length - needed.length
        const all = files.flatMap(({ entries, file }) =>
          entries.map((entry) => ({ id: `${file.id}/${entry.offset}`, entry }))
        )
        const at = all.findIndex((one) => one.id === needed[0])
        assert.deepStrictEqual(listed.slice(0, lead), all.slice(at - lead, at).map((one) => one.id))
        assert.isTrue(all[at - lead]!.entry.key)
        assert.isTrue(playlist.endlist)
      }),
  )

  it.effect.prop("tell durations, runs and clocks truly", [Script], ([script]) =>
    Effect.gen(function*() {
      const files = footage(t0, [...script as ReadonlyArray<Step>, { kind: "groups", count: 1, groupMs: 2000 }])
      const end = files.at(-1)!.file.endMs
      const playlist = yield* playlistOf(files, source(t0, end))
      const entries = files.flatMap((file) => file.entries.map((entry) => ({ ...entry, file: file.file })))
      const runs = entries.filter((entry, i) =>
        i === 0 || entry.file.epoch !== entries[i - 1]!.file.epoch || !continues(entries[i - 1]!, entry)
      )
      assert.strictEqual(playlist.segments.filter((segment) => segment.discontinuity).length, runs.length - 1)
      const seconds = playlist.segments.reduce((sum, segment) => sum + segment.duration, 0)
      const expected = entries.reduce((sum, entry) => sum + entry.durationTicks, 0) / 90_000
      assert.closeTo(seconds, expected, 1e-5 * playlist.segments.length)
      assert.strictEqual(
        playlist.targetDuration,
        Math.max(...playlist.segments.map((segment) => Math.round(segment.duration))),
      )
      let clock = Number.NaN
      for (const segment of playlist.segments) {
        if (segment.programDateTime !== undefined) clock = segment.programDateTime.getTime()
        const name = parseName(segment.uri)
        if (name?.kind !== "media") throw new Error("not a media name")
        const entry = entries.find((one) => one.file.id === name.fileId && one.offset === name.offset)!
        assert.closeTo(clock, entry.startMs, 41)
        clock += segment.duration * 1000
      }
    }))

  it.effect.prop("only grow", [Script], ([script]) =>
    Effect.sync(() => {
      const files = footage(t0, script)
      for (const { entries } of files) {
        const planned = (grouping: Grouping, to: number, complete: boolean) => {
          const table = FragmentTable.of(entries.slice(0, to))
          return planOf(table, { from: 0, to }, grouping, { complete, cuts: new Set([7, 8]) }).edges
        }
        for (const longestTicks of [Infinity, 2.5 * 90_000 - 1]) {
          const grouping = { ...growingGrouping, longestTicks }
          let before: ReadonlyArray<number> = []
          for (let to = 1; to <= entries.length; to++) {
            const now = planned(grouping, to, false)
            assert.deepStrictEqual(now.slice(0, before.length), before)
            before = now
          }
          const whole = planned(grouping, entries.length, true)
          assert.deepStrictEqual(whole.slice(0, before.length), before)
          const longest = Math.max(
            ...whole.slice(1).map((end, i) =>
              entries[end - 1]!.decodeTicks + entries[end - 1]!.durationTicks - entries[whole[i]!]!.decodeTicks
            ),
          )
          assert.isAtMost(longest, longestTicks)
          assert.strictEqual(whole.at(-1), entries.length)
        }
      }
    }))

  it.effect("cut segments of 3 to 9 seconds, 6 for choice, where the groups allow it", () =>
    Effect.gen(function*() {
      for (
        const [groupMs, expected] of [
          [400, 6],
          [1000, 6],
          [1001, 6.006],
          [2000, 6],
          [3000, 6],
          [3800, 7.6],
          [4000, 8],
          [5000, 5],
          [12_000, 12],
        ] as const
      ) {
        const files = footage(t0, [{ kind: "groups", count: 40, groupMs }])
        const playlist = yield* playlistOf(files, source(t0, files[0]!.file.endMs))
        assert.closeTo(playlist.segments[0]!.duration, expected, 1e-5, `groups of ${groupMs} ms`)
      }
    }))

  it.effect("begin at the key picture before the start and say where to begin", () =>
    Effect.gen(function*() {
      const files = footage(t0, [{ kind: "groups", count: 100, groupMs: 2000 }])
      const { text } = yield* Effect.flatMap(Hls, (hls) => hls.playlist(source(t0 + 11_300, t0 + 60_500)))
        .pipe(Effect.provide(withFiles(() => files)))
      const playlist = media(text)
      assert.strictEqual(playlist.segments[0]!.programDateTime!.toISOString(), "2026-03-01T12:00:10.000Z")
      assert.include(text, "#EXT-X-START:TIME-OFFSET=1.300,PRECISE=YES")
      assert.closeTo(playlist.segments.reduce((sum, one) => sum + one.duration, 0), 51, 1e-6)
      assert.include(text, "#EXT-X-INDEPENDENT-SEGMENTS")
      assert.strictEqual(playlist.playlistType, "VOD")
    }))

  it.effect("change the map exactly where the initialization changes", () =>
    Effect.gen(function*() {
      const files = footage(t0, [
        { kind: "groups", count: 5, groupMs: 2000 },
        { kind: "rotate" },
        { kind: "groups", count: 5, groupMs: 2000 },
        { kind: "rotate", parameters: { ...pictures, video: { ...pictures.video, width: 1280, height: 720 } } },
        { kind: "groups", count: 5, groupMs: 2000 },
      ])
      const playlist = yield* playlistOf(files, source(t0, files.at(-1)!.file.endMs))
      const maps = [...new Set(playlist.segments.map((segment) => segment.map.uri))]
      assert.deepStrictEqual(maps, [`i-${files[0]!.file.id}.mp4`, `i-${files[2]!.file.id}.mp4`])
      assert.strictEqual(playlist.segments.filter((segment) => segment.discontinuity).length, 1)
    }))

  it.effect("change the map also where the fragment that marked the change was dropped", () =>
    Effect.gen(function*() {
      const files = footage(t0, [
        { kind: "groups", count: 5, groupMs: 2000 },
        { kind: "rotate", parameters: withSound("pcmu"), droppedMs: 40 },
        { kind: "groups", count: 5, groupMs: 2000 },
      ])
      const playlist = yield* playlistOf(files, source(t0, files.at(-1)!.file.endMs))
      const maps = [...new Set(playlist.segments.map((segment) => segment.map.uri))]
      assert.deepStrictEqual(maps, [`i-${files[0]!.file.id}.mp4`, `iv-${files[1]!.file.id}.mp4`])
      assert.strictEqual(playlist.segments.filter((segment) => segment.discontinuity).length, 1)
    }))

  it.effect("leave out a file that cannot be read, and play the rest", () =>
    Effect.gen(function*() {
      const files = footage(t0, [
        { kind: "groups", count: 5, groupMs: 2000 },
        { kind: "rotate" },
        { kind: "groups", count: 5, groupMs: 2000 },
        { kind: "rotate" },
        { kind: "groups", count: 5, groupMs: 2000 },
      ])
      const broken = new Set([files[1]!.file.id])
      const playlist = yield* Effect.gen(function*() {
        const hls = yield* Hls
        return media((yield* hls.playlist(source(t0, files.at(-1)!.file.endMs))).text)
      }).pipe(Effect.provide(withFiles(() => files, broken)))
      assert.strictEqual(playlist.segments.filter((segment) => segment.discontinuity).length, 1)
      assert.closeTo(playlist.segments.reduce((sum, one) => sum + one.duration, 0), 20, 1e-6)
    }))
})

describe("growing playlists", () => {
  const grown = (seconds: number) =>
    footage(t0, [{ kind: "groups", count: 150, groupMs: 2000 }, { kind: "rotate" }, {
      kind: "groups",
      count: seconds / 2 - 150,
      groupMs: 2000,
    }])

  it.effect("hold back the last group, append, and end when the interval is over", () =>
    Effect.gen(function*() {
      let files = grown(400)
      const of = source(t0 + 290_000, t0 + 500_000, { createdAt: t0 + 400_000 })
      yield* TestClock.setTime(t0 + 400_000)
      yield* Effect.gen(function*() {
        const hls = yield* Hls
        const first = yield* hls.playlist(of)
        assert.isFalse(first.ended)
        assert.strictEqual(media(first.text).playlistType, "EVENT")
        assert.closeTo(media(first.text).segments.reduce((sum, one) => sum + one.duration, 0), 108, 1e-6)
        const again = yield* hls.playlist(of)
        assert.strictEqual(again, first, "unchanged footage costs nothing")

        files = grown(420)
        const second = yield* hls.playlist(of)
        assert.notStrictEqual(second.etag, first.etag)
        assert.isTrue(second.text.startsWith(first.text))

        files = grown(504)
        const last = yield* hls.playlist(of)
        assert.isTrue(last.ended)
        assert.isTrue(last.text.startsWith(first.text))
        assert.closeTo(media(last.text).segments.reduce((sum, one) => sum + one.duration, 0), 210, 1e-6)
        assert.isTrue(media(last.text).endlist)
      }).pipe(Effect.provide(withFiles(() => files)))
    }))

  it.effect("end by the clock where recording stopped before the end", () =>
    Effect.gen(function*() {
      const files = grown(400)
      const of = source(t0 + 300_000, t0 + 500_000, { createdAt: t0 + 400_000 })
      yield* Effect.gen(function*() {
        const hls = yield* Hls
        yield* TestClock.setTime(t0 + 505_000)
        assert.isFalse((yield* hls.playlist(of)).ended)
        yield* TestClock.setTime(t0 + 510_000)
        const last = yield* hls.playlist(of)
        assert.isTrue(last.ended)
        assert.closeTo(media(last.text).segments.reduce((sum, one) => sum + one.duration, 0), 100, 1e-6)
      }).pipe(Effect.provide(withFiles(() => files)))
    }))

  it.effect("keep the place of footage that was deleted meanwhile", () =>
    Effect.gen(function*() {
      let files: ReadonlyArray<FootageFile> = grown(400)
      const of = source(t0, null, { createdAt: t0 + 400_000 })
      yield* Effect.gen(function*() {
        const hls = yield* Hls
        const before = media((yield* hls.playlist(of)).text)
        files = files.slice(1)
        const text = (yield* hls.playlist(of)).text
        const after = media(text)
        assert.deepStrictEqual(after.segments.map((one) => one.uri), before.segments.map((one) => one.uri))
        assert.strictEqual(after.segments.filter((one) => one.gap).length, 150)
        assert.include(text, "#EXT-X-VERSION:8")
        assert.include(text, `#EXT-X-MAP:URI="i-${files[0]!.file.id}.mp4"`)
      }).pipe(Effect.provide(withFiles(() => files)))
    }))
})

describe("master playlists", () => {
  const masterOf = (files: ReadonlyArray<FootageFile>, of: HlsSource) =>
    Effect.gen(function*() {
      const hls = yield* Hls
      const { text } = yield* hls.master(of)
      const parsed = HlsParser.parse(text)
      if (!parsed.isMasterPlaylist) throw new Error("a media playlist where a master playlist should be")
      return { text, master: parsed }
    }).pipe(Effect.provide(withFiles(() => files)))

  it.effect("tell codecs, size, rates and the subtitles", () =>
    Effect.gen(function*() {
      const files = footage(t0, [{ kind: "groups", count: 30, groupMs: 2000 }], withSound("aac"))
      const { master, text } = yield* masterOf(files, source(t0, t0 + 60_000))
      const variant = master.variants[0]!
      assert.strictEqual(variant.codecs, "avc1.640028,mp4a.40.2")
      assert.deepStrictEqual({ ...variant.resolution! }, { width: 1920, height: 1080 })
      assert.strictEqual(variant.frameRate, 25)
      assert.strictEqual(variant.averageBandwidth, 600_000)
      assert.strictEqual(variant.bandwidth, 600_000)
      assert.strictEqual(variant.uri, "playlist.m3u8")
      assert.strictEqual(variant.subtitles[0]!.uri, "subtitle-playlist.m3u8")
      assert.include(text, "CLOSED-CAPTIONS=NONE")
    }))

  it.effect("offer pictures alone where browsers refuse the sound", () =>
    Effect.gen(function*() {
      const files = footage(t0, [{ kind: "groups", count: 30, groupMs: 2000 }], withSound("pcmu"))
      const { master } = yield* masterOf(files, source(t0, t0 + 60_000))
      assert.strictEqual(master.variants[0]!.codecs, "avc1.640028")
      const playlist = yield* playlistOf(files, source(t0, t0 + 60_000))
      assert.strictEqual(playlist.segments[0]!.map.uri, `iv-${files[0]!.file.id}.mp4`)
      assert.match(playlist.segments[0]!.uri, /^v-/)
    }))

  it.effect("fail while there is no footage", () =>
    Effect.gen(function*() {
      const error = yield* Effect.flip(masterOf([], source(t0, t0 + 60_000)))
      assert.strictEqual(error._tag, "FootageNotFound")
      assert.strictEqual(
        error.message,
        "There is no footage between 2026-03-01T12:00:00.000Z and 2026-03-01T12:01:00.000Z.",
      )
    }))
})

describe("fast playback", () => {
  it.effect("lists key pictures half as often as the screen could show them", () =>
    Effect.gen(function*() {
      const files = footage(t0, [{ kind: "groups", count: 300, groupMs: 1000 }])
      const playlist = yield* playlistOf(files, source(t0, t0 + 300_000, { speed: 16 }))
      assert.match(playlist.segments[0]!.uri, /^k2000-/)
      assert.closeTo(playlist.segments[0]!.duration, 16, 1e-6)
      assert.closeTo(playlist.segments.reduce((sum, one) => sum + one.duration, 0), 300, 1e-6)
    }))
})

describe("plans", () => {
  it("include the group before a start in mid-group, but never footage before a break", () => {
    const [file] = footage(t0, [{ kind: "groups", count: 2, groupMs: 4000 }, { kind: "gap", ms: 50 }, {
      kind: "groups",
      count: 1,
      groupMs: 4000,
    }])
    const table = FragmentTable.of(file!.entries)
    assert.deepStrictEqual(rowsWithin(table, t0 + 6_500, null), { from: 4, to: 12 })
    assert.deepStrictEqual(rowsWithin(table, t0 + 8_060, null), { from: 8, to: 12 })
    assert.deepStrictEqual(rowsWithin(table, t0 + 8_010, t0 + 8_020), { from: 8, to: 8 })
    assert.deepStrictEqual(rowsWithin(table, t0, t0 + 1), { from: 0, to: 1 })
  })
})
