/**
 * The service `FederatedLives`: a session here for each viewer of another node's channel, and one at that node behind it.
 *
 * Invariants
 * 1. A session ends with its viewer's sign-in, and with the permission on the channel as it is known here; the other node judges by what
 *    it gave to this one.
 * 2. Nothing is opened at the other node but what is asked for: WebRTC by an offer, HLS by its playlist.
 * 3. Files are streamed and never held. Sessions are in memory, {@link mostSessions} at most: the one that nobody asked for the longest
 *    time goes for a new one. One that nobody asked for {@link idleMs} is forgotten, as the other node has ended its own by then.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { FederatedChannels } from "#actors/protocol/bff-federation.ts"
import { FederatedLives, type LiveRelayRequest } from "#actors/protocol/bff-live.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Ownership } from "#cluster/ownership.ts"
import { FederatedSessionId } from "#schema/bff-federation.ts"
import { PeerLive } from "#schema/bff-live.ts"
import { LiveFileNotFound, LiveSessionNotFound } from "#schema/camera-live.ts"
import { ChannelNotFound } from "#schema/camera.ts"
import type { EpochMs } from "#schema/common.ts"
import type { PeerRefused } from "#schema/federation.ts"
import { decide } from "#schema/permission.ts"
import { Clock, Duration, Effect, Layer } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { makeTalk } from "./bff-talk.ts"
import { makeWhep, type Session, strange } from "./bff-whep.ts"

const mostSessions = 512
const idleMs = 30_000
/** Longer than the other node waits for a camera or a part (12 s). */
const patience = Duration.seconds(15)
/** What a player may ask with, and what it is told of a body (RFC 9110). */
const askedHeaders = ["range", "if-range", "if-none-match", "accept-encoding"]
const toldHeaders = [
  "content-type",
  "content-length",
  "content-range",
  "content-encoding",
  "accept-ranges",
  "etag",
  "age",
  "last-modified",
  "cache-control",
  "vary",
]

const only = (headers: Readonly<Record<string, string>>, names: ReadonlyArray<string>): Record<string, string> =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => names.includes(name)))

/** What the other node does not have is not here either. */
const absent =
  (filename: string) =>
  (error: PeerRefused): Effect.Effect<never, PeerRefused | LiveFileNotFound | LiveSessionNotFound> => {
    if (error.theirStatus !== 404) return Effect.fail(error)
    return Effect.fail(
      error.theirCode === "live_file_not_found" ? new LiveFileNotFound({ filename }) : new LiveSessionNotFound(),
    )
  }

export const layer = Layer.effect(
  FederatedLives,
  Effect.gen(function*() {
    const [channels, { slot }, peers, tokens] = yield* Effect.all([FederatedChannels, Ownership, Peers, AccessTokens])
    /** Who asked last comes last. */
    const sessions = new Map<FederatedSessionId, Session>()

    const sweep = (nowMs: EpochMs) => {
      for (const [id, { askedAt }] of sessions) if (askedAt < nowMs - idleMs) sessions.delete(id)
      const [oldest] = sessions.keys()
      if (sessions.size >= mostSessions && oldest !== undefined) sessions.delete(oldest)
    }

    const sessionOf = Effect.fnUntraced(function*(id: FederatedSessionId) {
      const session = sessions.get(id)
      if (session === undefined) return yield* new LiveSessionNotFound()
      const { channelId, who } = session
      const grants = (yield* tokens.grantsOf(who.userId)) ?? who.grants
      const allowed = decide({ ...who, grants }, "camera:live", [{ kind: "channel", id: channelId }]).allowed
      if (!allowed || (yield* tokens.hasEnded(who.sessionId))) {
        sessions.delete(id)
        return yield* new LiveSessionNotFound()
      }
      session.askedAt = yield* Clock.currentTimeMillis
      sessions.delete(id)
      sessions.set(id, session)
      return session
    })

    const { endWhep, whep } = yield* makeWhep(peers, sessionOf)

    /** Null: no HLS was asked for. */
    const pathOf = ({ hls, streamId }: Session, { filename, query }: LiveRelayRequest) => {
      if (filename === "snapshot.jpg") return `/camera/api/v1/streams/${streamId}/snapshot.jpg${query}`
      return hls === null ? null : `/camera/api/v1/live/hls/${hls.sessionId}/${filename}${query}`
    }

    const ask = (
      { nodeId, remoteChannelId, role, who }: Pick<Session, "nodeId" | "remoteChannelId" | "role" | "who">,
      hls: boolean,
    ) =>
      peers.call(nodeId, {
        method: "POST",
        path: `/federation/api/v1/federation/channels/${remoteChannelId}/live`,
        body: { json: { role, hls } },
        onBehalfOf: who.username,
        timeout: patience,
      }, PeerLive).pipe(Effect.catchTag("NodeNotFound", strange))

    /** Opens HLS there once it is asked for. */
    const masterOf = Effect.fnUntraced(function*(session: Session) {
      if (session.hls !== null) return session.hls.master
      const { master, sessionId } = yield* ask(session, true)
      if (master === null || sessionId === null) return yield* new LiveSessionNotFound()
      session.hls = { sessionId, master }
      return master
    })

    return FederatedLives.of({
      open: Effect.fn("FederatedLives.open")(function*(id, role, who) {
        const channel = yield* channels.get(id)
        if (channel === null) return yield* new ChannelNotFound({ id })
        const { nodeId, remoteChannelId } = channel
        const there = yield* ask({ nodeId, remoteChannelId, role, who }, false)
        const askedAt = yield* Clock.currentTimeMillis
        sweep(askedAt)
        const sessionId = FederatedSessionId.make(`${slot}.${randomBytes(24).toString("base64url")}`)
        const hls = there.sessionId === null || there.master === null ?
          null :
          { sessionId: there.sessionId, master: there.master }
        const { streamId } = there
        const session = { nodeId, channelId: id, remoteChannelId, role, streamId, who, askedAt, whep: null, hls }
        sessions.set(sessionId, session)
        const base = `/federation/api/v1/federation-live/hls/${sessionId}`
        const whepUri = `/federation/api/v1/federation-live/whep/${sessionId}`
        return { sessionId, nodeId, uri: `${base}/master.m3u8`, whepUri, snapshotUri: `${base}/snapshot.jpg` }
      }),
      whep,
      endWhep,
      ...(yield* makeTalk(peers, channels, tokens)),
      file: Effect.fn("FederatedLives.file")(function*(id, request) {
        const session = yield* sessionOf(id)
        if (request.filename === "master.m3u8") {
          const text = yield* masterOf(session)
          return { kind: "master", text, etag: createHash("sha1").update(text).digest("base64url") }
        }
        const path = pathOf(session, request)
        if (path === null) return yield* new LiveFileNotFound({ filename: request.filename })
        const answer = yield* peers.send(session.nodeId, {
          method: "GET",
          path,
          headers: only(request.headers, askedHeaders),
          onBehalfOf: session.who.username,
          timeout: patience,
        }).pipe(
          Effect.catchTag("NodeNotFound", strange),
          Effect.catchTag("PeerRefused", absent(request.filename)),
          // It has ended there: who asks for the playlist anew begins anew.
          Effect.tapError(({ _tag }) => Effect.sync(() => _tag === "LiveSessionNotFound" && (session.hls = null))),
        )
        return { kind: "media", media: { ...answer, headers: only(answer.headers, toldHeaders) } }
      }),
    })
  }),
)
