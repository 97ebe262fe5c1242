/**
 * The service `FederatedLives`: a session here for each viewer of another node's channel, and one at that node behind it.
 *
 * Invariants
 * 1. A session ends with its viewer's sign-in, and with the permission on the channel as it is known here; the other node judges by what
 *    it gave to this one.
 * 2. Files are streamed and never held. Sessions are in memory, {@link mostSessions} at most: the one that nobody asked for the longest
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

    const pathOf = ({ there: { sessionId, streamId } }: Session, { filename, query }: LiveRelayRequest) =>
      filename === "snapshot.jpg" ?
        `/camera/api/v1/streams/${streamId}/snapshot.jpg${query}` :
        `/camera/api/v1/live/hls/${sessionId}/${filename}${query}`

    return FederatedLives.of({
      open: Effect.fn("FederatedLives.open")(function*(id, role, who) {
        const channel = yield* channels.get(id)
        if (channel === null) return yield* new ChannelNotFound({ id })
        const { nodeId, remoteChannelId } = channel
        const there = yield* peers.call(nodeId, {
          method: "POST",
          path: `/federation/api/v1/federation/channels/${remoteChannelId}/live`,
          body: { json: { role } },
          onBehalfOf: who.username,
          timeout: patience,
        }, PeerLive).pipe(Effect.catchTag("NodeNotFound", strange))
        const askedAt = yield* Clock.currentTimeMillis
        sweep(askedAt)
        const sessionId = FederatedSessionId.make(`${slot}.${randomBytes(24).toString("base64url")}`)
        sessions.set(sessionId, { nodeId, channelId: id, there, who, askedAt, whep: null })
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
          const text = session.there.master
          return { kind: "master", text, etag: createHash("sha1").update(text).digest("base64url") }
        }
        const answer = yield* peers.send(session.nodeId, {
          method: "GET",
          path: pathOf(session, request),
          headers: only(request.headers, askedHeaders),
          onBehalfOf: session.who.username,
          timeout: patience,
        }).pipe(Effect.catchTag("NodeNotFound", strange), Effect.catchTag("PeerRefused", absent(request.filename)))
        return { kind: "media", media: { ...answer, headers: only(answer.headers, toldHeaders) } }
      }),
    })
  }),
)
