/**
 * {@link Resources}: where things lie, asked of the slices that have them.
 *
 * Invariants
 * 1. A channel of another node is a channel by the id that it has here; what is recorded of it lies in that channel.
 * 2. Layouts and files are in groups by their ids; this release has none of either, so every one of them is unknown.
 */
import { FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { type Named, Resources } from "#actors/protocol/permission.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { CameraId, ChannelId, RecordingId, RecordingToken, ReplaySessionId, StreamId } from "#schema/common.ts"
import { resourceKey, type ResourceRef } from "#schema/permission.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { Recording } from "#schema/record-config.ts"
import { Effect, Layer, Schema } from "effect"

type Found = Effect.Effect<ReadonlyArray<ResourceRef> | null, DependencyUnavailable>

const camera = (id: CameraId): ResourceRef => ({ kind: "camera", id })
const channel = (id: ChannelId): ResourceRef => ({ kind: "channel", id })
const ofRecording = (recording: Recording): ReadonlyArray<ResourceRef> => [
  { kind: "recording", id: recording.id },
  channel(recording.channelId),
  camera(recording.cameraId),
]

const nothing = () => Effect.succeed(null)
/** The id as its own kind writes it; otherwise there is no such thing. */
const told = <S extends Schema.Decoder<unknown>>(schema: S, id: string, find: (id: S["Type"]) => Found): Found =>
  Schema.is(schema)(id) ? find(id) : nothing()

const ids = <S extends Schema.Decoder<unknown>>(
  resources: ReadonlyArray<ResourceRef>,
  kind: ResourceRef["kind"],
  schema: S,
): ReadonlyArray<S["Type"]> =>
  resources.flatMap((one) => one.kind === kind && Schema.is(schema)(one.id) ? [one.id as S["Type"]] : [])

const make = Effect.gen(function*() {
  const [cameras, federated, recordings, replays] = yield* Effect.all([
    Cameras,
    FederatedChannels,
    Recordings,
    Replays,
  ])

  /** Of another node, whose camera has no id here. */
  const elsewhere = (channels: Effect.Effect<{ readonly id: ChannelId } | null, DependencyUnavailable>): Found =>
    Effect.map(channels, (found) => found === null ? null : [channel(found.id)])
  const orElsewhere = (found: ReadonlyArray<ResourceRef> | null, other: () => Found): Found =>
    found === null ? other() : Effect.succeed(found)

  const place = (of: Parameters<typeof cameras.placeOf>[0]): Found =>
    Effect.map(
      cameras.placeOf(of),
      (found) => found === null ? null : [channel(found.channelId), camera(found.cameraId)],
    )
  const byToken = (token: RecordingToken): Found =>
    recordings.byToken(token).pipe(
      Effect.map(ofRecording),
      Effect.catchTag("RecordingNotFound", () => elsewhere(federated.byToken(token))),
    )

  const containing = ({ id, kind }: Named): Found => {
    switch (kind) {
      case "camera":
        return told(
          CameraId,
          id,
          (cameraId) =>
            Effect.map(cameras.missing([cameraId], []), (missing) => missing.size > 0 ? null : [camera(cameraId)]),
        )
      case "channel":
        return told(
          ChannelId,
          id,
          (channelId) =>
            Effect.flatMap(
              place({ channelId }),
              (found) => orElsewhere(found, () => elsewhere(federated.get(channelId))),
            ),
        )
      case "stream":
        return told(StreamId, id, (streamId) => place({ streamId }))
      case "recording":
        return told(
          RecordingId,
          id,
          (recordingId) =>
            recordings.get(recordingId).pipe(Effect.map(ofRecording), Effect.catchTag("RecordingNotFound", nothing)),
        )
      case "recordingToken":
        return told(RecordingToken, id, byToken)
      case "replaySession":
        return told(
          ReplaySessionId,
          id,
          (sessionId) =>
            replays.session(sessionId).pipe(
              Effect.flatMap((session) => byToken(session.recordingToken)),
              Effect.catchTag("ReplaySessionNotFound", nothing),
            ),
        )
      case "layout":
      case "file":
        return nothing()
    }
  }

  return Resources.of({
    containing,
    channelsOf: (id) =>
      Schema.is(CameraId)(id) ?
        cameras.channels(id).pipe(
          Effect.map((channels) => channels.map((one) => [channel(one.id), camera(id)])),
          Effect.catchTag("CameraNotFound", () => Effect.succeed([])),
        ) :
        Effect.succeed([]),
    unknown: Effect.fnUntraced(function*(resources) {
      const known = {
        camera: ids(resources, "camera", CameraId),
        channel: ids(resources, "channel", ChannelId),
        recording: ids(resources, "recording", RecordingId),
      }
      const missing = new Set([
        ...(yield* cameras.missing(known.camera, known.channel)),
        ...(yield* recordings.missing(known.recording)),
      ])
      const elsewhereToo = yield* federated.missing(known.channel.filter((id) => missing.has(resourceKey(channel(id)))))
      for (const id of known.channel) if (!elsewhereToo.has(id)) missing.delete(resourceKey(channel(id)))
      const there: Record<string, ReadonlyArray<string>> = known
      return resources.filter((one) => missing.has(resourceKey(one)) || there[one.kind]?.includes(one.id) !== true)
    }),
  })
})

export const layer = Layer.effect(Resources, make)
