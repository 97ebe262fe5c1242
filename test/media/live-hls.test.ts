/** Live HLS on a clock of the test's own: what its playlists say is what its files hold, and nothing outlives its reason. */
import { type LiveSession, soundRefusal } from "#media/live-hls.ts"
import { parseLiveName } from "#media/live-hls/playlist.ts"
import { Window } from "#media/live-hls/window.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as HlsParser from "hls-parser"
import { camera } from "./access-units.ts"
import { liveStage, settled, streamId, unknownId } from "./live-hls-stage.ts"

// It counts three segments where the RFC counts three target durations (4.4.4.9), and prints it.
HlsParser.setOptions({ silent: true })

const startMs = 1_795_262_400_000
const film = (seconds: number, more: Partial<Parameters<typeof camera>[0]> = {}) =>
  camera({ video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds, startMs, ...more })

type Playlist = Extract<ReturnType<typeof HlsParser.parse>, { readonly isMasterPlaylist?: false }>
const parsed = (text: string) =>
  HlsParser.parse(text) as unknown as {
    readonly segments: ReadonlyArray<
      {
        readonly uri: string
        readonly duration: number
        readonly mediaSequenceNumber: number
        readonly discontinuity: boolean
        readonly programDateTime: Date | null
        readonly map: { readonly uri: string } | null
        readonly parts: ReadonlyArray<{ uri: string; duration: number; independent: boolean; hint: boolean }>
      }
    >
    readonly targetDuration: number
    readonly partTargetDuration: number
    readonly lowLatencyCompatibility: { readonly canBlockReload: boolean; readonly partHoldBack: number }
    readonly endlist: boolean
  } satisfies Partial<Record<keyof Playlist, unknown>>

const bytesOf = (session: LiveSession, name: string) =>
  Effect.map(session.file(name), (file) => file === null ? null : Buffer.concat(file.pieces))

/** Contents of the `mdat` boxes, one behind the other. */
const mediaIn = (fragments: Buffer): Buffer => {
  const found: Array<Buffer> = []
  for (let at = 0; at < fragments.length; at += fragments.readUInt32BE(at)) {
    if (fragments.toString("latin1", at + 4, at + 8) === "mdat") {
      found.push(fragments.subarray(at + 8, at + fragments.readUInt32BE(at)))
    }
  }
  return Buffer.concat(found)
}

describe("a live playlist", () => {
  it.effect("is what its parser's author takes it for, and its parts are its segments", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(12))
      yield* settled
      const master = (yield* session.master("/live/x/")).text
      assert.match(
        master,
        /^#EXT-X-STREAM-INF:BANDWIDTH=\d+,AVERAGE-BANDWIDTH=\d+,CODECS="avc1\.[0-9a-f]{6},mp4a\.40\.2"/im,
      )
      assert.include(master, "RESOLUTION=640x360")
      assert.include(master, "\n/live/x/live.m3u8\n")

      const playlist = parsed((yield* session.playlist(null, "first"))!.text)
      assert.deepInclude(playlist.lowLatencyCompatibility, { canBlockReload: true })
      assert.strictEqual(playlist.partTargetDuration, 0.4)
      assert.isAtLeast(playlist.lowLatencyCompatibility.partHoldBack, 1.2)
      const whole = playlist.segments.filter(({ uri }) => uri !== "")
      assert.isAtLeast(whole.length, 4)
      let last = startMs - 1
      for (const segment of whole) {
        assert.isAtMost(Math.round(segment.duration), playlist.targetDuration)
        assert.isAbove(segment.programDateTime!.getTime(), last)
        last = segment.programDateTime!.getTime()
        const bytes = (yield* bytesOf(session, segment.uri))!
        const parts = segment.parts.filter(({ hint }) => !hint)
        if (parts.length === 0) continue
        const pieces = yield* Effect.forEach(parts, ({ uri }) => bytesOf(session, uri))
        assert.isTrue(Buffer.concat(pieces as Array<Buffer>).equals(bytes), "parts tile their segment")
        assert.closeTo(parts.reduce((sum, { duration }) => sum + duration, 0), segment.duration, 0.001)
        assert.isTrue(parts[0]!.independent)
        for (const { duration } of parts) assert.isAtMost(duration, playlist.partTargetDuration)
        for (const { duration } of parts.slice(0, -1)) assert.isAtLeast(duration, 0.85 * playlist.partTargetDuration)
      }
      const numbers = whole.map(({ mediaSequenceNumber }) => mediaSequenceNumber)
      assert.deepStrictEqual(numbers, numbers.map((_, i) => numbers[0]! + i))
      const hints = playlist.segments.flatMap(({ parts }) => parts.filter(({ hint }) => hint))
      assert.strictEqual(hints.length, 1)
      assert.isNotNull(yield* bytesOf(session, playlist.segments[0]!.map!.uri))
    }).pipe(Effect.scoped))

  it.effect("loses no picture on the way", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      const { parameters, units } = camera({ video: "main-640x360-25.h264", seconds: 8, startMs })
      stage.feed({ parameters, units })
      yield* settled
      const { segments } = parsed((yield* session.playlist(null, "first"))!.text)
      const all = yield* Effect.forEach(
        segments.flatMap(({ parts, uri }) =>
          uri === "" ? parts.filter(({ hint }) => !hint).map((part) => part.uri) : [uri]
        ),
        (uri) => bytesOf(session, uri),
      )
      const sent = Buffer.concat(units.slice(units.findIndex(({ key }) => key)).map(({ data }) => data))
      const got = mediaIn(Buffer.concat(all as Array<Buffer>))
      assert.isAbove(got.length, sent.length * 0.8)
      assert.isTrue(sent.subarray(0, got.length).equals(got))
    }).pipe(Effect.scoped))

  it.effect("goes on after a new connection with a discontinuity, and after other parameters with another map", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(4))
      stage.hub.end()
      stage.feed(film(4, { startMs: startMs + 10_000, videoTicks: 77 }))
      stage.feed(film(4, { startMs: startMs + 14_000, video: "main-640x360-25.h265" }))
      yield* settled
      const text = (yield* session.playlist(null, "first"))!.text
      const { segments } = parsed(text)
      assert.strictEqual(segments.filter(({ discontinuity }) => discontinuity).length, 2)
      assert.deepStrictEqual(text.match(/#EXT-X-MAP:URI="init-\d+\.mp4"/g), [
        `#EXT-X-MAP:URI="init-1.mp4"`,
        `#EXT-X-MAP:URI="init-2.mp4"`,
      ])
      const second = segments.find(({ discontinuity }) => discontinuity)!
      assert.closeTo(second.programDateTime!.getTime(), startMs + 10_000, 300)
    }).pipe(Effect.scoped))

  it.effect("of G.711 offers the pictures alone and says why", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(3, { audio: "tone-8000.pcma" }))
      yield* settled
      const master = (yield* session.master("/")).text
      assert.include(master, soundRefusal("pcma")!)
      assert.notInclude(master, "alaw")
      assert.notInclude((yield* bytesOf(session, "init-1.mp4"))!.toString("latin1"), "soun")
      assert.isNull(soundRefusal("aac"))
    }).pipe(Effect.scoped))
})

