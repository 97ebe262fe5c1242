/** Foreign players read replay over a real socket: ffprobe and GStreamer count the pictures that were recorded. */
import { assert, describe, it } from "@effect/vitest"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import type { Run } from "./media/recorded.ts"
import { missing } from "./peers/installed.ts"
import { serving } from "./replay-server.ts"

const run = promisify(execFile)

/** Packets of each stream as ffprobe's own HLS reader gets them. */
const probe = async (url: string) => {
  const shown = "-v error -count_packets -show_entries stream=codec_name,nb_read_packets,width,height -of json"
  const { stdout } = await run("ffprobe", [...shown.split(" "), url])
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
  const counted = `queue ! ${parser} ! identity name=count silent=false ! fakesink sync=false`
  const pipeline = `-v souphttpsrc location=${url} ! hlsdemux ! qtdemux name=demux demux.video_0 ! ${counted}`
  const { stdout } = await run("gst-launch-1.0", pipeline.split(" "), { maxBuffer: 1 << 28, timeout: 120_000 })
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
