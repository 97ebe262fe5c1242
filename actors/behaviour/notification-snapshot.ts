/**
 * The newest picture of what an event happened to, for mails: the key picture that its camera sends just now.
 *
 * Invariants
 * 1. It takes {@link longestMs} at most and holds one group of pictures at most; the camera's connection is shared, not made anew,
 *    where it is recorded or watched.
 * 2. What comes is a JPEG where this machine can make one within {@link decodingMs}, otherwise the key picture itself as MP4 of one second.
 * 3. A camera that is away has no picture: nothing older is shown in its place.
 */
import { Cameras } from "#actors/protocol/camera.ts"
import { type Snapshot, Snapshots } from "#actors/protocol/notification-rules.ts"
import { initSegment, makeFragmentBuilder } from "#media/fmp4.ts"
import { LiveStreams } from "#media/hub.ts"
import { Stills } from "#media/still.ts"
import { CameraId, ChannelId, type StreamId } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { videoClockHz } from "#schema/media.ts"
import type { ResourceRef } from "#schema/permission.ts"
import { Effect, Layer } from "effect"

/** A camera sends a key picture every one to four seconds; where it is connected, the last one is at hand. The rest is decoding. */
const longestMs = 6_000
/** The rest is for the key picture, if the machine is too busy to decode it. */
const decodingMs = 4_000
/** Pixels: mails are read on phones too. */
const widest = 1280
/** A group of pictures of 4K at 8 Mbit/s over four seconds. */
const bounds = { maxBytes: 8 << 20, maxItems: 512 }

/** One picture as a file: it lasts a second, or players show nothing. */
export const pictureFile = (parameters: TrackParameters, unit: AccessUnit): Uint8Array => {
  const video = { ...parameters, audio: null }
  const parts: Array<Uint8Array> = [initSegment(video)]
  const builder = makeFragmentBuilder({
    parameters: video,
    decodeTicks: 0,
    wallMs: (ticks) => unit.arrivalMs + Math.round((ticks - unit.ticks) / (videoClockHz / 1000)),
    onFragment: ({ data, release }) => {
      parts.push(Buffer.from(data))
      release()
    },
  })
  builder.push(unit)
  builder.push({ ...unit, ticks: unit.ticks + videoClockHz })
  builder.flush()
  return Buffer.concat(parts)
}

const make = Effect.gen(function*() {
  const cameras = yield* Cameras
  const live = yield* LiveStreams
  const stills = yield* Stills

  /** The main stream of the channel, or of the camera's first one. */
  const streamOf = Effect.fnUntraced(function*(of: ReadonlyArray<ResourceRef>) {
    const channel = of.find(({ kind }) => kind === "channel")
    const camera = of.find(({ kind }) => kind === "camera")
    const found = channel !== undefined ?
      yield* cameras.channel(ChannelId.make(channel.id)) :
      camera !== undefined ?
      (yield* cameras.channels(CameraId.make(camera.id)))[0] :
      undefined
    return found?.streams.find(({ role }) => role === "main") ?? found?.streams[0] ?? null
  })

  const keyPicture = Effect.fnUntraced(function*(id: StreamId) {
    const view = yield* live.watch(id, bounds)
    if (view === null) return null
    let parameters: TrackParameters | null = null
    while (true) {
      for (const item of yield* view.take) {
        if (item._tag === "Parameters") parameters = item.parameters
        if (item._tag !== "Unit" || item.unit.track !== "video" || !item.unit.key || parameters === null) continue
        return pictureFile(parameters, item.unit)
      }
    }
  })

  /** `missing`: there is no picture; `undecoded`: there may be one, but no JPEG of it. */
  const decoded = (id: StreamId) =>
    stills.newest(id, widest).pipe(
      Effect.map(({ jpeg }): Uint8Array | "missing" | "undecoded" => jpeg),
      Effect.timeoutOrElse({ duration: decodingMs, orElse: () => Effect.succeed("undecoded" as const) }),
      Effect.catchTags({
        StillUnknown: () => Effect.succeed("missing" as const),
        StillSilent: () => Effect.succeed("missing" as const),
        StillUnsupported: () => Effect.succeed("undecoded" as const),
        StillFailed: () => Effect.succeed("undecoded" as const),
        StillBusy: () => Effect.succeed("undecoded" as const),
      }),
    )

  const picture = Effect.fnUntraced(function*(of: ReadonlyArray<ResourceRef>) {
    const stream = yield* streamOf(of)
    const jpeg = stream === null ? "missing" : yield* decoded(stream.id)
    if (stream === null || jpeg === "missing") return null
    if (jpeg !== "undecoded") {
      return { filename: "picture.jpg", contentType: "image/jpeg", content: jpeg } satisfies Snapshot
    }
    const file = yield* Effect.scoped(keyPicture(stream.id))
    return file === null ?
      null :
      { filename: "picture.mp4", contentType: "video/mp4", content: file } satisfies Snapshot
  })

  const newest = (of: ReadonlyArray<ResourceRef>) =>
    picture(of).pipe(
      Effect.timeoutOption(longestMs),
      Effect.map((found) => found._tag === "Some" ? found.value : null),
      // A camera that was deleted meanwhile, or whose identifiers are another release's.
      Effect.catchCause((cause) => Effect.as(Effect.logDebug("There is no picture for a mail", cause), null)),
    )

  return { newest }
})

export const layer = Layer.effect(Snapshots, make)
