/**
 * Handlers of WebRTC between nodes: what viewers of another node watch here, and offers that are passed on to another.
 *
 * Invariants
 * 1. What a viewer of another node watches ends when the grants of that node do not reach the stream any more, and {@link leaseMs} after
 *    that node last said that the viewer may.
 * 2. A session is renewed and ended by the node that asked for it alone.
 * 3. What another member of the cluster serves is handed on to it, once, and never to another cluster. The lease is there; what a viewer's
 *    node may see is judged here, by each renewal: without one it ends there within {@link leaseMs}.
 */
import { FederatedLives } from "#actors/protocol/bff-live.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { WebRtcViewers } from "#media/webrtc-viewers.ts"
import { WebRtc } from "#media/webrtc.ts"
import { WebRtcSessionNotFound } from "#schema/camera-webrtc.ts"
import { StreamNotFound } from "#schema/camera.ts"
import type { NodeId, StreamId } from "#schema/common.ts"
import type { ResourceRef } from "#schema/permission.ts"
import { Clock, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { currentPeer } from "../contract/access.ts"
import { BffWhepGroup } from "../contract/bff-whep.ts"
import { nightjar } from "../contract/conventions.ts"
import { toldAs } from "./bff-passed.ts"
import { makeWatch } from "./camera-whep.ts"
import { auditResource } from "./http-audit.ts"
import { makeElsewhere } from "./http-elsewhere.ts"
import { iceLinks } from "./http-ice.ts"
import { makeGuard, makePeerReach } from "./http-resources.ts"

/** Some renewals may be lost. */
const leaseMs = 15_000

interface Lease {
  readonly nodeId: NodeId
  readonly streamId: StreamId
  untilMs: number
}

/** A session at another member of the cluster. */
interface Handed {
  readonly nodeId: NodeId
  readonly streamId: StreamId
  readonly place: ReadonlyArray<ResourceRef>
}
const mostHanded = 1_000
const sessionIn = /\/whep\/([A-Za-z0-9_-]{24})$/

const told = toldAs("it by WebRTC")

export const BffWhepHandlers = HttpApiBuilder.group(
  nightjar.add(BffWhepGroup),
  "bffWhep",
  Effect.fnUntraced(function*(handlers) {
    const [cameras, lives, reaches] = [yield* Cameras, yield* FederatedLives, yield* makePeerReach]
    const [viewers, webRtc] = yield* Effect.all([WebRtcViewers, WebRtc])
    const [guard, watch] = [yield* makeGuard, yield* makeWatch]
    const elsewhere = yield* makeElsewhere
    const leases = new Map<string, Lease>()
    const handed = new Map<string, Handed>()

    const holds = (lease: Lease, place: ReadonlyArray<ResourceRef>) =>
      Effect.gen(function*() {
        return (yield* Clock.currentTimeMillis) < lease.untilMs && (yield* reaches(lease.nodeId, "camera:live", place))
      })
    const leaseOf = Effect.fnUntraced(function*(streamId: StreamId, sessionId: string) {
      const { nodeId } = yield* currentPeer
      const lease = leases.get(sessionId)
      const viewer = lease?.nodeId === nodeId ? viewers.viewer(streamId, sessionId) : null
      if (lease === undefined || viewer === null) return yield* new WebRtcSessionNotFound()
      return { lease, viewer }
    })
    /** Passes an offer on to the member that serves the stream. */
    const handOn = Effect.fnUntraced(function*(of: Handed, offer: string) {
      const other = yield* elsewhere.ofStream(of.streamId)
      if (other === null) return yield* new StreamNotFound({ id: of.streamId })
      const answer = yield* elsewhere.pass(other, { body: offer })
      const sessionId = sessionIn.exec(answer.headers["location"] ?? "")?.[1]
      if (answer.status === 201 && sessionId !== undefined) {
        const [oldest] = handed.keys()
        if (handed.size >= mostHanded && oldest !== undefined) handed.delete(oldest)
        handed.set(sessionId, of)
      }
      return answer
    })
    /** Passes on what its own node says of a session that was handed on; null: none was. */
    const passOn = Effect.fnUntraced(function*(streamId: StreamId, sessionId: string, goesOn: boolean) {
      const { nodeId } = yield* currentPeer
      const of = handed.get(sessionId)
      if (of === undefined || of.nodeId !== nodeId || of.streamId !== streamId) return null
      handed.delete(sessionId)
      if (goesOn && !(yield* reaches(nodeId, "camera:live", of.place))) return yield* new WebRtcSessionNotFound()
      const other = yield* elsewhere.ofStream(streamId)
      if (other === null) return yield* new WebRtcSessionNotFound()
      const answer = yield* elsewhere.pass(other)
      // Who was renewed last is remembered longest.
      if (goesOn && answer.status < 300) handed.set(sessionId, of)
      return answer
    })
    const keep = (sessionId: string, lease: Lease) => {
      for (const [id, { streamId }] of leases) if (viewers.viewer(streamId, id) === null) leases.delete(id)
      leases.set(sessionId, lease)
    }

    return handlers
      .handle("relayWhep", ({ params: { sessionId }, payload }) =>
        Effect.gen(function*() {
          const { answer, links, sound } = yield* lives.whep(sessionId, payload)
          return HttpServerResponse.text(answer, {
            status: 201,
            contentType: "application/sdp",
            headers: {
              "location": `/federation/api/v1/federation-live/whep/${sessionId}`,
              "cache-control": "no-store",
              ...(sound === null ? {} : { "nightjar-sound": sound }),
              ...(links === null ? {} : { link: links }),
            },
          })
        }).pipe(Effect.catchTag("PeerRefused", told)))
      .handle("relayWhepClose", ({ params }) => lives.endWhep(params.sessionId))
      .handle("peerWhep", ({ params: { streamId: id }, payload }) =>
        Effect.gen(function*() {
          yield* auditResource({ kind: "stream", id })
          const peer = yield* currentPeer
          yield* guard("camera:live", { kind: "stream", id }, () => new StreamNotFound({ id }))
          const { cameraId, channelId } = yield* cameras.stream(id)
          const place: ReadonlyArray<ResourceRef> = [
            { kind: "channel", id: channelId },
            { kind: "camera", id: cameraId },
          ]
          const { headers } = yield* HttpServerRequest.HttpServerRequest
          const lease: Lease = {
            nodeId: peer.nodeId,
            streamId: id,
            untilMs: (yield* Clock.currentTimeMillis) + leaseMs,
          }
          const holder = {
            id: `peer:${peer.nodeId}:${peer.onBehalfOf ?? ""}`,
            userAgent: headers["user-agent"]?.slice(0, 256) ?? null,
            holds: holds(lease, place),
          }
          const viewer = yield* watch(id, payload, holder, Effect.succeed(null))
          if (viewer === null) return yield* handOn({ nodeId: peer.nodeId, streamId: id, place }, payload)
          keep(viewer.id, lease)
          return HttpServerResponse.text(viewer.answer, {
            status: 201,
            contentType: "application/sdp",
            headers: {
              "location": `/federation/api/v1/federation/streams/${id}/whep/${viewer.id}`,
              "nightjar-sound": viewer.sound,
              "cache-control": "no-store",
              ...iceLinks(webRtc.iceServers),
            },
          })
        }))
      .handle("renewPeerWhep", ({ params: { sessionId, streamId } }) =>
        Effect.gen(function*() {
          const passed = yield* passOn(streamId, sessionId, true)
          if (passed !== null) return passed
          const { lease } = yield* leaseOf(streamId, sessionId)
          lease.untilMs = (yield* Clock.currentTimeMillis) + leaseMs
          return HttpServerResponse.empty()
        }))
      .handle("closePeerWhep", ({ params: { sessionId, streamId } }) =>
        Effect.gen(function*() {
          const passed = yield* passOn(streamId, sessionId, false)
          if (passed !== null) return passed
          const { viewer } = yield* leaseOf(streamId, sessionId)
          leases.delete(sessionId)
          viewer.close()
          return HttpServerResponse.empty()
        }))
  }),
)
