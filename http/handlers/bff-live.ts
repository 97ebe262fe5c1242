/**
 * Handlers of live pictures between nodes: what another node may watch here, and what is watched there through this one.
 *
 * Invariant
 * 1. What another node watches ends when its grants do not reach the channel any more.
 */
import { FederatedLives } from "#actors/protocol/bff-live.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { LiveHls } from "#media/live-hls.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { LiveSessionId } from "#schema/camera-live.ts"
import { ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import type { PeerRefused } from "#schema/federation.ts"
import type { ResourceRef } from "#schema/permission.ts"
import { NotSupported, TooManyRequests } from "#schema/problem.ts"
import { Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer, currentUser } from "../contract/access.ts"
import { BffLiveGroup } from "../contract/bff-live.ts"
import { nightjar } from "../contract/conventions.ts"
import { auditResource } from "./http-audit.ts"
import { makeElsewhere } from "./http-elsewhere.ts"
import { makeGuard, makePeerReach } from "./http-resources.ts"
import { sendPlaylist } from "./replay-media.ts"

const silent = () => new CameraUnreachable({ reason: "timeout", detail: "it delivers no pictures at the moment" })

/** What is the player's own affair is told as the node told it: unchanged, beyond the end, too early, busy; and what it does not offer. */
const passed = (
  error: PeerRefused,
): Effect.Effect<HttpServerResponse.HttpServerResponse, NotSupported | PeerRefused> => {
  const { reason, theirStatus } = error
  if (theirStatus === 501) {
    return Effect.fail(new NotSupported({ message: `The other node does not offer it: ${reason}` }))
  }
  return [304, 400, 416, 429, 503].includes(theirStatus) ?
    Effect.succeed(HttpServerResponse.empty({ status: theirStatus })) :
    Effect.fail(error)
}

export const BffLiveHandlers = HttpApiBuilder.group(
  nightjar.add(BffLiveGroup),
  "bffLive",
  Effect.fnUntraced(function*(handlers) {
    const [cameras, lives, live] = yield* Effect.all([Cameras, FederatedLives, LiveHls])
    const [elsewhere, guard, reaches] = [yield* makeElsewhere, yield* makeGuard, yield* makePeerReach]
    /** HLS of another member ends with nobody's lease, so it is not handed on as WebRTC is. */
    const unserved = Effect.fnUntraced(function*(id: StreamId) {
      const other = yield* elsewhere.ofStream(id)
      if (other === null) return yield* new StreamNotFound({ id })
      return yield* new NotSupported({ message: `The member "${other.name}" serves this stream: watch it by WebRTC.` })
    })

    return handlers
      .handle("federatedLive", ({ params: { channelId }, payload: { role } }) =>
        Effect.gen(function*() {
          yield* auditResource({ kind: "channel", id: channelId })
          return yield* lives.open(channelId, role, yield* currentUser)
        }))
      .handle("peerLive", ({ params: { channelId: id }, payload: { hls = true, role } }) =>
        Effect.gen(function*() {
          yield* auditResource({ kind: "channel", id })
          const peer = yield* currentPeer
          yield* guard("camera:live", { kind: "channel", id }, () => new ChannelNotFound({ id }))
          const enabled = (yield* cameras.streams(id)).filter((one) => one.enabled)
          const stream = enabled.find((one) => one.role === role) ?? enabled[0]
          if (stream === undefined) return yield* new StreamNotFound({ id })
          if (!hls) return { streamId: stream.id, sessionId: null, master: null }
          const place: ReadonlyArray<ResourceRef> = [
            { kind: "channel", id },
            { kind: "camera", id: stream.cameraId },
          ]
          const holder = {
            id: `peer:${peer.nodeId}:${peer.onBehalfOf ?? ""}`,
            holds: reaches(peer.nodeId, "camera:live", place),
          }
          const other = enabled.find((one) => one.role !== stream.role)?.id ?? null
          const session = yield* live.open(stream.id, holder, other).pipe(Effect.catchTags({
            LiveBusy: ({ message }) => Effect.fail(new TooManyRequests({ message, retryAfterSeconds: 5 })),
            LiveUnknown: () => unserved(stream.id),
          }))
          const master = yield* session.master("").pipe(Effect.catchTag("LiveSilent", () => Effect.fail(silent())))
          return { sessionId: LiveSessionId.make(session.id), streamId: stream.id, master: master.text }
        }))
      .handle("liveRelay", ({ params: { filename, sessionId } }) =>
        Effect.gen(function*() {
          const { headers, url } = yield* HttpServerRequest.HttpServerRequest
          const at = url.indexOf("?")
          const answer = yield* lives.file(sessionId, { filename, query: at < 0 ? "" : url.slice(at), headers })
          if (answer.kind === "master") return yield* sendPlaylist(answer)
          const { body, headers: told, status } = answer.media
          return HttpServerResponse.stream(body, { status, headers: told })
        }).pipe(Effect.catchTag("PeerRefused", passed)))
  }),
)
