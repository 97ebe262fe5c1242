/**
 * Talking to cameras of paired nodes: sessions and offers pass through this node, the voice goes from the browser to the node that serves the
 * camera.
 */
import { CameraAuthFailed, CameraRefused, CameraUnreachable } from "#schema/camera-device.ts"
import {
  TalkBackElsewhere,
  TalkBackNotOpen,
  TalkBackTaken,
  TalkBackUnsupported,
  TalkOfferRefused,
  TalkSession,
} from "#schema/camera-talk.ts"
import { ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import { ChannelId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { DependencyUnavailable, Forbidden, NotSupported } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension } from "./conventions.ts"
import { problems } from "./errors.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const sdp = Schema.String.check(Schema.isMaxLength(65_536)).pipe(
  HttpApiSchema.asText({ contentType: "application/sdp" }),
)
const answer = sdp.annotate({ httpApiStatus: 201 })
const here = "/bff/api/v1/federation-channels/:channelId/talk"
const there = "/federation/api/v1/federation/channels/:channelId/talk"
const params = { channelId: ChannelId }
const talks = access("camera:talk", { on: { kind: "channel", param: "channelId" } })
const away = [PeerUnreachable, PeerRefused, Forbidden, NotSupported, DependencyUnavailable] as const
const found = [ChannelNotFound, StreamNotFound, DependencyUnavailable] as const

const endpoints = [
  HttpApiEndpoint.post("openFederatedTalk", here, {
    params,
    success: TalkSession,
    error: problems(ChannelNotFound, ...away),
  }).annotateMerge(talks).annotateMerge(extension).annotateMerge(
    doc(
      "Hold the loudspeaker of another node's camera",
      "As `backchannel` of a stream of this node; `channelId`: as the channel is known here. 403 tells why the other node does not let its " +
        "cameras be talked to; who talks already and what the camera lacks are told as that node tells them. It ends with the login session " +
        "and with the permission, here and there, and 15 s after the last word.",
    ),
  ),
  HttpApiEndpoint.post("offerFederatedTalk", `${here}/whip`, {
    params,
    payload: sdp,
    success: answer,
    error: problems(ChannelNotFound, TalkBackNotOpen, ...away),
  }).annotateMerge(talks).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Offer a microphone to another node's camera (WHIP)",
      "Within a session of the caller. The answer is the other node's, whose candidates the browser must reach.",
    ),
  ),
  HttpApiEndpoint.delete("closeFederatedTalk", here, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(ChannelNotFound, TalkBackNotOpen, ...away),
  }).annotateMerge(talks).annotateMerge(extension).annotateMerge(
    doc("Let go of the loudspeaker of another node's camera", "By its holder."),
  ),
  HttpApiEndpoint.post("peerTalk", there, {
    params,
    success: TalkSession,
    error: problems(
      ...found,
      TalkBackTaken,
      TalkBackUnsupported,
      CameraUnreachable,
      CameraAuthFailed,
      CameraRefused,
      ControlElsewhere,
      Forbidden,
    ),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
    doc(
      "Let somebody of another node talk to a camera (peer API)",
      "As far as the grants of the asking node reach (`camera:talk`), and for 15 s: it goes on while that node says that the talker may.",
    ),
  ),
  HttpApiEndpoint.post("offerPeerTalk", `${there}/whip`, {
    params,
    payload: sdp,
    success: answer,
    error: problems(...found, TalkBackNotOpen, TalkBackElsewhere, TalkOfferRefused),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("Offer the microphone of another node's talker (peer API)", "Within a session of that talker."),
  ),
  HttpApiEndpoint.post("renewPeerTalk", `${there}/renew`, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(...found, TalkBackNotOpen),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc("Say that a talker may go on (peer API)", "By the node that asked for it."),
  ),
  HttpApiEndpoint.delete("closePeerTalk", there, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(...found, TalkBackNotOpen, TalkBackTaken),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
    doc("End the talking of another node's talker (peer API)", "By the node that asked for it."),
  ),
] as const

export class BffTalkGroup extends HttpApiGroup.make("bffTalk")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Talk-back of other nodes",
    description: "Talking to their cameras through this node.",
  }))
{}
