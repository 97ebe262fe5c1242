/** Handlers of the camera group: from the contract to {@link Cameras} and {@link StreamAccess}, and nothing else. */
import { Cameras, StreamAccess } from "#actors/protocol/camera.ts"
import { RtspServer } from "#media/rtsp-server.ts"
import { WebRtc } from "#media/webrtc.ts"
import { type CameraFilter, CameraNotFound, type MediaPath, seenWithin } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { reach } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { liveHlsUrl, snapshotUrl } from "../contract/camera-live.ts"
import { whepPath } from "../contract/camera-webrtc.ts"
import { CameraGroup } from "../contract/camera.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { auditHidden } from "./http-audit.ts"

const base = "/camera/api/v1"
const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

/** On the host that the caller knows this node by; null where nothing listens. */
const rtspUrl = (
  host: string | undefined,
  port: number | null,
  { path, token }: Pick<MediaPath, "path" | "token">,
): string | null => {
  const name = /^(\[[0-9a-f:.]+\]|[\w.-]+)(?::\d+)?$/i.exec(host ?? "")?.[1]
  return name === undefined || port === null ? null : `rtsp://${name}:${port}/${path}?token=${token}`
}

export const CameraHandlers = HttpApiBuilder.group(
  nightjar.add(CameraGroup),
  "camera",
  Effect.fnUntraced(function*(handlers) {
    const cameras = yield* Cameras
    const streams = yield* StreamAccess
    const rtsp = yield* RtspServer
    const webRtc = yield* WebRtc
    const reached = Effect.map(CurrentPrincipal, (who) => reach(who, "camera:read"))
    const list = (filter: CameraFilter, query: Parameters<typeof pageRequest>[0]) =>
      Effect.flatMap(reached, (within) => cameras.list(filter, pageRequest(query), within))
    /** As much of the camera as the caller reaches. */
    const seen = (id: CameraId) =>
      Effect.gen(function*() {
        const camera = yield* cameras.get(id)
        const within = seenWithin(camera, yield* reached)
        if (within !== null) return within
        yield* auditHidden(yield* CurrentPrincipal)
        return yield* new CameraNotFound({ id })
      })
    return handlers
      .handle("cameras", ({ query }) =>
        list({
          ...(query.driver === undefined ? {} : { driver: query.driver }),
          ...(query.enabled === undefined ? {} : { enabled: query.enabled === "true" }),
        }, query))
      .handle(
        "addCamera",
        ({ payload }) => Effect.map(cameras.create(payload), (made) => createdAt(`${base}/cameras/${made.id}`, made)),
      )
      .handle("searchCameras", ({ query }) =>
        list({
          ...(query.q === undefined ? {} : { text: query.q }),
          ...(query.tag === undefined ? {} : { tag: query.tag }),
        }, query))
      .handle("camerasByStatus", ({ params, query }) => list({ status: params.status }, query))
      .handle("reorderCameras", ({ payload }) => cameras.reorder(payload.ids))
      .handle("camera", ({ params }) => Effect.map(seen(params.id), withVersion))
      .handle("updateCamera", ({ headers, params, payload }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          Effect.map(cameras.update(params.id, payload, version), withVersion)))
      .handle("deleteCamera", ({ headers, params }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          cameras.remove(params.id, version)))
      .handle("channels", ({ params }) =>
        Effect.map(seen(params.id), (camera) =>
          whole(camera.channels)))
      .handle("addChannel", ({ params, payload }) =>
        Effect.map(cameras.addChannel(params.id, payload), (made) =>
          createdAt(`${base}/channels/${made.id}`, made)))
      .handle("channel", ({ params }) =>
        Effect.map(cameras.channel(params.channel_id), withVersion))
      .handle("updateChannel", ({ headers, params, payload }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          Effect.map(cameras.updateChannel(params.channel_id, payload, version), withVersion)))
      .handle("deleteChannel", ({ headers, params }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          cameras.removeChannel(params.channel_id, version)))
      .handle("toggleChannel", ({ headers, params, payload }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          Effect.map(cameras.toggleChannel(params.channel_id, payload.enabled ?? null, version), withVersion)))
      .handle("streams", ({ params }) =>
        Effect.map(cameras.streams(params.channel_id), whole))
      .handle("addStream", ({ params, payload }) =>
        Effect.map(cameras.addStream(params.channel_id, payload), (made) =>
          createdAt(`${base}/streams/${made.id}`, made)))
      .handle("stream", ({ params }) =>
        Effect.map(cameras.stream(params.stream_id), withVersion))
      .handle("updateStream", ({ headers, params, payload }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          Effect.map(cameras.updateStream(params.stream_id, payload, version), withVersion)))
      .handle("deleteStream", ({ headers, params }) =>
        Effect.flatMap(expectedVersion(headers), (version) =>
          cameras.removeStream(params.stream_id, version)))
      .handle("mediaPath", ({ params, request }) =>
        Effect.map(
          Effect.flatMap(currentUser, (who) => streams.mediaPath(params.stream_id, who)),
          (path) => ({
            ...path,
            rtspUrl: rtspUrl(request.headers["host"], rtsp.port(), path),
            liveHlsUrl: liveHlsUrl(path.streamId, path.token),
            snapshotUrl: snapshotUrl(path.streamId),
            whepUrl: webRtc.config().port === null ? null : whepPath(path.streamId),
          }),
        ))
      .handle("refreshStreamToken", ({ params }) =>
        Effect.flatMap(currentUser, (who) =>
          streams.token(params.stream_id, who)))
  }),
)
