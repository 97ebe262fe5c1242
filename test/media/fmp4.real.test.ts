/** Files as the storage writes them, read by ffprobe, ffmpeg and GStreamer. */
import { makeFragmentBuilder } from "#media/fmp4.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile, execFileSync } from "node:child_process"
import { promisify } from "node:util"
import { camera } from "./access-units.ts"
import { identityOf } from "./made-up-files.ts"
import { life, optionsIn, t0, temporary } from "./storage-life.ts"

const run = promisify(execFile)

const missing = (command: string): boolean => {
  try {
    execFileSync(command, [command === "ffprobe" ? "-version" : "--version"], { stdio: "ignore" })
    return false
  } catch {
    console.warn(`skipped: ${command} is not installed`)
    return true
  }
}

interface Footage {
  readonly video: string
  readonly audio: string
  readonly seconds?: number
}

/** Records footage through the storage; `use` gets the path of the sealed file. */
const recorded = <A>({ audio, seconds = 8, video }: Footage, use: (path: string) => Promise<A>) =>
  Effect.gen(function*() {
    const root = yield* temporary
    const { parameters, units } = camera({
      video,
      audio,
      seconds,
      startMs: t0,
      videoTicks: 4_000_000,
      audioTicks: 9_999,
    })
    return yield* life(optionsIn(root), (storage) =>
      Effect.gen(function*() {
        const writer = yield* storage.create(identityOf(1), parameters, { sequence: 0, startMs: t0 })
        const builder = makeFragmentBuilder({
          parameters,
          decodeTicks: 0,
          wallMs: (ticks) => t0 + (ticks - 4_000_000) / 90,
          onFragment: (fragment) => assert.isTrue(writer.append(fragment)),
        })
        for (const unit of units) builder.push(unit)
        builder.flush()
        const file = yield* writer.seal
        return yield* Effect.promise(() => use(storage.path(file)))
      }))
  })

interface Probed {
  readonly codec: string
  readonly tag: string
  readonly frames: number
  readonly start: number
  readonly seconds: number
}

/** Decodes everything; fails on anything ffprobe complains about. */
const probe = async (path: string): Promise<ReadonlyArray<Probed>> => {
  const entries = "stream=codec_name,codec_tag_string,nb_read_frames,start_time,duration"
  const { stderr, stdout } = await run("ffprobe", [
    "-v",
    "warning",
    "-count_frames",
    "-show_entries",
    entries,
    "-of",
    "json",
    path,
  ])
  assert.strictEqual(stderr.replaceAll(/^Guessed Channel Layout.*\n/gm, ""), "")
  const { streams } = JSON.parse(stdout) as { readonly streams: ReadonlyArray<Record<string, string>> }
  return streams.map((stream) => ({
    codec: stream["codec_name"]!,
    tag: stream["codec_tag_string"]!,
    frames: Number(stream["nb_read_frames"]),
    start: Number(stream["start_time"]),
    seconds: Number(stream["duration"]),
  }))
}

// With B-frames the first picture is shown one picture after the first frame of audio was taken: that frame is dropped.
const footage: ReadonlyArray<
  readonly [string, Footage, ReadonlyArray<readonly [codec: string, tag: string, frames: number]>]
> = [
  ["H.264 with AAC", { video: "main-640x360-25.h264", audio: "tone-16000.aac" }, [["h264", "avc1", 200], [
    "aac",
    "mp4a",
    125,
  ]]],
  ["H.264 with B-frames and AAC", { video: "bframes-320x180-25.h264", audio: "tone-16000.aac" }, [
    ["h264", "avc1", 200],
    ["aac", "mp4a", 124],
  ]],
  ["H.264 with G.711 µ-law", { video: "sub-320x180-10.h264", audio: "tone-8000.pcmu" }, [["h264", "avc1", 80], [
    "pcm_mulaw",
    "ulaw",
    400,
  ]]],
  ["H.265 with G.711 A-law", { video: "main-640x360-25.h265", audio: "tone-8000.pcma" }, [["hevc", "hvc1", 200], [
    "pcm_alaw",
    "alaw",
    400,
  ]]],
  ["H.265 with Opus", { video: "main-640x360-25.h265", audio: "tone-48000.opus" }, [["hevc", "hvc1", 200], [
    "opus",
    "Opus",
    400,
  ]]],
]

describe.skipIf(missing("ffprobe"))("ffprobe decodes every picture and frame of", () => {
  it.effect.each(footage)("%s", ([, what, expected]) =>
    recorded(what, async (path) => {
      const streams = await probe(path)
      assert.deepStrictEqual(streams.map(({ codec, frames, tag }) => [codec, tag, frames] as const), expected)
      // ffmpeg shows a stream with negative composition offsets later by its depth of reordering.
      for (const { seconds, start } of streams) {
        assert.closeTo(start, 0, 0.085)
        assert.closeTo(seconds, 8, 0.085)
      }
    }))
})

/** Buffers that pass a point of a pipeline. */
const countBuffers = async (pipeline: ReadonlyArray<string>): Promise<number> => {
  const { stdout } = await run("gst-launch-1.0", ["-v", ...pipeline], { maxBuffer: 1 << 26 })
  return stdout.split("\n").filter((line) => line.includes("chain ")).length
}

const decoders: ReadonlyArray<readonly [string, Footage, ReadonlyArray<string>, ReadonlyArray<string>]> = [
  ["H.264 with AAC", { video: "main-640x360-25.h264", audio: "tone-16000.aac" }, ["h264parse", "avdec_h264"], [
    "aacparse",
    "avdec_aac",
  ]],
  ["H.264 with B-frames and AAC", { video: "bframes-320x180-25.h264", audio: "tone-16000.aac" }, [
    "h264parse",
    "avdec_h264",
  ], ["aacparse", "avdec_aac"]],
  ["H.265 with G.711", { video: "main-640x360-25.h265", audio: "tone-8000.pcma" }, ["h265parse", "avdec_h265"], [
    "alawdec",
  ]],
  ["H.265 with Opus", { video: "main-640x360-25.h265", audio: "tone-48000.opus" }, ["h265parse", "avdec_h265"], [
    "opusparse",
    "opusdec",
  ]],
]

describe.skipIf(missing("gst-launch-1.0"))("GStreamer decodes every picture of", () => {
  it.effect.each(decoders)("%s", ([, what, video, audio]) =>
    recorded(what, async (path) => {
      const chain = (elements: ReadonlyArray<string>) => elements.flatMap((element) => ["!", element])
      const sink = ["!", "fakesink", "sync=false"]
      const front = ["filesrc", `location=${path}`, "!", "qtdemux", "name=d", "d.video_0"]
      const pictures = [...chain(video), "!", "identity", "silent=false", ...sink]
      const frames = ["d.audio_0", "!", "queue", ...chain(audio), ...sink]
      const count = await countBuffers([...front, ...pictures, ...frames])
      assert.strictEqual(count, 200)
    }))
})
