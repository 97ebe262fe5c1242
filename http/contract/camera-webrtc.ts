/**
 * The camera service, as far as live streams are watched by WebRTC: WHEP (draft-ietf-wish-whep, over RFC 9725), and who watches.
 *
 * The way in is the token of a stream (`media-path`) in the `Authorization` header; what it opens is a session, whose unguessable id stands in
 * the path of everything else.
 */
import { CameraUnreachable } from "#schema/camera-device.ts"
import {
  IceRestartUnsupported,
  NotForWebRtc,
  OfferRefused,
  WebRtcSessionId,
  WebRtcSessionNotFound,
  WebRtcViewing,
} from "#schema/camera-webrtc.ts"
import { StreamNotFound, StreamTokenInvalid } from "#schema/camera.ts"
import { Page, StreamId } from "#schema/common.ts"
import { DependencyUnavailable, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension } from "./conventions.ts"
import { problems } from "./errors.ts"

/** What a browser posts its offer to. */
export const whepPath = (streamId: string): string => `/camera/api/v1/streams/${streamId}/whep`

const sessions = "/camera/api/v1/media-proxy/webrtc/sessions"
const session = "/camera/api/v1/streams/:stream_id/whep/:sessionId"
const params = { stream_id: StreamId, sessionId: WebRtcSessionId }

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const sdp = Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/sdp" }))
const fragment = Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/trickle-ice-sdpfrag" }))

const endpoints = [
  HttpApiEndpoint.post("whepOpen", "/camera/api/v1/streams/:stream_id/whep", {
    params: { stream_id: StreamId },
    payload: sdp,
    success: sdp,
    error: problems(
      StreamTokenInvalid,
      StreamNotFound,
      OfferRefused,
      NotForWebRtc,
      TooManyRequests,
      DependencyUnavailable,
      CameraUnreachable,
    ),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Watch a stream live by WebRTC",
      "WHEP: `Authorization: Bearer <stream token of media-path>`, an SDP offer in, 201 with the answer out, `Location` of the " +
        "session, a `Link` for each ICE server. The answer has all candidates. H.264, G.711 and Opus pass as the camera sends " +
        "them; `nightjar-sound` tells the sound's codec, or why there is none: `none` (the camera has none), `unwanted` (not in the " +
        "offer), `unplayable` (AAC). 501 `not_for_web_rtc` for H.265 and B-frames names another stream where there is one. The session " +
        "ends with the login session and the permission it was opened by.",
    ),
  ),
  HttpApiEndpoint.patch("whepTrickle", session, {
    params,
    payload: fragment,
    success: HttpApiSchema.NoContent,
    error: problems(WebRtcSessionNotFound, OfferRefused, IceRestartUnsupported),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Tell ICE candidates of a WebRTC session",
      "RFC 8840 fragments. They are taken and not needed: this side waits for the browser's checks. 422 for other ICE credentials.",
    ),
  ),
  HttpApiEndpoint.delete("whepClose", session, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(WebRtcSessionNotFound),
  }).annotateMerge(access("capability")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("End a WebRTC session", "By whoever knows its id."),
  ),
  HttpApiEndpoint.get("webRtcSessions", sessions, { success: Page(WebRtcViewing) }).annotateMerge(access("user:read"))
    .annotateMerge(extension).annotateMerge(
      doc("List WebRTC sessions", "Of those who watch at the answering node, all of them on one page."),
    ),
  HttpApiEndpoint.delete("deleteWebRtcSession", `${sessions}/:sessionId`, {
    params: { sessionId: WebRtcSessionId },
    success: HttpApiSchema.NoContent,
    error: problems(WebRtcSessionNotFound),
  }).annotateMerge(access("user:write")).annotateMerge(extension).annotateMerge(
    doc("Put a WebRTC viewer out", "Whoever may watch may come back."),
  ),
] as const

export class CameraWebRtcGroup extends HttpApiGroup.make("cameraWebRtc")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "WebRTC", description: "Live streams by WebRTC, and who watches them." }))
{}
