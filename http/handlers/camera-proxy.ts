/** Handlers of the media proxy: what the RTSP server of this node tells of itself. */
import { Cameras } from "#actors/protocol/camera.ts"
import { RtspServer, type RtspSession, type RtspStream } from "#media/rtsp-server.ts"
import type { ProxyStream } from "#schema/camera-proxy.ts"
import type { StreamId } from "#schema/common.ts"
import { reach } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../contract/access.ts"
import { CameraProxyGroup } from "../contract/camera-proxy.ts"
import { nightjar } from "../contract/conventions.ts"

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

/** Null where nobody has told anything. */
const known = (values: ReadonlyArray<number | null>, of: (numbers: ReadonlyArray<number>) => number): number | null => {
  const numbers = values.filter((value) => value !== null)
  return numbers.length === 0 ? null : of(numbers)
}
const sum = (numbers: ReadonlyArray<number>) => numbers.reduce((all, one) => all + one, 0)

const told = (path: StreamId, open: RtspStream | undefined, all: ReadonlyArray<RtspSession>): ProxyStream => {
  const sessions = all.filter(({ recordingToken, streamId }) => streamId === path && recordingToken === null)
  return {
    path,
    state: open === undefined ? "idle" : open.ready ? "ready" : "waiting",
    since: open?.since ?? null,
    tracks: open?.tracks ?? [],
    readers: open?.readers ?? 0,
    bytes: open?.bytes ?? 0,
    packets: open?.packets ?? 0,
    sentBytes: sum(sessions.map(({ sentBytes }) => sentBytes)),
    lostPackets: known(sessions.map(({ lostPackets }) => lostPackets), sum),
    jitterMs: known(sessions.map(({ jitterMs }) => jitterMs), (all) => Math.max(...all)),
  }
}

export const CameraProxyHandlers = HttpApiBuilder.group(
  nightjar.add(CameraProxyGroup),
  "cameraProxy",
  Effect.fnUntraced(function*(handlers) {
    const cameras = yield* Cameras
    const rtsp = yield* RtspServer
    const reached = (streamId: StreamId) =>
      Effect.gen(function*() {
        const within = reach(yield* CurrentPrincipal, "camera:read")
        if (within === "all") return true
        const place = yield* cameras.placeOf({ streamId })
        return place !== null && (within.camera.has(place.cameraId) || within.channel.has(place.channelId))
      })
    return handlers
      .handle("proxyConfig", () => Effect.sync(rtsp.config))
      .handle("proxySessions", () => Effect.sync(() => whole(rtsp.sessions())))
      .handle("proxyStreams", () =>
        Effect.map(Effect.filter(rtsp.streams(), ({ streamId }) => reached(streamId)), (streams) =>
          whole(streams.map((stream) => told(stream.streamId, stream, rtsp.sessions())))))
      .handle("proxyStream", ({ params: { path } }) =>
        Effect.map(cameras.stream(path), () =>
          told(
            path,
            rtsp.streams().find(({ streamId }) => streamId === path),
            rtsp.sessions(),
          )))
      .handle("deleteProxyStream", ({ params: { path } }) =>
        Effect.map(cameras.stream(path), () => {
          rtsp.disconnect(path)
        }))
  }),
)
