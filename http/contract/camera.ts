/**
 * The camera service: cameras, their channels and streams, and where a stream can be watched. What cameras are asked by their
 * own protocol: `camera-device.ts`.
 */
import { deviceErrors } from "#schema/camera-device.ts"
import {
  Camera,
  CameraCreate,
  CameraNotFound,
  CameraStatus,
  CameraStream,
  CameraUpdate,
  Channel,
  ChannelCreate,
  ChannelNotFound,
  ChannelsExhausted,
  ChannelUpdate,
  DriverKind,
  DriverUnsupported,
  MediaPath,
  OtherDevice,
  StillRecorded,
  StreamCreate,
  StreamExists,
  StreamNotFound,
  StreamUpdate,
} from "#schema/camera.ts"
import { CameraId, ChannelId, Page, StreamId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, idempotencyKey, ifMatch, pageQuery, ToggleBody, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1"
const cameraParams = { id: CameraId }
const channelParams = { channel_id: ChannelId }
const streamParams = { stream_id: StreamId }

const Cameras = Page(Camera)
/** All of them: a camera has at most 64 channels, a channel two streams. */
const Channels = Page(Channel)
const Streams = Page(CameraStream)

/** A query's `true` and `false`. */
const Flag = Schema.Literals(["true", "false"])

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const onCameras = [
  HttpApiEndpoint.get("cameras", `${base}/cameras`, {
    query: { ...pageQuery, driver: Schema.optionalKey(DriverKind), enabled: Schema.optionalKey(Flag) },
    success: Cameras,
    error: problems(InvalidCursor),
  }).annotateMerge(access("camera:read", { on: "handler", orPeer: true })).annotateMerge(
    doc("List all cameras", "By position."),
  ),
  HttpApiEndpoint.post("addCamera", `${base}/cameras`, {
    headers: idempotencyKey,
    payload: CameraCreate,
    success: created(Camera),
    error: problems(DriverUnsupported, InvalidInput, LicenseRestricted, ...deviceErrors),
  }).annotateMerge(access("camera:write", { on: "everything" })).annotateMerge(
    doc(
      "Add a camera",
      "`rtsp` takes `streams` (one channel) or `channels`. User name and password may stand inside a source URL; they are " +
        "taken out of it and sealed. A password never comes out again: `hasPassword` tells that there is one. `onvif` takes " +
        "`host`, `port` (80 if left out), `username` and `password`; the camera is asked for its channels and streams, and " +
        "is not added where it refuses (409 `camera_auth_failed`), does not answer (503 `camera_unreachable`) or has no stream " +
        "that can be recorded (501 `onvif_operation_unsupported`). `mobile` is answered with 501 `driver_unsupported`: phones are added by `cameras/mobile/prepare`.",
    ),
  ),
  HttpApiEndpoint.get("searchCameras", `${base}/cameras/search`, {
    query: {
      ...pageQuery,
      q: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(200))),
      tag: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(40))),
    },
    success: Cameras,
    error: problems(InvalidCursor),
  }).annotateMerge(access("camera:read", { on: "handler", orPeer: true })).annotateMerge(
    doc(
      "Search cameras",
      "`q`: words that must all be found, each as a part of the name, the description, an address, the maker, the model, the serial " +
        "number or a tag, in any case of letters. `tag`: a whole tag.",
    ),
  ),
  HttpApiEndpoint.get("camerasByStatus", `${base}/cameras/status/:status`, {
    params: { status: CameraStatus },
    query: pageQuery,
    success: Cameras,
    error: problems(InvalidCursor),
  }).annotateMerge(access("camera:read", { on: "handler", orPeer: true })).annotateMerge(doc("List cameras by status")),
  HttpApiEndpoint.put("reorderCameras", `${base}/cameras/reorder`, {
    payload: Schema.Struct({ ids: Schema.Array(CameraId).check(Schema.isMinLength(1), Schema.isMaxLength(10_000)) }),
    success: Cameras,
    error: problems(CameraNotFound, InvalidInput),
  }).annotateMerge(access("camera:write", { on: "everything" })).annotateMerge(
    doc("Change camera order", "The named ones come first, in this order; the others follow as they were."),
  ),
] as const

