/**
 * A holder of footage, this node or a paired one, as replay sees it: sessions, playlists, files.
 *
 * Invariants
 * 1. A playlist of another node has {@link mostPlaylistBytes} at most; files are streamed and never held.
 */
import type { RelayedMedia } from "#actors/protocol/bff-federation.ts"
import { type PeerAnswer, Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Hls } from "#media/hls.ts"
import type { NodeId, ReplaySessionId } from "#schema/common.ts"
import { PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { FootageNotFound, ReplayFileNotFound, ReplayUri, ReplayUriRequest } from "#schema/replay.ts"
import { Effect, Schema, Stream } from "effect"

export type PlaylistName = "master.m3u8" | "playlist.m3u8" | "subtitle-playlist.m3u8"

/** A week of segments of six seconds. */
const mostPlaylistBytes = 16 << 20
/** What a player may ask with, and what it is told of a body (RFC 9110). */
const askedHeaders = ["range", "if-range"]
const toldHeaders = ["content-type", "content-length", "content-range", "accept-ranges", "etag", "cache-control"]

const only = (headers: Readonly<Record<string, string>>, names: ReadonlyArray<string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)))

/** The node is not one of ours any more: its footage cannot be had. */
const strange = ({ nodeId }: { readonly nodeId: string }) =>
  Effect.fail(new PeerUnreachable({ nodeId, reason: "it is not paired with this node any more" }))

const textOf = (nodeId: NodeId, { body }: PeerAnswer) =>
  Stream.runFoldEffect(body, () => ({ bytes: 0, parts: [] as Array<Uint8Array> }), (sum, part) => {
    const bytes = sum.bytes + part.length
    if (bytes > mostPlaylistBytes) {
      return Effect.fail(
        new PeerRefused({
          nodeId,
          theirStatus: 200,
          theirCode: "bad_answer",
          reason: "its playlist is larger than 16 MiB",
        }),
      )
    }
    sum.parts.push(part)
    return Effect.succeed({ bytes, parts: sum.parts })
  }).pipe(Effect.map(({ parts }) => Buffer.concat(parts).toString("utf8")))

export const makeHolders = Effect.gen(function*() {
  const [hls, identity, peers, replays] = yield* Effect.all([Hls, NodeIdentity, Peers, Replays])
  const recordings = yield* Recordings

  /** By this node's clock. */
  const byOwnClock = Effect.fnUntraced(function*(request: ReplayUriRequest) {
    if (request.startsAtKey !== true && request.endsAtKey !== true) return request
    const { id } = yield* recordings.byToken(request.recordingToken)
    return { ...request, ...yield* hls.edges(id, request) }
  })

  /** Null: it shows no footage yet. */
  const own = Effect.fnUntraced(function*(id: ReplaySessionId, name: PlaylistName) {
    const source = yield* replays.grant(id)
    const made = name === "master.m3u8" ?
      hls.master(source) :
      name === "playlist.m3u8" ?
      hls.playlist(source) :
      hls.subtitles(source)
    return yield* made.pipe(
      Effect.map(({ text }): string | null => text),
      Effect.catchTag("FootageNotFound", () => Effect.succeed(null)),
    )
  })

  const theirs = (nodeId: NodeId, id: ReplaySessionId, name: PlaylistName) =>
    Effect.scoped(
      Effect.flatMap(peers.send(nodeId, { method: "GET", path: `/replay/api/v1/hls/${id}/${name}` }), (answer) =>
        Effect.map(textOf(nodeId, answer), (text): string | null =>
          text)),
    ).pipe(
      Effect.catchTag("PeerRefused", (error) =>
        error.theirCode === "footage_not_found" ? Effect.succeed(null) : Effect.fail(error)),
      Effect.catchTag("NodeNotFound", strange),
    )

  const openThere = Effect.fnUntraced(function*(holder: NodeId, request: ReplayUriRequest, onBehalfOf: string) {
    const json = yield* Effect.orDie(Schema.encodeEffect(Schema.toCodecJson(ReplayUriRequest))(request))
    return yield* peers.call(
      holder,
      { method: "POST", path: "/replay/api/v1/replay/uri", body: { json }, onBehalfOf },
      ReplayUri,
    ).pipe(
      Effect.catchTag("NodeNotFound", strange),
      Effect.catchTag("PeerRefused", (error): Effect.Effect<never, PeerRefused | FootageNotFound> =>
        Effect.fail(
          error.theirStatus === 404 ? new FootageNotFound({ start: request.start, end: request.end ?? null }) : error,
        )),
    )
  })

  return {
    open: Effect.fnUntraced(function*(holder: NodeId, request: ReplayUriRequest, who: UserPrincipal) {
      const { sessionId } = holder === identity.nodeId ?
        yield* replays.open(who, yield* byOwnClock(request)) :
        yield* openThere(holder, request, who.username)
      return sessionId
    }),
    playlist: Effect.fnUntraced(function*(holder: NodeId, id: ReplaySessionId, name: PlaylistName) {
      return holder === identity.nodeId ? yield* own(id, name) : yield* theirs(holder, id, name)
    }),
    file: Effect.fnUntraced(
      function*(holder: NodeId, id: ReplaySessionId, filename: string, headers: Readonly<Record<string, string>>) {
        const answer = yield* peers.send(holder, {
          method: "GET",
          path: `/replay/api/v1/hls/${id}/${filename}`,
          headers: only(headers, askedHeaders),
          bulk: true,
        }).pipe(
          Effect.catchTag("NodeNotFound", strange),
          Effect.catchTag(
            "PeerRefused",
            (error): Effect.Effect<never, PeerRefused | ReplayFileNotFound> =>
              Effect.fail(error.theirStatus === 404 ? new ReplayFileNotFound({ filename }) : error),
          ),
        )
        return { ...answer, headers: only(answer.headers, toldHeaders) } satisfies RelayedMedia
      },
    ),
  }
})
