/**
 * Replay over the nodes that hold a recording: a session here for each stretch that one node can show, sewn together.
 *
 * Invariants
 * 1. A session is bound to its maker: it ends with the sign-in, with the permission, and after its time. What a paired node shows of it
 *    is besides judged by that node.
 * 2. Sessions are in memory, {@link mostSessions} at most, the oldest leaves first; a restart of this node ends them. One that is not
 *    known is told as ended (410), never as missing (404), by which players mean footage: it is to be asked for anew.
 * 3. A session without an end follows the recording from node to node: where another node goes on, its footage is appended, and what
 *    was shown of the node before stays as it was.
 * 4. What a node has told a player of and has no more, or cannot give now, is shown from whichever node has it (`bff-moved.ts`).
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import type { Federated, FileFound } from "#actors/protocol/bff-federation.ts"
import { Resources } from "#actors/protocol/permission.ts"
import type { ReplayGrant } from "#actors/protocol/replay.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Members } from "#cluster/members.ts"
import { Ownership } from "#cluster/ownership.ts"
import { momentIn } from "#media/hls-moment.ts"
import { joinMaster, joinMedia, type NoPlaylist } from "#media/hls-seam.ts"
import { type FederatedReplay, FederatedSessionId } from "#schema/bff-federation.ts"
import type { EpochMs, NodeId, RecordingToken, ReplaySessionId } from "#schema/common.ts"
import { PeerRefused } from "#schema/federation.ts"
import { decide, type ResourceRef, unnarrowed, type UserPrincipal } from "#schema/permission.ts"
import { InvalidInput } from "#schema/problem.ts"
import {
  FootageNotFound,
  makingPeer,
  ReplayFileNotFound,
  ReplaySessionEnded,
  ReplaySessionNotFound,
  type ReplayUriRequest,
} from "#schema/replay.ts"
import { Clock, Effect, Result } from "effect"
import { createHash, randomBytes } from "node:crypto"
import { makeHolders, type PlaylistName } from "./bff-holders.ts"
import { makeMoved, type Moving } from "./bff-moved.ts"
import { type Asked, endOf, makePlans, mostParts, type Part, segmentsIn } from "./bff-plan.ts"
import { makeSources } from "./bff-sources.ts"

/** About 20 KiB each with the playlists of a day. */
const mostSessions = 512
const sessionMs = 6 * 3_600_000
/** How often a session without an end looks whether another node goes on. */
const lookEveryMs = 5_000
/** Footage that comes later may have longer segments than what is there: groups of pictures rarely last longer. */
const growingTargetSeconds = 12

export const basePath = "/federation/api/v1/federation-replay/hls"

interface Session extends Asked {
  readonly id: FederatedSessionId
  readonly token: RecordingToken
  readonly place: ReadonlyArray<ResourceRef> | null
  readonly expiresAt: EpochMs
  readonly parts: Array<Part>
  readonly createdAt: EpochMs
  /** Footage up to here was looked for. */
  seenTo: EpochMs
  lookedAt: EpochMs
}

const grows = ({ request }: Session) => request.end === undefined

const makeShelf = () => {
  const sessions = new Map<FederatedSessionId, Session>()
  return {
    get: (id: FederatedSessionId) => sessions.get(id) ?? null,
    put: (session: Session) => {
      sessions.set(session.id, session)
      const [oldest] = sessions.keys()
      if (sessions.size > mostSessions && oldest !== undefined) sessions.delete(oldest)
    },
    drop: (id: FederatedSessionId) => {
      sessions.delete(id)
    },
  }
}

/** A text of another node that is no playlist. */
const unusable = (holder: NodeId) => ({ reason }: NoPlaylist) =>
  new PeerRefused({
    nodeId: holder,
    theirStatus: 200,
    theirCode: "bad_answer",
    reason: `its playlist cannot be used: ${reason}`,
  })

