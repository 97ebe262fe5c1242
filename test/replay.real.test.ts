/** Foreign players read replay over a real socket: ffprobe and GStreamer count the pictures that were recorded. */
import { serverLayer } from "#http/server.ts"
import { Storage } from "#media/storage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { memoryIdempotency, namedTokens, noAuth, serverOptions, testHealth, unaskedServices } from "./http-fixtures.ts"
import { record, type Recorded, type Run, temporaryStorage } from "./media/recorded.ts"
import { missing } from "./peers/installed.ts"
import { replayServices } from "./replay-fixtures.ts"

const run = promisify(execFile)
const t0 = Date.parse("2026-03-01T12:00:00.000Z")

/** A node's HTTP floor on a free port of this machine, with these runs recorded; gives the URL of a session. */
const serving = <A>(runs: ReadonlyArray<Run>, speed: number, use: (master: string, footage: Recorded) => Promise<A>) =>
  Effect.gen(function*() {
    const storage = yield* Storage
    const footage = yield* record(storage, t0, runs)
    const built = yield* replayServices(storage, footage)
    const server = yield* Layer.build(
      serverLayer(serverOptions).pipe(
        Layer.provide(Layer.succeedContext(built)),
        Layer.provide([namedTokens, noAuth, memoryIdempotency, testHealth, unaskedServices]),
      ),
    )
    const { address } = yield* HttpServer.HttpServer.pipe(Effect.provideContext(server))
    if (address._tag === "UnixPathAddress") throw new Error("not on TCP")
    const base = `http://127.0.0.1:${address.port}`
    return yield* Effect.promise(async () => {
      const response = await fetch(`${base}/replay/api/v1/replay/uri`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer viewer" },
        body: JSON.stringify({
          recordingToken: footage.identity.recordingToken,
          start: new Date(footage.startMs).toISOString(),
          end: new Date(footage.endMs).toISOString(),
          speed,
        }),
      })
      const { uri } = await response.json() as { uri: string }
      return use(base + uri, footage)
    })
  }).pipe(Effect.scoped, Effect.provide(temporaryStorage), Effect.provide(Logger.layer([])))

/** Packets of each stream as ffprobe's own HLS reader gets them. */
const probe = async (url: string) => {
  const { stdout } = await run("ffprobe", [
    ...[
      "-v",
      "error",
      "-count_packets",
      "-show_entries",
      "stream=codec_name,nb_read_packets,width,height",
      "-of",
      "json",
      url,
    ],
  ])
  const { streams } = JSON.parse(stdout) as {
    streams: Array<{ codec_name: string; nb_read_packets: string; width?: number; height?: number }>
  }
  return streams.map((stream) => ({
    codec: stream.codec_name,
    packets: Number(stream.nb_read_packets),
    width: stream.width,
  }))
}

/** Pictures that come out of a GStreamer HLS reader. */
const gstPictures = async (url: string, parser: string) => {
  const { stdout } = await run("gst-launch-1.0", [
    ...["-v", "souphttpsrc", `location=${url}`, "!", "hlsdemux", "!", "qtdemux", "name=demux"],
    ...[
      "demux.video_0",
      "!",
      "queue",
      "!",
      parser,
      "!",
      "identity",
      "name=count",
      "silent=false",
      "!",
      "fakesink",
      "sync=false",
    ],
  ], { maxBuffer: 1 << 28, timeout: 120_000 })
  return stdout.split("\n").filter((line) => line.includes("count: last-message = chain")).length
}

const h264: Run = { video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 60, afterMs: 0 }
const h265: Run = { video: "main-640x360-25.h265", audio: "tone-8000.pcma", seconds: 30, afterMs: 0 }
const withoutFfmpeg = missing("ffmpeg")
const withoutGst = missing("gstreamer")

describe.skipIf(withoutFfmpeg.length > 0)(
  `ffprobe reads replay${withoutFfmpeg.length > 0 ? " (skipped: ffmpeg is not installed)" : ""}`,
  () => {
    it.live("H.264 with AAC, every picture, over gaps and a restart", () =>
      serving(
        [h264, { ...h264, afterMs: 0 }, { ...h264, afterMs: 90_000 }, { ...h264, afterMs: 30_000, restarted: true }],
        1,
        async (master, footage) => {
          const streams = await probe(master)
          assert.deepInclude(
            streams.find((stream) => stream.codec === "h264"),
            { packets: footage.pictures, width: 640 },
          )
          assert.isAbove(streams.find((stream) => stream.codec === "aac")!.packets, 3_700)
        },
      ))

    it.live("H.265 with G.711: every picture, no sound", () =>
      serving([h265, { ...h265, afterMs: 5_000 }], 1, async (master, footage) => {
        const streams = (await probe(master)).filter((stream) => stream.codec !== "webvtt")
        assert.deepStrictEqual(streams.map(({ codec, packets }) => ({ codec, packets })), [{
          codec: "hevc",
          packets: footage.pictures,
        }])
      }))

    it.live("key pictures alone for fast playback", () =>
      serving([h264], 16, async (master) => {
        const streams = (await probe(master)).filter((stream) => stream.codec !== "webvtt")
        assert.deepStrictEqual(streams.map(({ codec, packets }) => ({ codec, packets })), [{
          codec: "h264",
          packets: 30,
        }])
      }))
  },
)

describe.skipIf(withoutGst.length > 0)(
  `GStreamer reads replay${withoutGst.length > 0 ? " (skipped: GStreamer is not installed)" : ""}`,
  () => {
    it.live("H.264, every picture, over a gap", () =>
      serving([h264, { ...h264, afterMs: 90_000 }], 1, async (master, footage) => {
        assert.strictEqual(await gstPictures(master.replace("master", "playlist"), "h264parse"), footage.pictures)
      }))

    it.live("H.265 with its sound hidden, every picture", () =>
      serving([h265], 1, async (master, footage) => {
        assert.strictEqual(await gstPictures(master.replace("master", "playlist"), "h265parse"), footage.pictures)
      }))
  },
)
