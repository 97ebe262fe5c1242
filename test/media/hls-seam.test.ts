/** Playlists of several holders as one, read by a parser of others (hls-parser). */
import { joinMaster, joinMedia } from "#media/hls-seam.ts"
import { assert, describe, it } from "@effect/vitest"
import { Result } from "effect"
import * as HlsParser from "hls-parser"

const file = (n: number) => `01890000-0000-7000-8000-00000000000${n}`
const media = (n: number, segments: number, options: { readonly type?: string; readonly ended?: boolean } = {}) =>
  [
    "#EXTM3U",
    `#EXT-X-VERSION:${options.type === "EVENT" ? 8 : 7}`,
    `#EXT-X-TARGETDURATION:${5 + n}`,
    "#EXT-X-MEDIA-SEQUENCE:0",
    `#EXT-X-PLAYLIST-TYPE:${options.type ?? "VOD"}`,
    "#EXT-X-INDEPENDENT-SEGMENTS",
    "#EXT-X-START:TIME-OFFSET=0.250,PRECISE=YES",
    `#EXT-X-MAP:URI="i-${file(n)}.mp4"`,
    `#EXT-X-PROGRAM-DATE-TIME:2026-11-21T10:0${n}:00.000Z`,
    ...Array.from({ length: segments }, (_, at) => `#EXTINF:4.00000,\na-${file(n)}-${at * 100}-100.m4s`),
    ...(options.ended === false ? [] : ["#EXT-X-ENDLIST"]),
    "",
  ].join("\n")

const whole = { grows: false, targetSeconds: 1 }
const joined = (parts: Parameters<typeof joinMedia>[0], options = whole) => Result.getOrThrow(joinMedia(parts, options))

describe("playlists over a seam", () => {
  it("are read as one, with a discontinuity and the initialization at the seam", () => {
    const { ended, text } = joined([
      { text: media(1, 2), prefix: "0-" },
      { text: media(2, 3), prefix: "1-" },
    ])
    assert.isTrue(ended)
    const playlist = HlsParser.parse(text) as HlsParser.types.MediaPlaylist
    assert.strictEqual(playlist.targetDuration, 7)
    assert.strictEqual(playlist.playlistType, "VOD")
    assert.deepStrictEqual(
      playlist.segments.map(({ discontinuity, map, uri }) => [uri, discontinuity === true, map?.uri]),
      [
        [`0-a-${file(1)}-0-100.m4s`, false, `0-i-${file(1)}.mp4`],
        [`0-a-${file(1)}-100-100.m4s`, false, `0-i-${file(1)}.mp4`],
        [`1-a-${file(2)}-0-100.m4s`, true, `1-i-${file(2)}.mp4`],
        [`1-a-${file(2)}-100-100.m4s`, false, `1-i-${file(2)}.mp4`],
        [`1-a-${file(2)}-200-100.m4s`, false, `1-i-${file(2)}.mp4`],
      ],
    )
    assert.strictEqual(playlist.segments[2]?.programDateTime?.toISOString(), "2026-11-21T10:02:00.000Z")
  })

  it("grow while the last part does, and only append", () => {
    const before = joined([{ text: media(1, 2), prefix: "0-" }, {
      text: media(2, 1, { type: "EVENT", ended: false }),
      prefix: "1-",
    }])
    const behind = joined([{ text: media(1, 2), prefix: "0-" }, {
      text: media(2, 2, { type: "EVENT", ended: false }),
      prefix: "1-",
    }])
    assert.isFalse(before.ended)
    assert.isTrue(behind.text.startsWith(before.text.trimEnd()))
    const growing = joined([{ text: media(1, 2, { ended: false }), prefix: "0-" }], { grows: true, targetSeconds: 12 })
    assert.include(growing.text, "#EXT-X-TARGETDURATION:12\n#EXT-X-MEDIA-SEQUENCE:0\n#EXT-X-PLAYLIST-TYPE:EVENT\n")
  })

  it("take no name from another node but that of a file", () => {
    for (const name of ["https://evil.test/a.m4s", "../x.m4s", "/a.m4s", "a b.m4s", "x.m4s?y=1"]) {
      const text = media(1, 1).replace(`a-${file(1)}-0-100.m4s`, name)
      assert.isTrue(Result.isFailure(joinMedia([{ text, prefix: "0-" }], whole)), name)
      const map = media(1, 1).replace(`i-${file(1)}.mp4`, name)
      assert.isTrue(Result.isFailure(joinMedia([{ text: map, prefix: "0-" }], whole)), name)
    }
    assert.isTrue(Result.isFailure(joinMedia([{ text: "<html>", prefix: "" }], whole)))
    const strange = media(1, 1).replace("#EXTINF", `#EXT-X-KEY:METHOD=AES-128,URI="https://evil.test/"\n#EXTINF`)
    assert.notInclude(joined([{ text: strange, prefix: "" }]).text, "evil")
  })

  it("have a master with the bandwidth of the largest and the codecs of all", () => {
    const master = (bandwidth: number, codecs: string) =>
      [
        "#EXTM3U",
        "#EXT-X-VERSION:7",
        `#EXT-X-STREAM-INF:BANDWIDTH=${bandwidth},AVERAGE-BANDWIDTH=${bandwidth},CODECS="${codecs}",RESOLUTION=640x360,FRAME-RATE=15.000`,
        "playlist.m3u8",
        "",
      ].join("\n")
    const parts = [{ text: master(1000, "avc1.64001f"), prefix: "0-" }, {
      text: master(3000, "avc1.64001f,mp4a.40.2"),
      prefix: "1-",
    }]
    const text = Result.getOrThrow(
      joinMaster(parts, { playlist: "playlist.m3u8", subtitles: "subtitle-playlist.m3u8" }),
    )
    const [variant] = (HlsParser.parse(text) as HlsParser.types.MasterPlaylist).variants
    assert.strictEqual(variant?.bandwidth, 3000)
    assert.strictEqual(variant?.codecs, "avc1.64001f,mp4a.40.2")
    assert.deepStrictEqual([variant?.resolution?.width, variant?.uri], [640, "playlist.m3u8"])
    assert.isTrue(Result.isFailure(joinMaster([{ text: media(1, 1), prefix: "" }], { playlist: "p", subtitles: "s" })))
  })
})