export const makeReplay = Effect.gen(function*() {
  const [tokens, resources, identity] = yield* Effect.all([AccessTokens, Resources, NodeIdentity])
  const [members, ownership] = yield* Effect.all([Members, Ownership])
  const [gather, holders, shelf] = [yield* makeSources, yield* makeHolders, makeShelf()]
  const moved = yield* makeMoved(gather, holders)

  const { begin: beginParts, onwards, plan } = makePlans(gather, holders)

  /** Its maker may still see it. */
  const sessionOf = Effect.fnUntraced(function*(id: FederatedSessionId) {
    const session = shelf.get(id)
    if (session === null) return yield* new ReplaySessionEnded({ state: "gone" })
    if (session.expiresAt <= (yield* Clock.currentTimeMillis)) {
      return yield* new ReplaySessionEnded({ state: "expired" })
    }
    const grants = yield* tokens.grantsOf(session.who.userId)
    const maker: UserPrincipal = { ...session.who, grants: grants ?? session.who.grants }
    const allowed = session.place === null ?
      unnarrowed(maker, "recording:replay") :
      decide(maker, "recording:replay", session.place).allowed
    if (!allowed || (yield* tokens.hasEnded(session.who.sessionId))) {
      shelf.drop(id)
      return yield* new ReplaySessionEnded({ state: "revoked" })
    }
    return session
  })

  const textOf = (session: Session, part: Part, name: PlaylistName) => {
    const known = part.texts.get(name) ?? null
    // A playlist that has ended stays as it was told, whatever has become of the footage.
    if (known !== null && (part.closed || known.includes("#EXT-X-ENDLIST"))) return Effect.succeed(known)
    return holders.playlist(part.holder, part.sessionId, name).pipe(
      Effect.flatMap((text) =>
        // What it told of before stands, also where it has forgotten that it did.
        text === null || segmentsIn(text) < segmentsIn(known ?? "") ?
          Effect.succeed(known) :
          moved.playlist(movingOf(session, part), part.holder, text)
      ),
      Effect.tap((text) => Effect.sync(() => text === null ? undefined : part.texts.set(name, text))),
      // A node that is away keeps its place: what it has shown is shown on, and its segments come when it is back.
      Effect.catchTag("PeerUnreachable", (error) => known === null ? Effect.fail(error) : Effect.succeed(known)),
    )
  }

  /** Another node may have gone on with the recording. A node that cannot be asked now is asked again. */
  const follow = Effect.fnUntraced(function*(session: Session, nowMs: EpochMs) {
    if (!grows(session) || nowMs < session.lookedAt + lookEveryMs || session.parts.length >= mostParts) return
    session.lookedAt = nowMs
    const last = session.parts.at(-1)
    const told = last === undefined ? Effect.succeed(null) : textOf(session, last, "playlist.m3u8")
    const { parts, seenTo } = yield* onwards({ ...session, of: last?.holder ?? null, nowMs }, told)
    session.seenTo = seenTo
    if (parts.length === 0) return
    if (last !== undefined) last.closed = true
    session.parts.push(...parts.slice(0, mostParts - session.parts.length))
  })

  const movingOf = ({ createdAt, id, paired, parts, request, token, who }: Session, part: Part): Moving => ({
    id: `${id}/${parts.indexOf(part)}`,
    token,
    request,
    who,
    paired,
    createdAt,
  })

  const prefixOf = (session: Session, { holder, sessionId }: Part, at: number) =>
    holder === identity.nodeId ? `/replay/api/v1/hls/${sessionId}/` : `${basePath}/${holder}/${session.id}/${at}-`

  /** A new session over what the nodes have; which nodes it is made of is told beside it. */
  const begin = Effect.fnUntraced(function*(asked: Asked, expiresAt: EpochMs) {
    const nowMs = yield* Clock.currentTimeMillis
    const { recordingToken: token, start } = asked.request
    const { partial, parts, sources, spans } = yield* beginParts(asked, nowMs)
    const session: Session = {
      ...asked,
      id: FederatedSessionId.make(`${ownership.slot}.${randomBytes(24).toString("base64url")}`),
      token,
      place: yield* resources.containing({ kind: "recordingToken", id: token }),
      expiresAt,
      createdAt: nowMs,
      parts: [...parts],
      seenTo: Math.max(start, ...spans.map(({ end }) => end)),
      lookedAt: nowMs,
    }
    shelf.put(session)
    return { session, partial, sources }
  })

  const open = Effect.fn("Federated.open")(function*(request: ReplayUriRequest, who: UserPrincipal) {
    const nowMs = yield* Clock.currentTimeMillis
    if ((request.end ?? nowMs) <= request.start) {
      return yield* InvalidInput.at("/payload/end", "must lie after the start")
    }
    const { partial, session, sources } = yield* begin({ request, who, paired: "paired nodes too" }, nowMs + sessionMs)
    return {
      sessionId: session.id,
      uri: `${basePath}/${identity.nodeId}/${session.id}/master.m3u8`,
      expiresAt: session.expiresAt,
      partial,
      sources,
    } satisfies FederatedReplay
  })

  const joined = Effect.fnUntraced(function*(session: Session, name: PlaylistName) {
    yield* follow(session, yield* Clock.currentTimeMillis).pipe(
      Effect.catch((error) => Effect.logDebug("Where a replay goes on could not be asked", { reason: error.message })),
    )
    const texts = yield* Effect.forEach(
      session.parts,
      (part, at) =>
        Effect.map(textOf(session, part, name), (text) =>
          text === null ? [] : [{ text, prefix: prefixOf(session, part, at) }]),
      { concurrency: 4 },
    )
    const { request: { end, start } } = session
    if (texts.every((some) => some.length === 0)) return yield* new FootageNotFound({ start, end: end ?? null })
    const holder = session.parts.find((part) => part.holder !== identity.nodeId)?.holder ?? identity.nodeId
    const made = name === "master.m3u8" ?
      joinMaster(texts.flat(), { playlist: "playlist.m3u8", subtitles: "subtitle-playlist.m3u8" }) :
      Result.map(
        joinMedia(texts.flat(), { grows: grows(session), targetSeconds: grows(session) ? growingTargetSeconds : 1 }),
        ({ text }) => text,
      )
    const text = yield* Effect.mapError(Effect.fromResult(made), unusable(holder))
    return { text, etag: createHash("sha1").update(text).digest("base64url") }
  })
  const playlist = Effect.fn("Federated.playlist")(
    function*(id: FederatedSessionId, nodeId: NodeId, name: PlaylistName) {
      if (nodeId !== identity.nodeId) return yield* new ReplayFileNotFound({ filename: name })
      return yield* joined(yield* sessionOf(id), name)
    },
  )

  /** Sessions of this node's own replay that other members have a part in; null: none has, when that was looked at. */
  const sewn = new Map<ReplaySessionId, { readonly id: FederatedSessionId | null; readonly lookedAt: EpochMs }>()
  const remember = (id: ReplaySessionId, to: FederatedSessionId | null, lookedAt: EpochMs) => {
    sewn.delete(id)
    sewn.set(id, { id: to, lookedAt })
    const [oldest] = sewn.keys()
    if (sewn.size > mostSessions && oldest !== undefined) sewn.delete(oldest)
  }
  const sew = Effect.fnUntraced(function*(id: ReplaySessionId, asked: Asked, expiresAt: EpochMs, name: PlaylistName) {
    const { session } = yield* begin(asked, expiresAt)
    remember(id, session.id, session.createdAt)
    return yield* joined(yield* sessionOf(session.id), name)
  })
  const ofReplay = Effect.fn("Federated.ofReplay")(
    function*(id: ReplaySessionId, grant: ReplayGrant, name: PlaylistName) {
      // Another node asks for what is here.
      if (makingPeer(grant.loginSessionId) !== null || (yield* members.list).length < 2) return null
      const nowMs = yield* Clock.currentTimeMillis
      const known = sewn.get(id)
      const session = known === undefined || known.id === null ? null : shelf.get(known.id)
      if (session !== null) return yield* joined(yield* sessionOf(session.id), name)
      if (known !== undefined && known.id === null && nowMs < known.lookedAt + lookEveryMs) return null
      const { end, expiresAt, loginSessionId: sessionId, recordingToken, speed, start, userId } = grant
      const who: UserPrincipal = { kind: "user", userId, username: userId, sessionId, grants: [] }
      const request = { recordingToken, start, speed, ...endOf(end ?? undefined) }
      const asked: Asked = { request, who, paired: "this cluster" }
      const { sources, stretches } = yield* plan(recordingToken, { start, end: end ?? nowMs }, asked)
      if (
        stretches.every(({ holder }) => holder === identity.nodeId) && (stretches.length > 0 || sources.length === 1)
      ) {
        remember(id, null, nowMs)
        return null
      }
      return yield* sew(id, asked, expiresAt, name)
    },
    // The recording was there when the session was opened, and its interval was looked at then.
    (work) =>
      Effect.catchTags(work, {
        InvalidInput: () => Effect.succeed(null),
        RecordingNotFound: () => Effect.fail(new ReplaySessionNotFound()),
      }),
  )

  /** From another node than the one that was to have it. */
  const instead = Effect.fnUntraced(
    function*<E>(session: Session, part: Part, filename: string, headers: Readonly<Record<string, string>>, why: E) {
      for (const text of part.texts.values()) {
        const moment = momentIn(text, filename)
        const found = moment === null ?
          null :
          yield* moved.file(movingOf(session, part), part.holder, moment.name, headers)
        if (found !== null) return found
      }
      return yield* Effect.fail(why)
    },
  )

  const relay: Federated["Service"]["relay"] = Effect.fn("Federated.relay")(
    function*(id, nodeId, { filename, headers }) {
      const session = yield* sessionOf(id)
      const named = /^(0|[1-9]\d?)-([A-Za-z0-9_-]+\.[A-Za-z0-9]+)$/.exec(filename)
      const part = named === null ? undefined : session.parts[Number(named[1])]
      if (named === null || part === undefined || part.holder !== nodeId || nodeId === identity.nodeId) {
        return yield* new ReplayFileNotFound({ filename })
      }
      const name = named[2] ?? ""
      return yield* holders.file(nodeId, part.sessionId, name, headers).pipe(
        Effect.map((media): FileFound => ({ kind: "relayed", media })),
        Effect.catchTags({
          ReplayFileNotFound: (error) => instead(session, part, name, headers, error),
          PeerUnreachable: (error) => instead(session, part, name, headers, error),
        }),
      )
    },
  )

  const ofGrant = (id: ReplaySessionId, grant: ReplayGrant): Moving => {
    const { createdAt, end, loginSessionId, recordingToken, speed, start, userId } = grant
    return {
      id,
      token: recordingToken,
      request: { recordingToken, start, speed, ...endOf(end ?? undefined) },
      who: { kind: "user", userId, username: userId, sessionId: loginSessionId, grants: [] },
      paired: "paired nodes too",
      createdAt,
    }
  }
  const gone: Federated["Service"]["gone"] = Effect.fn("Federated.gone")(function*(id, grant, name) {
    if (makingPeer(grant.loginSessionId) !== null) return null
    const known = sewn.get(id)?.id ?? null
    const session = known === null ? null : shelf.get(known)
    if (session !== null) return yield* joined(yield* sessionOf(session.id), name)
    const { paired, request, who } = ofGrant(id, grant)
    return yield* sew(id, { paired, request, who }, grant.expiresAt, name)
  }, (work) =>
    Effect.catchTags(work, {
      FootageNotFound: () => Effect.succeed(null),
      InvalidInput: () => Effect.succeed(null),
      RecordingNotFound: () => Effect.succeed(null),
    }))
  // Another node asks for what is here, and finds by itself where the rest is.
  const departed: Federated["Service"]["departed"] = (id, grant, { filename, headers }) =>
    makingPeer(grant.loginSessionId) === null ?
      moved.file(ofGrant(id, grant), identity.nodeId, filename, headers) :
      Effect.succeed(null)
  const unmoved: Federated["Service"]["unmoved"] = (id, grant, text) =>
    makingPeer(grant.loginSessionId) === null ?
      moved.playlist(ofGrant(id, grant), identity.nodeId, text) :
      Effect.succeed(text)

  return { departed, gather, gone, ofReplay, open, playlist, relay, unmoved }
})
