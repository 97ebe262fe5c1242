/** Handlers of the replay group: sessions from {@link Replays}, playlists and media from the door to HLS. */
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Federated } from "#actors/protocol/bff-federation.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { type ReplayGrant, Replays } from "#actors/protocol/replay.ts"
import { Hls, type HlsPlaylist, type HlsSource } from "#media/hls.ts"
import type { Interval } from "#schema/common.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { RecordingNotFound } from "#schema/record-config.ts"
import { makingPeer, peerMaker, type ReplayUriRequest } from "#schema/replay.ts"
import { Clock, Effect, Result } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { createdAt, deprecationHeaders, expectedVersion, nightjar, withVersion } from "../contract/conventions.ts"
import { metadataDeprecation, ReplayGroup } from "../contract/replay.ts"
import { auditDetail, auditResource } from "./http-audit.ts"
import { makeElsewhere } from "./http-elsewhere.ts"
import { makeGuard, makeSessionGuard } from "./http-resources.ts"
import { diskTrouble, makeSendFound } from "./replay-found.ts"
import { sendMedia, sendPlaylist, sendText } from "./replay-media.ts"

const sourceOf = ({ createdAt, end, recordingId, speed, start }: ReplayGrant): HlsSource => ({
  recordingId,
  start,
  end,
  speed,
  createdAt,
})

const maker = Effect.gen(function*() {
  const principal = yield* CurrentPrincipal
  return principal.kind === "peer" ? peerMaker(principal.nodeId) : yield* currentUser
})

export const ReplayHandlers = HttpApiBuilder.group(
  nightjar.add(ReplayGroup),
  "replay",
  Effect.fnUntraced(function*(handlers) {
    const [elsewhere, federated, replays] = [yield* makeElsewhere, yield* Federated, yield* Replays]
    const recordings = yield* Recordings
    const hls = yield* Hls
    const guard = yield* makeGuard
    const tokens = yield* AccessTokens
    const peers = yield* PeerTokens
    const untilEnded = ({ loginSessionId }: ReplayGrant) => {
      const peer = makingPeer(loginSessionId)
      return peer === null ? tokens.untilEnded(loginSessionId) : peers.untilEnded(peer)
    }

    const [sendFound, stillAllowed] = [yield* makeSendFound, yield* makeSessionGuard]

    const grantOf = (id: Parameters<typeof replays.grant>[0]) => Effect.tap(replays.grant(id), stillAllowed)
    /** The member that opened it, where that is another one and answers. */
    const opener = ({ nodeId }: ReplayGrant) =>
      elsewhere.member(nodeId).pipe(Effect.catchTag("DependencyUnavailable", () => Effect.succeed(null)))
    const away = ({ message }: { readonly message: string }) =>
      new DependencyUnavailable({ dependency: "node", message })
    /** What has gone to another node is not called gone. */
    const complete = Effect.fnUntraced(
      function*(id: Parameters<typeof replays.grant>[0], grant: ReplayGrant, made: HlsPlaylist) {
        const text = yield* federated.unmoved(id, grant, made.text)
        return text === made.text ? made : { text, etag: `${made.etag}.${text.length}` }
      },
    )
    /** From this node's disks, or sewn from those of the cluster. */
    const playlist = Effect.fnUntraced(
      function*(
        id: Parameters<typeof replays.grant>[0],
        name: "master.m3u8" | "playlist.m3u8" | "subtitle-playlist.m3u8",
        own: typeof hls.master,
      ) {
        const grant = yield* grantOf(id)
        const other = yield* opener(grant)
        if (other !== null) return yield* elsewhere.pass(other)
        const made = Effect.gen(function*() {
          const sewn = yield* federated.ofReplay(id, grant, name)
          if (sewn !== null) return sewn
          const here = yield* Effect.result(own(sourceOf(grant)))
          if (Result.isSuccess(here)) return yield* complete(id, grant, here.success)
          return (yield* federated.gone(id, grant, name)) ?? (yield* here.failure)
        })
        return yield* sendPlaylist(
          yield* Effect.catchTags(made, {
            PeerUnreachable: (error) => Effect.fail(away(error)),
            PeerRefused: (error) => Effect.fail(away(error)),
          }),
        )
      },
    )
    /** Causes of gaps are a courtesy: without the database the clock is still shown. */
    const gaps = (grant: ReplayGrant, within: Interval) =>
      Effect.orElseSucceed(recordings.gaps(grant.recordingToken, within), () => [])

    /** A file that has left this node, from the one that has it; null where there is none. */
    const elsewhereNow = Effect.fnUntraced(
      function*(id: Parameters<typeof replays.grant>[0], grant: ReplayGrant, filename: string) {
        const name = hls.departed(sourceOf(grant), filename)
        if (name === null) return null
        const { headers } = yield* HttpServerRequest.HttpServerRequest
        return yield* federated.departed(id, grant, { filename: name, headers })
      },
    )

    /** Edges that another node tells are put where this node's clock has them. */
    const byOwnClock = Effect.fnUntraced(function*(request: ReplayUriRequest) {
      if (request.startsAtKey !== true && request.endsAtKey !== true) return request
      const { id } = yield* recordings.byToken(request.recordingToken)
      return { ...request, ...yield* hls.edges(id, request) }
    })

    return handlers
      .handle("uri", ({ payload }) =>
        Effect.gen(function*() {
          const { end, recordingToken: id, speed, start } = payload
          yield* auditResource({ kind: "recordingToken", id })
          const at = (ms: number) => new Date(ms).toISOString()
          yield* auditDetail({ start: at(start), end: end === undefined ? null : at(end), speed: speed ?? 1 })
          yield* guard("recording:replay", { kind: "recordingToken", id }, () => new RecordingNotFound({ id }))
          const { expiresAt, sessionId, uri } = yield* replays.open(yield* maker, yield* byOwnClock(payload))
          return createdAt(`/replay/api/v1/replay/session/${sessionId}`, { sessionId, uri, expiresAt })
        }))
      .handle("info", ({ params }) => replays.info(params.recordingToken))
      .handle("session", ({ params }) => replays.session(params.sessionId))
      .handle("config", () => Effect.map(replays.config(), withVersion))
      .handle("updateConfig", ({ headers, payload }) =>
        Effect.gen(function*() {
          return withVersion(yield* replays.updateConfig(payload, yield* expectedVersion(headers)))
        }))
      .handle("master", ({ params }) => playlist(params.sessionId, "master.m3u8", hls.master))
      .handle("playlist", ({ params }) => playlist(params.sessionId, "playlist.m3u8", hls.playlist))
      .handle("subtitles", ({ params }) => playlist(params.sessionId, "subtitle-playlist.m3u8", hls.subtitles))
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
          const other = yield* opener(grant)
          if (other !== null) {
            return yield* elsewhere.pass(other)
          }
          const found = yield* hls.resource(sourceOf(grant), params.filename).pipe(
            Effect.catchTag("ReplayFileNotFound", (error) =>
              elsewhereNow(params.sessionId, grant, params.filename).pipe(Effect.flatMap((one) =>
                one === null ? Effect.fail(error) : Effect.succeed(one)
              ))),
          )
          if (found.kind === "own" || found.kind === "relayed") return yield* sendFound(found)
          if (found.kind === "media") return yield* sendMedia(found, untilEnded(grant))
          return sendText(found.render(yield* gaps(grant, found.interval)))
        }).pipe(Effect.catchTag("StorageError", diskTrouble)))
  }),
)