const onCamera = [
  HttpApiEndpoint.get("camera", `${base}/cameras/:id`, {
    params: cameraParams,
    success: versioned(Camera),
    error: problems(CameraNotFound),
  }).annotateMerge(access("camera:read", { on: "handler", orPeer: true })).annotateMerge(doc("Get a camera")),
  HttpApiEndpoint.put("updateCamera", `${base}/cameras/:id`, {
    params: cameraParams,
    headers: ifMatch,
    payload: CameraUpdate,
    success: versioned(Camera),
    error: problems(CameraNotFound, VersionConflict, InvalidInput, OtherDevice, ...deviceErrors),
  }).annotateMerge(access("camera:write", { on: { kind: "camera", param: "id" }, orPeer: true })).annotateMerge(
    doc(
      "Update a camera",
      "Replaces; but tags, a user name or a password that are left out stay, and `null` removes the latter two. Channels and " +
        "streams have operations of their own. An ONVIF camera that went to another `host` or `port` is asked there first, and nothing is " +
        "stored where it does not answer (503 `camera_unreachable`), refuses the credentials (409 `camera_auth_failed`) or is another " +
        "device by its serial number (409 `other_device`); its streams on the old host go with it.",
    ),
  ),
  HttpApiEndpoint.delete("deleteCamera", `${base}/cameras/:id`, {
    params: cameraParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(ControlElsewhere, CameraNotFound, VersionConflict, StillRecorded),
  }).annotateMerge(access("camera:write", { on: { kind: "camera", param: "id" } })).annotateMerge(
    doc("Delete a camera", "409 `still_recorded` while it has recordings: footage is never deleted as a side effect."),
  ),
  HttpApiEndpoint.get("channels", `${base}/cameras/:id/channels`, {
    params: cameraParams,
    success: Channels,
    error: problems(CameraNotFound),
  }).annotateMerge(access("camera:read", { on: "handler", orPeer: true })).annotateMerge(doc("List camera channels")),
  HttpApiEndpoint.post("addChannel", `${base}/cameras/:id/channels`, {
    params: cameraParams,
    headers: idempotencyKey,
    payload: ChannelCreate,
    success: created(Channel),
    error: problems(
      ControlElsewhere,
      CameraNotFound,
      ChannelsExhausted,
      InvalidInput,
      LicenseRestricted,
      VersionConflict,
    ),
  }).annotateMerge(access("camera:write", { on: { kind: "camera", param: "id" }, orPeer: true })).annotateMerge(
    doc("Add a channel"),
  ),
] as const

const onChannel = [
  HttpApiEndpoint.get("channel", `${base}/channels/:channel_id`, {
    params: channelParams,
    success: versioned(Channel),
    error: problems(ChannelNotFound),
  }).annotateMerge(access("camera:read", { on: { kind: "channel", param: "channel_id" }, orPeer: true })).annotateMerge(
    doc("Get a channel"),
  ),
  HttpApiEndpoint.put("updateChannel", `${base}/channels/:channel_id`, {
    params: channelParams,
    headers: ifMatch,
    payload: ChannelUpdate,
    success: versioned(Channel),
    error: problems(ControlElsewhere, ChannelNotFound, VersionConflict),
  }).annotateMerge(access("camera:write", { on: { kind: "channel", param: "channel_id" }, orPeer: true }))
    .annotateMerge(doc("Update a channel", "Replaces name and activity.")),
  HttpApiEndpoint.delete("deleteChannel", `${base}/channels/:channel_id`, {
    params: channelParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(ControlElsewhere, ChannelNotFound, VersionConflict, StillRecorded),
  }).annotateMerge(access("camera:write", { on: { kind: "channel", param: "channel_id" }, orPeer: true }))
    .annotateMerge(doc("Delete a channel", "409 `still_recorded` while it is recorded.")),
  HttpApiEndpoint.post("toggleChannel", `${base}/channels/:channel_id/toggle`, {
    params: channelParams,
    headers: { ...ifMatch, ...idempotencyKey },
    payload: ToggleBody,
    success: versioned(Channel),
    error: problems(ControlElsewhere, ChannelNotFound, VersionConflict),
  }).annotateMerge(access("camera:write", { on: { kind: "channel", param: "channel_id" } })).annotateMerge(
    doc(
      "Toggle channel active status",
      "Flips, or sets with `enabled`. A channel that is off is neither watched nor recorded.",
    ),
  ),
  HttpApiEndpoint.get("streams", `${base}/channels/:channel_id/streams`, {
    params: channelParams,
    success: Streams,
    error: problems(ChannelNotFound),
  }).annotateMerge(access("camera:read", { on: { kind: "channel", param: "channel_id" }, orPeer: true })).annotateMerge(
    doc("List channel streams"),
  ),
  HttpApiEndpoint.post("addStream", `${base}/channels/:channel_id/streams`, {
    params: channelParams,
    headers: idempotencyKey,
    payload: StreamCreate,
    success: created(CameraStream),
    error: problems(ControlElsewhere, ChannelNotFound, InvalidInput, StreamExists, VersionConflict),
  }).annotateMerge(access("camera:write", { on: { kind: "channel", param: "channel_id" }, orPeer: true }))
    .annotateMerge(
      doc(
        "Add a stream",
        "One stream a role. One that is `onDemand` is connected while somebody watches, or it is recorded, and `idle` otherwise: sub " +
          "streams unless said otherwise.",
      ),
    ),
] as const

