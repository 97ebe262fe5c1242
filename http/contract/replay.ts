/**
 * The replay service: sessions, and the HLS that players read through them. Clips are not here yet.
 *
 * Media paths hold the session id, which is their credential, so every player can open them, without a token. They answer HEAD as
 * well as GET, conditional requests (`If-None-Match`) with 304, and byte ranges of media with 206 or 416.
 */
import { RecordingToken, ReplaySessionId } from "#schema/common.ts"
import { DependencyUnavailable, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import {
  FootageNotFound,
  ReplayConfig,
  ReplayConfigUpdate,
  ReplayFileNotFound,
  ReplayInfo,
  ReplaySession,
  ReplaySessionEnded,
  ReplaySessionNotFound,
  ReplayUri,
  ReplayUriRequest,
} from "#schema/replay.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import {
  audited,
  created,
  type Deprecation,
  idempotencyKey,
  ifMatch,
  Marks,
  streaming,
  versioned,
} from "./conventions.ts"
import { problems } from "./errors.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

/** The whole-session metadata file; the subtitle playlist does the same in pieces. */
export const metadataDeprecation = (sessionId: string): Deprecation => ({
  since: 1_793_491_200, // 2026-11-01
  sunset: "Sat, 01 Jan 2028 00:00:00 GMT",
  successor: `/replay/api/v1/hls/${sessionId}/subtitle-playlist.m3u8`,
})

/** RFC 8216bis, section 4. */
export const playlistType = "application/vnd.apple.mpegurl"
const playlist = Schema.String.pipe(HttpApiSchema.asText({ contentType: playlistType }))
const text = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/vtt" }))
const media = Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "video/mp4" }))

const session = { sessionId: ReplaySessionId }
const ofSession = problems(ReplaySessionNotFound, ReplaySessionEnded, FootageNotFound, DependencyUnavailable)

const sessions = [
  HttpApiEndpoint.post("uri", "/replay/api/v1/replay/uri", {
    headers: idempotencyKey,
    payload: ReplayUriRequest,
    success: created(ReplayUri),
    error: problems(RecordingNotFound, FootageNotFound, InvalidInput),
  }).annotateMerge(access("recording:replay", { on: "handler", orPeer: true })).annotateMerge(audited("view"))
    .annotateMerge(
      doc(
        "Create a replay URI",
        "Opens a session over an interval. Without `end`, or with one in the future, its playlist grows with the recording. From " +
          "speed 4 on it lists key pictures only.",
      ),
    ),
  HttpApiEndpoint.get("info", "/replay/api/v1/replay/info/:recordingToken", {
    params: { recordingToken: RecordingToken },
    success: ReplayInfo,
    error: problems(RecordingNotFound, InvalidInput),
  }).annotateMerge(access("recording:replay", { on: { kind: "recordingToken", param: "recordingToken" } }))
    .annotateMerge(doc("Get replay information", "What there is to replay of a recording.")),
  HttpApiEndpoint.get("session", "/replay/api/v1/replay/session/:sessionId", {
    params: session,
    success: ReplaySession,
    error: problems(ReplaySessionNotFound),
  }).annotateMerge(access("recording:replay", { on: { kind: "replaySession", param: "sessionId" } })).annotateMerge(
    doc("Get a replay session", "Also of a session that has ended, for a day."),
  ),
] as const

const configuration = [
  HttpApiEndpoint.get("config", "/replay/api/v1/replay/config", { success: versioned(ReplayConfig) })
    .annotateMerge(access("recording:replay", { on: "service" })).annotateMerge(
      doc("Get replay configuration", "Limits of sessions."),
    ),
  HttpApiEndpoint.put("updateConfig", "/replay/api/v1/replay/config", {
    headers: ifMatch,
    payload: ReplayConfigUpdate,
    success: versioned(ReplayConfig),
    error: problems(VersionConflict),
  }).annotateMerge(access("system:write")).annotateMerge(
    doc("Change replay configuration", "Holds for sessions made from now on."),
  ),
] as const

const hls = [
  HttpApiEndpoint.get("master", "/replay/api/v1/hls/:sessionId/master.m3u8", {
    params: session,
    success: playlist,
    error: ofSession,
  })
    .annotateMerge(access("capability")).annotateMerge(streaming).annotateMerge(
      doc(
        "Get the HLS master playlist",
        "One variant, the pictures as the camera made them, and the wall clock as subtitles. G.711 sound, which browsers refuse " +
          "in MP4, is left out.",
      ),
    ),
  HttpApiEndpoint.get("playlist", "/replay/api/v1/hls/:sessionId/playlist.m3u8", {
    params: session,
    success: playlist,
    error: ofSession,
  })
    .annotateMerge(access("capability")).annotateMerge(streaming).annotateMerge(
      doc(
        "Get the HLS media playlist",
        "Footage that is missing is a discontinuity, followed by the wall clock of the next picture.",
      ),
    ),
  HttpApiEndpoint.get("subtitles", "/replay/api/v1/hls/:sessionId/subtitle-playlist.m3u8", {
    params: session,
    success: playlist,
    error: ofSession,
  }).annotateMerge(access("capability")).annotateMerge(streaming).annotateMerge(
    doc("Get the subtitle playlist", "WebVTT with the wall clock of every second and the causes of gaps."),
  ),
  HttpApiEndpoint.get("metadata", "/replay/api/v1/hls/:sessionId/metadata.vtt", {
    params: session,
    success: text,
    error: ofSession,
  })
    .annotateMerge(access("capability")).annotate(Marks, {
      streams: true,
      deprecation: metadataDeprecation("{sessionId}"),
    })
    .annotateMerge(
      doc("Get the metadata VTT (deprecated)", "One cue a run of footage, as JSON. Use the subtitle playlist."),
    ),
  HttpApiEndpoint.get("file", "/replay/api/v1/hls/:sessionId/:filename", {
    params: { ...session, filename: Schema.String.check(Schema.isMaxLength(160)) },
    success: [media, text],
    error: problems(ReplaySessionNotFound, ReplaySessionEnded, ReplayFileNotFound, DependencyUnavailable),
  }).annotateMerge(access("capability")).annotateMerge(streaming).annotateMerge(
    doc(
      "Get an HLS segment or initialization file",
      "Names come from the playlists and mean the same bytes for ever. `Range` is answered with 206, or 416.",
    ),
  ),
] as const

export class ReplayGroup extends HttpApiGroup.make("replay")
  .add(...sessions)
  .add(...configuration)
  .add(...hls)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Replay", description: "Recorded footage for players." }))
{}
