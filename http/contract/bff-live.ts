/**
 * Live pictures of other nodes' channels through this one: low-latency HLS (RFC 8216bis) and the newest picture, relayed as they come.
 */
import { FederatedSessionId } from "#schema/bff-federation.ts"
import { FederatedLive, LiveWish, PeerLive, PeerLiveWish } from "#schema/bff-live.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { LiveFileNotFound, LiveSessionNotFound } from "#schema/camera-live.ts"
import { ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import { ChannelId } from "#schema/common.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { NotSupported, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, extension, Marks } from "./conventions.ts"
import { problems } from "./errors.ts"
import { playlistType } from "./replay.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const live = [Marks, { extension: true, streams: true }] as const
const playlist = Schema.String.pipe(HttpApiSchema.asText({ contentType: playlistType }))
const media = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "video/mp4" }))
const picture = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "image/jpeg" }))
const Count = Schema.NumberFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 1e12 }))
const Width = Schema.NumberFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 64, maximum: 1920 }))
const params = { channelId: ChannelId }

const endpoints = [
  HttpApiEndpoint.post("federatedLive", "/bff/api/v1/federation-channels/:channelId/live", {
    params,
    payload: LiveWish,
    success: FederatedLive,
    error: problems(ChannelNotFound, PeerUnreachable, PeerRefused),
  }).annotateMerge(access("camera:live", { on: { kind: "channel", param: "channelId" } })).annotateMerge(extension)
    .annotateMerge(audited("view")).annotateMerge(
      doc(
        "Watch a channel of another node live",
        "`channelId`: as the channel is known here. Nothing is opened at the other node before WebRTC or HLS is asked for. The session ends " +
          "with the login session and the permission it was opened by, and when nobody has asked for 30 s.",
      ),
    ),
  HttpApiEndpoint.post("peerLive", "/federation/api/v1/federation/channels/:channelId/live", {
    params,
    payload: PeerLiveWish,
    success: PeerLive,
    error: problems(ChannelNotFound, StreamNotFound, NotSupported, TooManyRequests, CameraUnreachable),
  }).annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(audited("view")).annotateMerge(
    doc(
      "Let another node watch a channel live (peer API)",
      "As far as the grants of the asking node reach; they end the session as well. Without `hls` none is opened: for WebRTC the stream is enough.",
    ),
  ),
  HttpApiEndpoint.get("liveRelay", "/federation/api/v1/federation-live/hls/:sessionId/:filename", {
    params: {
      sessionId: FederatedSessionId,
      filename: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]+\.[a-z0-9]+$/), Schema.isMaxLength(64)),
    },
    query: {
      _HLS_msn: Schema.optionalKey(Count),
      _HLS_part: Schema.optionalKey(Count),
      width: Schema.optionalKey(Width),
    },
    success: [playlist, media, picture],
    error: problems(LiveSessionNotFound, LiveFileNotFound, NotSupported, PeerUnreachable, PeerRefused),
  }).annotateMerge(access("capability")).annotate(...live).annotateMerge(
    doc(
      "Live HLS relay (streaming, Range and blocking requests passed through)",
      "`master.m3u8`, what it names, and `snapshot.jpg`. Nothing is held whole.",
    ),
  ),
] as const

export class BffLiveGroup extends HttpApiGroup.make("bffLive")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Live of other nodes", description: "Live pictures through this node." }))
{}
