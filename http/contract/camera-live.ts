/**
 * The camera service, as far as live streams are watched by HTTP: low-latency HLS (RFC 8216bis).
 *
 * The way in is the token of a stream (`media-path`), which stands in the query because ordinary players send no header; what
 * it opens is a session, whose unguessable id stands in the path of everything else.
 */
import { CameraUnreachable } from "#schema/camera-device.ts"
import { LiveFileNotFound, LiveSessionId, LiveSessionNotFound } from "#schema/camera-live.ts"
import { StreamNotFound, StreamTokenInvalid } from "#schema/camera.ts"
import { StreamId } from "#schema/common.ts"
import { DependencyUnavailable, NotSupported, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, Marks } from "./conventions.ts"
import { problems } from "./errors.ts"
import { playlistType } from "./replay.ts"

/** Where a live session's files are. */
export const liveHlsPath = (sessionId: string): string => `/camera/api/v1/live/hls/${sessionId}/`
/** What a player opens. */
export const liveHlsUrl = (streamId: string, token: string): string =>
  `/camera/api/v1/streams/${streamId}/hls/master.m3u8?token=${token}`

/** The newest picture. */
export const snapshotUrl = (streamId: string): string => `/camera/api/v1/streams/${streamId}/snapshot.jpg`

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
/** Answers as long as a player waits, and stands in no table. */
const live = [Marks, { extension: true, streams: true }] as const

const playlist = Schema.String.pipe(HttpApiSchema.asText({ contentType: playlistType }))
const media = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "video/mp4" }))
/** A number of a blocking request. */
const Count = Schema.NumberFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 0, maximum: 1e12 }))
const filename = Schema.String.check(Schema.isMaxLength(64))

const endpoints = [
  HttpApiEndpoint.get("liveMaster", "/camera/api/v1/streams/:stream_id/hls/master.m3u8", {
    params: { stream_id: StreamId },
    query: { token: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(2048))) },
    success: playlist,
    error: problems(StreamTokenInvalid, StreamNotFound, TooManyRequests, DependencyUnavailable, CameraUnreachable),
  }).annotateMerge(access("capability")).annotate(...live).annotateMerge(
    doc(
      "Watch a stream live by HLS",
      "`token`: the stream token of `media-path`. Opens a session and answers its multivariant playlist. The session ends with " +
        "the login session and the permission it was opened by, and when nobody has asked for 20 s. Pictures are the camera's " +
        "own; G.711 sound, which browsers refuse in MP4, is left out, and `EXT-X-SESSION-DATA` `nightjar.sound` says so. The stream " +
        "asked for is the first variant; the other one of the channel (main, sub) is the second where both have the same codecs, " +
        "on the same media time. It is watched while somebody asks for it. 503 " +
        "where the camera delivers nothing within 12 s.",
    ),
  ),
  HttpApiEndpoint.get("liveFile", "/camera/api/v1/live/hls/:sessionId/:filename", {
    params: { sessionId: LiveSessionId, filename },
    query: { _HLS_msn: Schema.optionalKey(Count), _HLS_part: Schema.optionalKey(Count) },
    success: [playlist, media],
    error: problems(LiveSessionNotFound, LiveFileNotFound, TooManyRequests, DependencyUnavailable, CameraUnreachable),
  }).annotateMerge(access("capability")).annotate(...live).annotateMerge(
    doc(
      "Get a live playlist, part, segment or initialization file",
      "`live.m3u8` is the media playlist, `other.m3u8` that of the second variant, if the session offers one; with `_HLS_msn` and `_HLS_part` it waits for that segment or part, at most 12 s " +
        "(then 503). The part that the playlist announces is waited for. What has left the window is 404; whoever takes longer than " +
        "30 s for a file is cut off.",
    ),
  ),
] as const

/** Pixels. */
const Width = Schema.NumberFromString.check(Schema.isInt(), Schema.isBetween({ minimum: 64, maximum: 1920 }))

const snapshot = HttpApiEndpoint.get("snapshot", "/camera/api/v1/streams/:stream_id/snapshot.jpg", {
  params: { stream_id: StreamId },
  query: { width: Schema.optionalKey(Width) },
  success: Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "image/jpeg" })),
  error: problems(StreamNotFound, NotSupported, TooManyRequests, CameraUnreachable),
}).annotateMerge(access("camera:live", { on: { kind: "stream", param: "stream_id" }, orPeer: true })).annotateMerge(
  extension,
)
  .annotateMerge(
    doc(
      "Get the newest picture of a stream",
      "The newest key picture, at most `width` pixels wide (64 to 1920, 640 if left out). `Age` tells how many seconds ago it was " +
        "sent; `ETag` changes with the picture. 503 `camera_unreachable` where the camera is away or has sent none for 30 s, 501 where this machine cannot decode " +
        "pictures (the optional package `node-av` is not there).",
    ),
  )

export class CameraLiveGroup extends HttpApiGroup.make("cameraLive")
  .add(...endpoints)
  .add(snapshot)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Live", description: "Live streams by HTTP." }))
{}
