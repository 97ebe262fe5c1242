/** The picture of a mail: a JPEG where this machine decodes, otherwise a file that a foreign decoder reads. */
import * as Snapshot from "#actors/behaviour/notification-snapshot.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { Snapshots } from "#actors/protocol/notification-rules.ts"
import { type LiveItem, LiveStreams } from "#media/hub.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { type StillError, StillFailed, Stills, StillSilent, StillUnsupported } from "#media/still.ts"
import * as StillsLive from "#media/still/live.ts"
import { StreamId } from "#schema/common.ts"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import { execFileSync } from "node:child_process"
import { camera } from "./media/access-units.ts"
import { missing } from "./peers/installed.ts"

const lacking = missing("ffmpeg")
const streamId = StreamId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a05")
const cameraId = "0190163d-8694-7395-8ad4-5b8a3f3d0a06"

/** One camera, whose hub gives these items once. */
const doors = (items: ReadonlyArray<LiveItem> | null) =>
  Layer.mergeAll(
    Layer.succeed(
      Cameras,
      {
        channels: () => Effect.succeed([{ streams: [{ id: streamId, role: "main" }] }]),
      } as unknown as Cameras["Service"],
    ),
    Layer.succeed(LiveStreams, {
      parameters: () => null,
      watch: () =>
        Effect.sync(() => {
          let given = false
          return items === null ? null : {
            take: Effect.suspend(() => {
              if (given) return Effect.never
              given = true
              return Effect.succeed(items)
            }),
            dropped: () => 0,
          }
        }),
    }),
  )

/** A machine that cannot decode, for this reason. */
const without = (error: StillError) => Layer.succeed(Stills, { newest: () => Effect.fail(error) })
const noDecoder = without(new StillUnsupported({ reason: "no such package" }))

/** A decoder that has started, which takes long on a busy machine, and knows the picture. */
const decoding = (items: ReadonlyArray<LiveItem>) =>
  Effect.gen(function*() {
    const supervisor = Layer.mock(RecorderSupervisor, {
      status: () => null,
      statuses: () => [],
      gaps: () => [],
      secrets: null as never,
    })
    const context = yield* Layer.build(StillsLive.layer().pipe(Layer.provide(supervisor), Layer.provide(doors(items))))
    const stills = Context.get(context, Stills)
    yield* Effect.retry(stills.newest(streamId, 1280), { times: 3 })
    return Layer.succeed(Stills, stills)
  })

const newest = (items: ReadonlyArray<LiveItem> | null, stills: Layer.Layer<Stills, never, LiveStreams> = noDecoder) =>
  Effect.gen(function*() {
    const given = doors(items)
    const context = yield* Layer.build(Snapshot.layer.pipe(Layer.provide(stills), Layer.provide(given)))
    return yield* Context.get(context, Snapshots).newest([{ kind: "camera", id: cameraId }])
  })

const filmed = () => {
  const { parameters, units } = camera({
    video: "main-640x360-25.h264",
    audio: "tone-16000.aac",
    seconds: 2,
    startMs: 1_795_262_400_000,
    videoTicks: 4_000_000,
    audioTicks: 9_999,
  })
  return [{ _tag: "Parameters" as const, parameters }, ...units.map((unit) => ({ _tag: "Unit" as const, unit }))]
}

it.live.skipIf(lacking.length > 0)(
  `is a file that players show for a second, and a JPEG of its size${lacking.length > 0 ? " (needs ffmpeg)" : ""}`,
  () =>
    Effect.gen(function*() {
      const file = yield* newest(filmed())
      assert.deepInclude(file!, { filename: "picture.mp4", contentType: "video/mp4" })
      const probed = execFileSync("ffprobe", [
        "-v",
        "error",
        "-count_frames",
        "-show_entries",
        "stream=codec_name,width,height,nb_read_frames:format=duration",
        "-of",
        "default=noprint_wrappers=1",
        "pipe:0",
      ], { input: file!.content }).toString()
      for (const expected of ["codec_name=h264", "width=640", "height=360", "nb_read_frames=2"]) {
        assert.include(probed, expected)
      }
      // Fresh for as long as the slowest decoder takes.
      const fresh = filmed().map((item) =>
        item._tag === "Unit" ? { ...item, unit: { ...item.unit, arrivalMs: Date.now() + 60_000 } } : item
      )
      const decoded = yield* newest(fresh, yield* decoding(fresh))
      assert.deepInclude(decoded!, { filename: "picture.jpg", contentType: "image/jpeg" })
      const size = execFileSync("ffprobe", [
        "-v",
        "error",
        "-show_entries",
        "stream=codec_name,width,height",
        "-of",
        "csv=p=0",
        "pipe:0",
      ], { input: decoded!.content }).toString().trim()
      assert.strictEqual(size, "mjpeg,640,360")
      const failed = yield* newest(filmed(), without(new StillFailed({ reason: "a broken picture" })))
      assert.strictEqual(failed!.filename, "picture.mp4")
      // A decoder that takes too long.
      const late = yield* newest(filmed(), Layer.succeed(Stills, { newest: () => Effect.never }))
      assert.strictEqual(late!.filename, "picture.mp4")
      assert.isNull(yield* newest(filmed(), without(new StillSilent())))
    }).pipe(Effect.scoped),
)

it.live(
  "is none where nothing comes in time, the stream is elsewhere, or nothing names a camera",
  () =>
    Effect.gen(function*() {
      assert.strictEqual(yield* newest(null), null)
      // Sound alone is no picture.
      assert.strictEqual(yield* newest(filmed().slice(0, 1)), null)
      const context = yield* Layer.build(Snapshot.layer.pipe(Layer.provide([noDecoder, doors(filmed())])))
      assert.strictEqual(yield* Context.get(context, Snapshots).newest([]), null)
    }).pipe(Effect.scoped),
  40_000,
)
