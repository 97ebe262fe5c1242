/** The camera service, as far as cameras are talked to: sessions, and the microphone of a browser (WHIP, RFC 9725). */
import { CameraAuthFailed, CameraRefused, CameraUnreachable } from "#schema/camera-device.ts"
import {
  TalkBackElsewhere,
  TalkBackNotOpen,
  TalkBackTaken,
  TalkBackUnsupported,
  TalkOfferRefused,
  TalkSession,
  TalkStatus,
} from "#schema/camera-talk.ts"
import { StreamNotFound } from "#schema/camera.ts"
import { StreamId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, extension } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/streams/:stream_id/backchannel"
const params = { stream_id: StreamId }
const stream = { on: { kind: "stream", param: "stream_id" } } as const
const talks = access("camera:talk", stream)

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

/** A browser's offer has some kilobytes. */
const Sdp = Schema.String.check(Schema.isMaxLength(65_536)).pipe(
  HttpApiSchema.asText({ contentType: "application/sdp" }),
)
const SdpAnswer = Schema.String.pipe(HttpApiSchema.asText({ contentType: "application/sdp" })).annotate({
  httpApiStatus: 201,
})

const endpoints = [
  HttpApiEndpoint.post("openTalk", base, {
    params,
    success: created(TalkSession),
    error: problems(
      StreamNotFound,
      TalkBackTaken,
      TalkBackUnsupported,
      CameraUnreachable,
      CameraAuthFailed,
      CameraRefused,
      ControlElsewhere,
      DependencyUnavailable,
    ),
  }).annotateMerge(talks).annotateMerge(
    doc(
      "Create a backchannel session",
      "Connects to the camera's ONVIF backchannel and holds it for the caller: one talker a camera. 409 `talk_back_taken` names who " +
        "talks; 501 `talk_back_unsupported` where the camera has no loudspeaker for G.711. It ends with DELETE, 15 s after the last " +
        "word, with the login session and with the permission. What the caller holds already is answered again. Talk by " +
        "`whipUrl` (WebRTC), or by RTSP with `Require: www.onvif.org/ver20/backchannel`.",
    ),
  ),
  HttpApiEndpoint.delete("closeTalk", base, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(StreamNotFound, TalkBackNotOpen, TalkBackTaken, DependencyUnavailable),
  }).annotateMerge(talks).annotateMerge(
    doc("Delete a backchannel session", "By its holder, or by one who may change the camera."),
  ),
  HttpApiEndpoint.get("talkStatus", `${base}/status`, {
    params,
    success: TalkStatus,
    error: problems(StreamNotFound, DependencyUnavailable),
  }).annotateMerge(access("camera:read", stream)).annotateMerge(
    doc(
      "Get backchannel status",
      "Who talks to the camera of this stream, on whatever node; `session` is null while nobody does.",
    ),
  ),
  HttpApiEndpoint.post("offerTalk", `${base}/whip`, {
    params,
    payload: Sdp,
    success: SdpAnswer,
    error: problems(StreamNotFound, TalkBackNotOpen, TalkBackElsewhere, TalkOfferRefused, DependencyUnavailable),
  }).annotateMerge(talks).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Offer a microphone (WHIP)",
      "Within a session of the caller: an SDP offer with audio in the codec that the session tells, G.711 (RFC 9725). 201 with the " +
        "answer, complete with its candidates, and `Location`. Another offer replaces it.",
    ),
  ),
  HttpApiEndpoint.delete("hangUpTalk", `${base}/whip/:peerId`, {
    params: { ...params, peerId: Schema.String.check(Schema.isMaxLength(128)) },
    success: HttpApiSchema.NoContent,
    error: problems(StreamNotFound, TalkBackNotOpen, TalkBackTaken, DependencyUnavailable),
  }).annotateMerge(talks).annotateMerge(extension).annotateMerge(
    doc("Withdraw a microphone (WHIP)", "Ends the session."),
  ),
] as const

export class CameraTalkGroup extends HttpApiGroup.make("cameraTalk")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Talk-back", description: "Talking to cameras." }))
{}
