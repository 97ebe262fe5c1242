/**
 * Handlers of talk-back between nodes: who talks here from another node, and who talks there through this one.
 *
 * Invariants
 * 1. A talker of another node is known here by his name there and by that node; he holds the camera like any other, one at a time.
 * 2. His session ends when the grants of that node do not reach the camera any more, and {@link leaseMs} after that node last said that he may.
 */
import { FederatedLives } from "#actors/protocol/bff-live.ts"
import { TalkBack } from "#actors/protocol/camera-talk.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { WebRtc } from "#media/webrtc.ts"
import { TalkBackNotOpen } from "#schema/camera-talk.ts"
import { type CameraStream, ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import { type ChannelId, type StreamId, UserId } from "#schema/common.ts"
import type { PeerPrincipal, UserPrincipal } from "#schema/permission.ts"
import { Clock, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer, currentUser } from "../contract/access.ts"
import { BffTalkGroup } from "../contract/bff-talk.ts"
import { nightjar } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { toldAs } from "./bff-passed.ts"
import { auditResource } from "./http-audit.ts"
import { iceLinks } from "./http-ice.ts"
import { makeGuard, makePeerReach } from "./http-resources.ts"

const leaseMs = 15_000

interface Lease {
  readonly who: UserPrincipal
  readonly peer: PeerPrincipal
  readonly stream: CameraStream
  untilMs: number
}

/** Whoever talks from another node, as somebody of this one. */
const talkerOf = ({ grants, name, nodeId, onBehalfOf }: PeerPrincipal): UserPrincipal => ({
  kind: "user",
  userId: UserId.make(nodeId),
  username: onBehalfOf === null ? name : `${onBehalfOf} (${name})`,
  sessionId: `peer:${nodeId}:${onBehalfOf ?? ""}`,
  grants,
})

const told = toldAs("talk-back")

export const BffTalkHandlers = HttpApiBuilder.group(
  nightjar.add(BffTalkGroup),
  "bffTalk",
  Effect.fnUntraced(function*(handlers) {
    const [cameras, lives, talk] = yield* Effect.all([Cameras, FederatedLives, TalkBack])
    const [guard, reaches, webRtc] = [yield* makeGuard, yield* makePeerReach, yield* WebRtc]
    const leases = new Map<StreamId, Lease>()

    const mayGoOn = ({ peer, stream: { cameraId, channelId } }: Lease) =>
      reaches(peer.nodeId, "camera:talk", [{ kind: "channel", id: channelId }, { kind: "camera", id: cameraId }])
    const holds = (lease: Lease) =>
      Effect.gen(function*() {
        return (yield* Clock.currentTimeMillis) < lease.untilMs && (yield* mayGoOn(lease))
      })
    /** That of the talker, or a new one; those that are over are forgotten. */
    const leaseOf = (who: UserPrincipal, peer: PeerPrincipal, stream: CameraStream, nowMs: number): Lease => {
      for (const [id, { untilMs }] of leases) if (untilMs < nowMs) leases.delete(id)
      const known = leases.get(stream.id)
      const lease = known?.who.sessionId === who.sessionId ? known : { who, peer, stream, untilMs: 0 }
      lease.untilMs = nowMs + leaseMs
      return lease
    }

    /** The stream of the channel that is talked by, for those that the asking node may let talk. */
    const streamOf = Effect.fnUntraced(function*(id: ChannelId) {
      yield* guard("camera:talk", { kind: "channel", id }, () => new ChannelNotFound({ id }))
      const enabled = (yield* cameras.streams(id)).filter((one) => one.enabled)
      const stream = enabled.find(({ role }) => role === "main") ?? enabled[0]
      return stream ?? (yield* new StreamNotFound({ id }))
    })
    const held = Effect.fnUntraced(function*(id: ChannelId) {
      const who = talkerOf(yield* currentPeer)
      const stream = yield* streamOf(id)
      const lease = leases.get(stream.id)
      return lease?.who.sessionId === who.sessionId ? lease : yield* new TalkBackNotOpen()
    })

    return handlers
      .handle("openFederatedTalk", ({ params: { channelId: id } }) =>
        Effect.gen(function*() {
          yield* auditResource({ kind: "channel", id })
          return yield* lives.openTalk(id, yield* currentUser)
        }).pipe(Effect.catchTag("PeerRefused", told)))
      .handle("offerFederatedTalk", ({ params: { channelId: id }, payload }) =>
        Effect.gen(function*() {
          const { answer, links } = yield* lives.offerTalk(id, yield* currentUser, payload)
          return HttpServerResponse.text(answer, {
            status: 201,
            contentType: "application/sdp",
            headers: { "cache-control": "no-store", ...(links === null ? {} : { link: links }) },
          })
        }).pipe(Effect.catchTag("PeerRefused", told)))
      .handle(
        "closeFederatedTalk",
        ({ params: { channelId: id } }) => Effect.flatMap(currentUser, (who) => lives.closeTalk(id, who)),
      )
      .handle("peerTalk", ({ params: { channelId: id } }) =>
        Effect.gen(function*() {
          yield* auditResource({ kind: "channel", id })
          const peer = yield* currentPeer
          const [stream, who] = [yield* streamOf(id), talkerOf(peer)]
          const info = yield* CurrentRequest
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          const lease = leaseOf(who, peer, stream, yield* Clock.currentTimeMillis)
          const session = yield* talk.open(stream.id, who, {
            via: "http",
            address: info?.address ?? "",
            userAgent: headers["user-agent"] ?? "",
            holds: holds(lease),
          })
          leases.set(stream.id, lease)
          return session
        }))
      .handle("offerPeerTalk", ({ params, payload }) =>
        Effect.gen(function*() {
          const { stream, who } = yield* held(params.channelId)
          const { answer } = yield* talk.offer(stream.id, who, payload)
          return HttpServerResponse.text(answer, {
            status: 201,
            contentType: "application/sdp",
            headers: { "cache-control": "no-store", ...iceLinks(webRtc.iceServers) },
          })
        }))
      .handle("renewPeerTalk", ({ params }) =>
        Effect.gen(function*() {
          const lease = yield* held(params.channelId)
          const { session } = yield* talk.status(lease.stream.id, lease.who)
          if (session?.mine !== true) return yield* new TalkBackNotOpen()
          lease.untilMs = (yield* Clock.currentTimeMillis) + leaseMs
        }))
      .handle("closePeerTalk", ({ params }) =>
        Effect.gen(function*() {
          const { stream, who } = yield* held(params.channelId)
          leases.delete(stream.id)
          yield* talk.close(stream.id, who)
        }))
  }),
)
