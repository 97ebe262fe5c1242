/** Handlers of the replay group: sessions from {@link Replays}, playlists and media from the door to HLS. */
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { type ReplayGrant, Replays } from "#actors/protocol/replay.ts"
import { Hls, type HlsSource } from "#media/hls.ts"
import type { StorageError } from "#media/storage.ts"
import type { Interval } from "#schema/common.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { makingPeer, peerMaker } from "#schema/replay.ts"
import { Clock, Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { createdAt, deprecationHeaders, expectedVersion, nightjar, withVersion } from "../contract/conventions.ts"
import { metadataDeprecation, ReplayGroup } from "../contract/replay.ts"
import { auditDetail, auditResource } from "./http-audit.ts"
import { makeGuard, makeSessionGuard } from "./http-resources.ts"
import { sendMedia, sendPlaylist, sendText } from "./replay-media.ts"

const sourceOf = ({ createdAt, end, recordingId, speed, start }: ReplayGrant): HlsSource => ({
  recordingId,
  start,
  end,
  speed,
  createdAt,
})

/** The disk is in trouble; which one and why is in the log, not in the answer. */
const diskTrouble = (error: StorageError) =>
  Effect.andThen(
    Effect.logWarning("Footage could not be read", error.message),
    Effect.fail(
      new DependencyUnavailable({
        dependency: "storage",
        message: "The footage cannot be read from its disk at the moment.",
      }),
    ),
  )

const maker = Effect.gen(function*() {
  const principal = yield* CurrentPrincipal
  return principal.kind === "peer" ? peerMaker(principal.nodeId) : yield* currentUser
})

export const ReplayHandlers = HttpApiBuilder.group(
  nightjar.add(ReplayGroup),
  "replay",
  Effect.fnUntraced(function*(handlers) {
    const replays = yield* Replays
    const recordings = yield* Recordings
    const hls = yield* Hls
    const guard = yield* makeGuard
    const tokens = yield* AccessTokens
    const peers = yield* PeerTokens
    const untilEnded = ({ loginSessionId }: ReplayGrant) => {
      const peer = makingPeer(loginSessionId)
      return peer === null ? tokens.untilEnded(loginSessionId) : peers.untilEnded(peer)
    }

    const stillAllowed = yield* makeSessionGuard

    const grantOf = (id: Parameters<typeof replays.grant>[0]) => Effect.tap(replays.grant(id), stillAllowed)
    const source = (id: Parameters<typeof replays.grant>[0]) => Effect.map(grantOf(id), sourceOf)
    /** Causes of gaps are a courtesy: without the database the clock is still shown. */
    const gaps = (grant: ReplayGrant, within: Interval) =>
      Effect.orElseSucceed(recordings.gaps(grant.recordingToken, within), () => [])

    return handlers
      .handle("uri", ({ payload }) =>
        Effect.gen(function*() {
          const { end, recordingToken: id, speed, start } = payload
          yield* auditResource({ kind: "recordingToken", id })
          const at = (ms: number) => new Date(ms).toISOString()
          yield* auditDetail({ start: at(start), end: end === undefined ? null : at(end), speed: speed ?? 1 })
          yield* guard("recording:replay", { kind: "recordingToken", id }, () => new RecordingNotFound({ id }))
          const { expiresAt, sessionId, uri } = yield* replays.open(yield* maker, payload)
          return createdAt(`/replay/api/v1/replay/session/${sessionId}`, { sessionId, uri, expiresAt })
        }))
      .handle("info", ({ params }) => replays.info(params.recordingToken))
      .handle("session", ({ params }) => replays.session(params.sessionId))
      .handle("config", () => Effect.map(replays.config(), withVersion))
      .handle("updateConfig", ({ headers, payload }) =>
        Effect.gen(function*() {
          return withVersion(yield* replays.updateConfig(payload, yield* expectedVersion(headers)))
        }))
      .handle(
        "master",
        ({ params }) => source(params.sessionId).pipe(Effect.flatMap(hls.master), Effect.flatMap(sendPlaylist)),
      )
      .handle(
        "playlist",
        ({ params }) => source(params.sessionId).pipe(Effect.flatMap(hls.playlist), Effect.flatMap(sendPlaylist)),
      )
      .handle(
        "subtitles",
        ({ params }) => source(params.sessionId).pipe(Effect.flatMap(hls.subtitles), Effect.flatMap(sendPlaylist)),
      )
      .handle("metadata", ({ params }) =>
        Effect.gen(function*() {
          const grant = yield* grantOf(params.sessionId)
          const known = yield* gaps(grant, { start: grant.start, end: grant.end ?? (yield* Clock.currentTimeMillis) })
          const text = yield* hls.metadata(sourceOf(grant), known)
          return sendText(text, deprecationHeaders(metadataDeprecation(params.sessionId)))
        }))
      .handle("file", ({ params }) =>
        Effect.gen(function*() {
          const grant = yield* grantOf(params.sessionId)
          const found = yield* hls.resource(sourceOf(grant), params.filename)
          if (found.kind === "media") return yield* sendMedia(found, untilEnded(grant))
          return sendText(found.render(yield* gaps(grant, found.interval)))
        }).pipe(Effect.catchTag("StorageError", diskTrouble)))
  }),
)