describe("a blocking request", () => {
  it.effect("waits for its part, for the segment, for the part that was announced", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      const { parameters, units } = film(8)
      const [before, after] = [units.filter((unit) => unit.arrivalMs < startMs + 4_900), units]
      stage.feed({ parameters, units: before })
      yield* settled
      const { segments } = parsed((yield* session.playlist(null, "first"))!.text)
      const growing = segments.at(-1)!
      assert.strictEqual(growing.uri, "")
      const parts = growing.parts.filter(({ hint }) => !hint)
      const segment = growing.mediaSequenceNumber
      const waiting = yield* Effect.forkScoped(session.playlist({ segment, part: parts.length }, "first"))
      const whole = yield* Effect.forkScoped(session.playlist({ segment, part: null }, "first"))
      const beyond = yield* Effect.forkScoped(session.playlist({ segment, part: parts.length + 6 }, "first"))
      const hinted = growing.parts.find(({ hint }) => hint)!.uri
      const announced = yield* Effect.forkScoped(bytesOf(session, hinted))
      yield* settled
      for (const one of [waiting, whole, beyond]) assert.isUndefined(one.pollUnsafe())
      assert.isUndefined(announced.pollUnsafe())
      for (const unit of after.slice(before.length)) stage.hub.unit(unit)
      yield* settled
      const then = parsed((yield* Fiber.join(waiting))!.text).segments.find((one) =>
        one.mediaSequenceNumber === segment
      )!
      assert.isAbove(then.parts.length, parts.length)
      assert.notStrictEqual(
        parsed((yield* Fiber.join(whole))!.text).segments.find((one) => one.mediaSequenceNumber === segment)!.uri,
        "",
      )
      yield* Fiber.join(beyond)
      assert.isAbove((yield* Fiber.join(announced))!.length, 500)
    }).pipe(Effect.scoped))

  it.effect("for what is too far ahead is refused, and one for what never comes ends", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(5))
      yield* settled
      const { segments } = parsed((yield* session.playlist(null, "first"))!.text)
      const last = segments.findLast(({ uri }) => uri !== "")!.mediaSequenceNumber
      assert.strictEqual(
        (yield* Effect.flip(session.playlist({ segment: last + 3, part: null }, "first")))._tag,
        "LiveAhead",
      )
      assert.strictEqual(
        (yield* Effect.flip(session.playlist({ segment: last + 1, part: 99 }, "first")))._tag,
        "LiveAhead",
      )
      const waiting = yield* Effect.forkScoped(
        Effect.flip(session.playlist({ segment: last + 2, part: null }, "first")),
      )
      yield* TestClock.adjust(12_000)
      assert.strictEqual((yield* Fiber.join(waiting))._tag, "LiveSilent")
      assert.isNull(yield* session.file("part-99999.m4s"))
    }).pipe(Effect.scoped))
})