const mediaPathDoc =
  "`hlsUrl` plays the newest stored footage, some seconds behind live; it is null where the stream is not " +
  "recorded, nothing is stored yet, or the caller may not replay. `rtspUrl` is live, by RTSP over TCP or UDP, on the host that " +
  "was asked; null while nothing listens there. `liveHlsUrl` is live by low-latency HLS, for players in browsers and elsewhere; " +
  "`liveHlsLimit` tells what it leaves out; `snapshotUrl` is the newest picture. `whepUrl` is live by WebRTC (WHEP, the token as " +
  "bearer); null while nothing listens for it; `whepLimit` tells what it cannot offer. The token opens this stream for " +
  "the caller's session, for five minutes; whoever reads by then reads on until that session ends or the user may not watch any more."

const onStream = [
  HttpApiEndpoint.get("stream", `${base}/streams/:stream_id`, {
    params: streamParams,
    success: versioned(CameraStream),
    error: problems(StreamNotFound),
  }).annotateMerge(access("camera:read", { on: { kind: "stream", param: "stream_id" }, orPeer: true })).annotateMerge(
    doc("Get a stream", "`codec`, `width` and `height` are null until the stream was seen."),
  ),
  HttpApiEndpoint.put("updateStream", `${base}/streams/:stream_id`, {
    params: streamParams,
    headers: ifMatch,
    payload: StreamUpdate,
    success: versioned(CameraStream),
    error: problems(ControlElsewhere, InvalidInput, StreamNotFound, VersionConflict),
  }).annotateMerge(access("camera:write", { on: { kind: "stream", param: "stream_id" }, orPeer: true })).annotateMerge(
    doc("Update a stream", "Replaces; but a user name or password that is left out stays, and `null` removes it."),
  ),
  HttpApiEndpoint.delete("deleteStream", `${base}/streams/:stream_id`, {
    params: streamParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(ControlElsewhere, StreamNotFound, VersionConflict, StillRecorded),
  }).annotateMerge(access("camera:write", { on: { kind: "stream", param: "stream_id" } })).annotateMerge(
    doc("Delete a stream", "409 `still_recorded` while it is recorded."),
  ),
  HttpApiEndpoint.get("mediaPath", `${base}/streams/:stream_id/media-path`, {
    params: streamParams,
    success: MediaPath,
    error: problems(StreamNotFound),
  }).annotateMerge(access("camera:live", { on: { kind: "stream", param: "stream_id" } })).annotateMerge(
    doc("Get the stream media path", mediaPathDoc),
  ),
  HttpApiEndpoint.post("refreshStreamToken", `${base}/streams/:stream_id/token/refresh`, {
    params: streamParams,
    success: MediaPath.mapFields((fields) => ({
      streamId: fields.streamId,
      token: fields.token,
      expiresAt: fields.expiresAt,
    })),
    error: problems(StreamNotFound),
  }).annotateMerge(access("camera:live", { on: { kind: "stream", param: "stream_id" } })).annotateMerge(audited("none"))
    .annotateMerge(doc("Refresh the stream token", "A fresh one for the caller's session.")),
] as const

export class CameraGroup extends HttpApiGroup.make("camera")
  .add(...onCameras)
  .add(...onCamera)
  .add(...onChannel)
  .add(...onStream)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Camera", description: "Cameras, their channels and streams." }))
{}
