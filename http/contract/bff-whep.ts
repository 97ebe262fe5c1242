/**
 * Live pictures of other nodes' channels by WebRTC: offer and answer pass through this node, the media go from the node that serves the
 * camera to the browser.
 */
import { FederatedSessionId } from "#schema/bff-federation.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { LiveSessionNotFound } from "#schema/camera-live.ts"
import { NotForWebRtc, OfferRefused, WebRtcSessionId, WebRtcSessionNotFound } from "#schema/camera-webrtc.ts"
import { StreamNotFound } from "#schema/camera.ts"
import { StreamId } from "#schema/common.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { DependencyUnavailable, Forbidden, NotSupported, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension } from "./conventions.ts"
import { problems } from "./errors.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const sdp = Schema.String.check(Schema.isMaxLength(65_536)).pipe(
  HttpApiSchema.asText({ contentType: "application/sdp" }),
)
const there = "/federation/api/v1/federation/streams/:streamId/whep"
const here = "/federation/api/v1/federation-live/whep/:sessionId"
const session = { streamId: StreamId, sessionId: WebRtcSessionId }

const endpoints = [
  HttpApiEndpoint.post("relayWhep", here, {
    params: { sessionId: FederatedSessionId },
    payload: sdp,
    success: sdp.annotate({ httpApiStatus: 201 }),
    error: problems(
      LiveSessionNotFound,
      Forbidden,
      OfferRefused,
      NotSupported,
      TooManyRequests,
      DependencyUnavailable,
      PeerUnreachable,
      PeerRefused,
    ),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Watch a channel of another node by WebRTC",
      "Within a session of `federation-channels/{channelId}/live`, whose `whepUri` this is: an SDP offer in, 201 with the other node's answer " +
        "out (WHEP). Its candidates are that node's, which the browser must reach; where it does not, the session's HLS is left. 403 tells why " +
        "the other node does not let it be watched. It ends with the login session and with the permission, here and there.",
    ),
  ),
  HttpApiEndpoint.delete("relayWhepClose", here, {
    params: { sessionId: FederatedSessionId },
    success: HttpApiSchema.NoContent,
    error: problems(LiveSessionNotFound),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("End watching a channel of another node by WebRTC", "The session's HLS stays."),
  ),
  HttpApiEndpoint.post("peerWhep", there, {
    params: { streamId: StreamId },
    payload: sdp,
    success: sdp.annotate({ httpApiStatus: 201 }),
    error: problems(
      StreamNotFound,
      Forbidden,
      OfferRefused,
      NotForWebRtc,
      TooManyRequests,
      DependencyUnavailable,
      CameraUnreachable,
    ),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("view")).annotateMerge(
    doc(
      "Let a viewer of another node watch by WebRTC (peer API)",
      "As far as the grants of the asking node reach, and for 15 s: it goes on while the asking node says that its viewer may.",
    ),
  ),
  HttpApiEndpoint.post("renewPeerWhep", `${there}/:sessionId/renew`, {
    params: session,
    success: HttpApiSchema.NoContent,
    error: problems(WebRtcSessionNotFound),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("Say that a viewer may go on (peer API)", "By the node that asked for it."),
  ),
  HttpApiEndpoint.delete("closePeerWhep", `${there}/:sessionId`, {
    params: session,
    success: HttpApiSchema.NoContent,
    error: problems(WebRtcSessionNotFound),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("End the watching of another node's viewer (peer API)", "By the node that asked for it."),
  ),
] as const

export class BffWhepGroup extends HttpApiGroup.make("bffWhep")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Live of other nodes by WebRTC",
    description: "Offers and answers through this node.",
  }))
{}
