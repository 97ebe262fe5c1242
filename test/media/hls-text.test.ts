/** WebVTT beside the pictures: the clock, the causes of gaps, the runs of a session. */
import { Hls } from "#media/hls.ts"
import { footage } from "#test/fixtures/footage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { media, source, t0, withFiles } from "./hls-made-up.ts"

describe("subtitle playlists", () => {
  it.effect("break where the pictures break", () =>
    Effect.gen(function*() {
      const files = footage(t0, [
        { kind: "groups", count: 60, groupMs: 2000 },
        { kind: "gap", ms: 90_000 },
        { kind: "groups", count: 60, groupMs: 2000 },
      ])
      const of = source(t0, files[0]!.file.endMs)
      const playlist = yield* Effect.gen(function*() {
        const hls = yield* Hls
        return media((yield* hls.subtitles(of)).text)
      }).pipe(Effect.provide(withFiles(() => files)))
      assert.deepStrictEqual(playlist.segments.map((one) => [one.duration, one.discontinuity ?? false]), [
        [60, false],
        [60, false],
        [60, true],
        [60, false],
      ])
      assert.isTrue(playlist.segments.every((one) => one.uri.startsWith("t-") && one.map === null))
    }))

  it.effect("show the clock of every second and the cause of a gap", () =>
    Effect.gen(function*() {
      const files = footage(t0 + 250, [
        { kind: "groups", count: 2, groupMs: 2000 },
        { kind: "gap", ms: 90_000 },
        { kind: "groups", count: 2, groupMs: 2000 },
      ])
      const of = source(t0, files[0]!.file.endMs)
      const hls = yield* Hls
      const { second } = yield* Effect.gen(function*() {
        const playlist = media((yield* hls.subtitles(of)).text)
        const text = yield* hls.resource(of, playlist.segments[1]!.uri)
        if (text.kind !== "text") throw new Error("not text")
        return { second: text }
      })
      assert.strictEqual(
        second.render([{ start: t0 + 4_250, end: t0 + 94_250, cause: "camera_offline" }]).split("\n").slice(0, 9).join(
          "\n",
        ),
        [
          "WEBVTT",
          "X-TIMESTAMP-MAP=MPEGTS:360000,LOCAL:00:00:00.000",
          "",
          "00:00:00.000 --> 00:00:04.000",
          "Nothing recorded for 1 min 30 s: camera offline",
          "",
          "00:00:00.000 --> 00:00:00.750",
          "2026-03-01 12:01:34 UTC",
          "",
        ].join("\n"),
      )
    }).pipe(Effect.provide(withFiles(() =>
      footage(t0 + 250, [
        { kind: "groups", count: 2, groupMs: 2000 },
        { kind: "gap", ms: 90_000 },
        { kind: "groups", count: 2, groupMs: 2000 },
      ])
    ))))

  it.effect("metadata lists the runs", () =>
    Effect.gen(function*() {
      const hls = yield* Hls
      const text = yield* hls.metadata(source(t0, t0 + 200_000), [{
        start: t0 + 4_000,
        end: t0 + 94_000,
        cause: "node_down",
      }])
      const cues = [...text.matchAll(/^(\S+) --> (\S+)\n(.*)$/gm)].map((
        match,
      ) => [match[1], match[2], JSON.parse(match[3]!)])
      assert.deepStrictEqual(cues, [
        ["00:00:00.000", "00:00:04.000", {
          start: "2026-03-01T12:00:00.000Z",
          end: "2026-03-01T12:00:04.000Z",
          gapBefore: null,
        }],
        ["00:00:04.000", "00:00:08.000", {
          start: "2026-03-01T12:01:34.000Z",
          end: "2026-03-01T12:01:38.000Z",
          gapBefore: { start: "2026-03-01T12:00:04.000Z", end: "2026-03-01T12:01:34.000Z", cause: "node_down" },
        }],
      ])
    }).pipe(Effect.provide(withFiles(() =>
      footage(t0, [{ kind: "groups", count: 2, groupMs: 2000 }, { kind: "restart", ms: 90_000 }, {
        kind: "groups",
        count: 2,
        groupMs: 2000,
      }])
    ))))
})