describe("a session", () => {
  it.effect("is opened for streams of this node alone, and shares one view of the hub", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const refused = yield* Effect.flip(stage.live.open(unknownId, { id: "x", holds: Effect.succeed(true) }, null))
      assert.strictEqual(refused._tag, "LiveUnknown")
      const sessions = yield* Effect.forEach([1, 2, 3], () => stage.open)
      assert.strictEqual(new Set(sessions.map(({ id }) => id)).size, 3)
      assert.deepStrictEqual([stage.told.views, stage.hub.viewers()], [1, 1])
      assert.deepStrictEqual(sessions.map((one) => one.streamId), [streamId, streamId, streamId])
    }).pipe(Effect.scoped))

  it.effect("ends with its holder's right, and takes its memory with it when it was the last", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(3))
      yield* settled
      stage.holder.allowed = false
      yield* TestClock.adjust(500)
      yield* session.ended
      assert.isNull(stage.live.session(session.id))
      assert.strictEqual(stage.hub.viewers(), 0)
    }).pipe(Effect.scoped))

  it.effect("ends when nobody asks, not while somebody does", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const { id } = yield* stage.open
      for (let i = 0; i < 6; i++) {
        yield* TestClock.adjust(15_000)
        assert.isNotNull(stage.live.session(id))
      }
      yield* TestClock.adjust(21_000)
      assert.isNull(stage.live.session(id))
      assert.strictEqual(stage.hub.viewers(), 0)
    }).pipe(Effect.scoped))

  it.effect("looks for a silent stream anew without ever letting it go, and tells the end of one that is gone", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      stage.feed(film(3))
      yield* settled
      const beat = Effect.andThen(Effect.sync(() => stage.live.session(session.id)), TestClock.adjust(10_000))
      yield* Effect.forEach([1, 2, 3, 4], () => beat)
      assert.deepStrictEqual([stage.told.views, stage.hub.viewers()], [2, 1])
      stage.told.gone = true
      yield* Effect.forEach([1, 2, 3], () => beat)
      assert.isTrue(parsed((yield* session.playlist(null, "first"))!.text).endlist)
      // Nobody waits for what will not come.
      yield* session.playlist({ segment: 1e12, part: 3 }, "first")
    }).pipe(Effect.scoped))

  it.effect("has a bound on what it has under way, and a holder one on his sessions", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      const session = yield* stage.open
      yield* Effect.forEach(Array.from({ length: 16 }), () => Effect.forkScoped(session.playlist(null, "first")))
      yield* settled
      assert.strictEqual((yield* Effect.flip(session.playlist(null, "first")))._tag, "LiveBusy")
      const exits = yield* Effect.forEach(Array.from({ length: 140 }), () => Effect.exit(stage.open))
      assert.strictEqual(exits.filter(Exit.isSuccess).length, 127)
    }).pipe(Effect.scoped))
})

const Fragments = Schema.Array(Schema.Struct({
  key: Schema.Boolean,
  discontinuity: Schema.Boolean,
  durationTicks: Schema.Literals([3_600, 7_200, 36_000, 36_000, 36_000, 30_000, 500_000]),
  bytes: Schema.Literals([10, 500, 40_000]),
})).check(Schema.isMaxLength(400))

describe("the window", () => {
  it.effect.prop("holds what it may, numbered without holes", [Fragments], ([fragments]) =>
    Effect.sync(() => {
      const window = new Window(7)
      window.begin(new Uint8Array(3))
      const most = 200_000
      let wall = startMs
      for (const { bytes, ...fragment } of fragments) {
        window.add({ ...fragment, startMs: wall }, new Uint8Array(bytes), most)
        wall += fragment.durationTicks / 90
        const { segments } = window
        assert.isAtMost(window.bytes, most + 40_000)
        assert.strictEqual(window.bytes, segments.reduce((sum, one) => sum + one.bytes, 0))
        const first = segments[0]!
        segments.forEach((segment, i) => {
          assert.strictEqual(segment.number, first.number + i)
          assert.strictEqual(segment.whole, i < segments.length - 1)
          if (segment.parts.length > 1) assert.isAtMost(segment.ticks, 4.4 * 90_000)
        })
        const parts = segments.flatMap((segment) => segment.parts)
        parts.forEach((part, i) => {
          assert.strictEqual(part.number, window.partAhead - parts.length + i)
          assert.strictEqual(window.part(part.number), part)
        })
        assert.isNull(window.part(window.partAhead))
      }
    }))
})

describe("names", () => {
  it.effect.prop("are ours or nothing", [Schema.String], ([text]) =>
    Effect.sync(() => {
      const name = parseLiveName(text)
      if (name !== null) assert.match(text, /^(other-\d+-)?(init-\d+\.mp4|(segment|part)-\d+\.m4s)$/)
      assert.deepStrictEqual(parseLiveName(`part-${text.length}.m4s`), {
        opening: 0,
        kind: "part",
        number: text.length,
      })
    }))
})
