/**
 * Handlers of WHEP: who may is told by {@link StreamAccess}, the rest by the door to those who watch by WebRTC.
 *
 * Invariants
 * 1. Of a stream that another member of the cluster serves, offer and answer pass through here; the media go from there to the browser.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { mayWatch } from "#actors/protocol/camera-watch.ts"
import { Cameras, StreamAccess } from "#actors/protocol/camera.ts"
import { WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { IceRestartUnsupported, OfferRefused, WebRtcSessionNotFound } from "#schema/camera-webrtc.ts"
import { StreamNotFound, StreamTokenInvalid } from "#schema/camera.ts"
import type { StreamId } from "#schema/common.ts"
import { Effect, Redacted } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CameraWebRtcGroup, whepPath } from "../contract/camera-webrtc.ts"
import { nightjar } from "../contract/conventions.ts"
import { makeWatch } from "./camera-whep.ts"
import { makeElsewhere, streamTokenHeader } from "./http-elsewhere.ts"
import { iceLinks } from "./http-ice.ts"

const bearer = (header: string | undefined): string => /^Bearer ([\w.~+/-]{1,4096}=*)$/i.exec(header ?? "")?.[1] ?? ""

export const CameraWebRtcHandlers = HttpApiBuilder.group(
  nightjar.add(CameraWebRtcGroup),
  "cameraWebRtc",
  Effect.fnUntraced(function*(handlers) {
    const [access, cameras, tokens] = yield* Effect.all([StreamAccess, Cameras, AccessTokens])
    const viewers = yield* WebRtcViewers
    const webRtc = yield* WebRtc
    const [elsewhere, watch] = [yield* makeElsewhere, yield* makeWatch]

    /** Another stream of the channel that is H.264; B-frames are not known beforehand. */
    const alternative = (id: StreamId) =>
      Effect.gen(function*() {
        const { channelId } = yield* cameras.stream(id)
        const others = yield* cameras.streams(channelId)
        return others.find((stream) => stream.id !== id && stream.codec === "h264")?.id ?? null
      }).pipe(Effect.catch(() => Effect.succeed(null)))

    /** A session that is not here is where its stream is served, or nowhere. */
    const fromThere = Effect.fnUntraced(function*(id: StreamId, body?: string) {
      const other = yield* elsewhere.ofStream(id)
      return other === null ?
        yield* new WebRtcSessionNotFound() :
        yield* elsewhere.pass(other, body === undefined ? {} : { body })
    })

    return handlers
      .handle("whepOpen", ({ params: { stream_id: id }, payload, request }) =>
        Effect.gen(function*() {
          // Another member proves itself in that header, and passes the browser's token on beside it.
          const token = request.headers[streamTokenHeader] ?? bearer(request.headers["authorization"])
          const grant = yield* access.verify(Redacted.make(token))
          if (grant.streamId !== id) return yield* new StreamTokenInvalid()
          const holder = {
            id: grant.sessionId,
            userAgent: request.headers["user-agent"]?.slice(0, 256) ?? null,
            holds: mayWatch(tokens, grant),
          }
          const peer = yield* watch(id, payload, holder, alternative(id))
          if (peer === null) {
            const other = yield* elsewhere.ofStream(id)
            if (other === null) return yield* new StreamNotFound({ id })
            return yield* elsewhere.pass(other, { body: payload, headers: { [streamTokenHeader]: token } })
          }
          return HttpServerResponse.text(peer.answer, {
            status: 201,
            contentType: "application/sdp",
            headers: {
              "location": `${whepPath(id)}/${peer.id}`,
              "nightjar-sound": peer.sound,
              "cache-control": "no-store",
              ...iceLinks(webRtc.iceServers),
            },
          })
        }))
      .handle("whepTrickle", ({ params, payload }) =>
        Effect.gen(function*() {
          const viewer = viewers.viewer(params.stream_id, params.sessionId)
          if (viewer === null) return yield* fromThere(params.stream_id, payload)
          const taken = viewer.trickle(payload)
          if (taken === null) return yield* new WebRtcSessionNotFound()
          if (taken === "malformed") return yield* new OfferRefused({ problem: "it is no fragment of SDP" })
          return taken === "mismatch" ? yield* new IceRestartUnsupported() : HttpServerResponse.empty()
        }))
      .handle("whepClose", ({ params }) =>
        Effect.gen(function*() {
          const viewer = viewers.viewer(params.stream_id, params.sessionId)
          if (viewer === null) return yield* fromThere(params.stream_id)
          viewer.close()
          return HttpServerResponse.empty()
        }))
      .handle("webRtcSessions", () => Effect.sync(() => ({ items: viewers.sessions(), nextCursor: null })))
      .handle("deleteWebRtcSession", ({ params }) =>
        Effect.suspend(() => viewers.end(params.sessionId) ? Effect.void : Effect.fail(new WebRtcSessionNotFound())))
  }),
)
