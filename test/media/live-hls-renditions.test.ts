/** Two variants of one live session: on one media time, opened and let go by who asks, told of in each other's playlist. */
import { moveFragment } from "#media/fmp4.ts"
import { readFragmentUnits } from "#media/fmp4/fragment-reader.ts"
import type { LiveSession, LiveVariantName } from "#media/live-hls.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Schema } from "effect"
import { TestClock } from "effect/testing"
import * as HlsParser from "hls-parser"
import { camera } from "./access-units.ts"
import { liveStage, settled } from "./live-hls-stage.ts"

HlsParser.setOptions({ silent: true })

const startMs = 1_795_262_400_000
const film = (video: string, more: Partial<Parameters<typeof camera>[0]> = {}) =>
  camera({ video, audio: "tone-16000.aac", seconds: 8, startMs, ...more })
const mainFilm = (more: Partial<Parameters<typeof camera>[0]> = {}) => film("main-640x360-25.h264", more)
/** A clock of its own. */
const subFilm = (more: Partial<Parameters<typeof camera>[0]> = {}) =>
  film("sub-320x180-10.h264", { videoTicks: 7_777_777, audioTicks: 55_555, startMs: startMs + 1_300, ...more })

interface Media {
  readonly discontinuitySequenceBase: number
  readonly targetDuration: number
  readonly segments: ReadonlyArray<
    {
      readonly uri: string
      readonly mediaSequenceNumber: number
      readonly discontinuity: boolean
      readonly programDateTime: Date
    }
  >
  readonly renditionReports: ReadonlyArray<
    { readonly uri: string; readonly lastMSN: number; readonly lastPart: number }
  >
}

const read = (session: LiveSession, variant: LiveVariantName) =>
  Effect.map(session.playlist(null, variant), (found) => {
    const { text } = found!
    return { text, media: HlsParser.parse(text) as unknown as Media }
  })

/** Media time less wall clock, milliseconds, of the pictures and of the sound of each listed segment. */
const mapping = (session: LiveSession, variant: LiveVariantName) =>
  Effect.gen(function*() {
    const { media } = yield* read(session, variant)
    const found: Array<{ readonly video: number; readonly audio: number }> = []
    for (const { programDateTime, uri } of media.segments) {
      if (uri === "") continue
      const file = (yield* session.file(uri))!
      const units = readFragmentUnits(file.pieces[0]!)!
      const at = (track: "video" | "audio", hz: number) =>
        units.find((unit) => unit.track === track)!.decodeTicks * 1000 / hz - programDateTime.getTime()
      found.push({ video: at("video", 90_000), audio: at("audio", 16_000) })
    }
    assert.isNotEmpty(found)
    return found
  })

/** A session whose second variant is open. */
const both = Effect.gen(function*() {
  const stage = yield* liveStage()
  stage.sub.parameters(subFilm().parameters)
  const session = yield* stage.open
  stage.feed(mainFilm())
  yield* settled
  yield* session.master("/x/")
  const asked = yield* Effect.forkScoped(session.playlist(null, "second"))
  yield* settled
  stage.feed(subFilm(), stage.sub)
  yield* Fiber.join(asked)
  return { stage, session }
})

describe("the second variant of a live session", () => {
  it.effect("is told of in the master, and costs nothing before it is asked for", () =>
    Effect.gen(function*() {
      const stage = yield* liveStage()
      stage.sub.parameters(subFilm().parameters)
      const session = yield* stage.open
      stage.feed(mainFilm())
      yield* settled
      const { variants } = HlsParser.parse((yield* session.master("/x/")).text) as unknown as {
        readonly variants: ReadonlyArray<
          { uri: string; bandwidth: number; codecs: string; resolution: { width: number; height: number } }
        >
      }
      assert.deepStrictEqual(variants.map(({ resolution, uri }) => [uri, resolution.width, resolution.height]), [
        ["/x/live.m3u8", 640, 360],
        ["/x/other.m3u8", 320, 180],
      ])
      for (const { codecs } of variants) assert.match(codecs, /^avc1\.[0-9a-f]{6},mp4a\.40\.2$/i)
      assert.isAbove(variants[0]!.bandwidth, variants[1]!.bandwidth)
      assert.notInclude((yield* read(session, "first")).text, "RENDITION-REPORT")
      assert.isNull(yield* session.file("other-1-init-1.mp4"))
      assert.strictEqual(stage.sub.viewers(), 0)
    }).pipe(Effect.scoped))

  it.effect("is not offered where nothing is known of it, nor where its codecs are others", () =>
    Effect.gen(function*() {
      for (const audio of [null, "tone-8000.pcma"]) {
        const stage = yield* liveStage()
        if (audio !== null) stage.sub.parameters(subFilm({ audio }).parameters)
        const session = yield* stage.open
        stage.feed(mainFilm())
        yield* settled
        assert.notInclude((yield* session.master("/x/")).text, "other.m3u8")
        assert.isNull(yield* session.playlist(null, "second"))
        assert.strictEqual(stage.sub.viewers(), 0)
      }
    }).pipe(Effect.scoped))

  it.effect("has the media time of the first, and each reports where the other is", () =>
    Effect.gen(function*() {
      const { session } = yield* both
      const times = [...yield* mapping(session, "first"), ...yield* mapping(session, "second")]
      for (const { audio, video } of times) {
        assert.closeTo(video, times[0]!.video, 30)
        // A frame of sound begins where the picture does or a little later.
        assert.closeTo(audio, times[0]!.video, 130)
      }
      const [first, second] = [yield* read(session, "first"), yield* read(session, "second")]
      for (const [{ media }, other, uri] of [[first, second, "other.m3u8"], [second, first, "live.m3u8"]] as const) {
        assert.strictEqual(media.renditionReports.length, 1)
        const newest = other.media.segments.at(-1)!
        const parts = other.text.slice(other.text.lastIndexOf("#EXT-X-PROGRAM-DATE-TIME")).match(/#EXT-X-PART:/g)!
        assert.deepInclude(media.renditionReports[0], {
          uri,
          lastMSN: newest.mediaSequenceNumber,
          lastPart: parts.length - 1,
        })
      }
      assert.strictEqual(first.media.targetDuration, second.media.targetDuration)
    }).pipe(Effect.scoped))

  it.effect("counts the discontinuities of both, and keeps the media time across them", () =>
    Effect.gen(function*() {
      const { session, stage } = yield* both
      // The first breaks alone; then both, the second one first.
      stage.hub.end()
      stage.feed(mainFilm({ startMs: startMs + 12_000, videoTicks: 5 }))
      yield* settled
      stage.feed(
        subFilm({ startMs: startMs + 9_300, videoTicks: 7_777_777 + 8 * 90_000, audioTicks: 55_555 + 8 * 16_000 }),
        stage.sub,
      )
      yield* settled
      stage.sub.end()
      stage.hub.end()
      stage.feed(subFilm({ startMs: startMs + 27_000, videoTicks: 1 }), stage.sub)
      yield* settled
      stage.feed(mainFilm({ startMs: startMs + 26_000, videoTicks: 9 }))
      yield* settled
      const count = ({ media }: { readonly media: Media }) =>
        media.discontinuitySequenceBase + media.segments.slice(1).filter(({ discontinuity }) => discontinuity).length
      assert.strictEqual(count(yield* read(session, "first")), 2)
      assert.strictEqual(count(yield* read(session, "second")), 2)
      const [first, second] = [yield* mapping(session, "first"), yield* mapping(session, "second")]
      assert.closeTo(first.at(-1)!.video, second.at(-1)!.video, 30)
    }).pipe(Effect.scoped))

  it.effect("is let go when nobody asks for it while the first is watched, and has other names when it comes again", () =>
    Effect.gen(function*() {
      const { session, stage } = yield* both
      assert.strictEqual(stage.sub.viewers(), 1)
      assert.isNotNull(yield* session.file("other-1-init-1.mp4"))
      for (let i = 0; i < 3; i++) {
        yield* TestClock.adjust(9_000)
        assert.isNotNull(stage.live.session(session.id))
      }
      assert.strictEqual(stage.sub.viewers(), 0)
      assert.notInclude((yield* read(session, "first")).text, "RENDITION-REPORT")
      assert.isNull(yield* session.file("other-1-init-1.mp4"))
      const again = yield* Effect.forEach([1, 2], () => Effect.forkScoped(session.playlist(null, "second")))
      yield* settled
      stage.feed(subFilm({ startMs: startMs + 9_000 }), stage.sub)
      for (const one of again) assert.include((yield* Fiber.join(one))!.text, `URI="other-2-init-1.mp4"`)
      assert.strictEqual(stage.sub.viewers(), 1)
      assert.isNull(yield* session.file("other-1-init-1.mp4"))
      assert.isNotNull(yield* session.file("other-2-init-1.mp4"))
      stage.holder.allowed = false
      yield* TestClock.adjust(500)
      assert.deepStrictEqual([stage.sub.viewers(), stage.hub.viewers()], [0, 0])
    }).pipe(Effect.scoped))
})

describe("moving a fragment", () => {
  it.effect.prop("leaves any other bytes as they are", [Schema.Uint8Array], ([bytes]) =>
    Effect.sync(() => {
      const before = Uint8Array.from(bytes)
      moveFragment(bytes, 900, 16_000)
      assert.deepStrictEqual(bytes, before)
    }))
})
