/**
 * The replay service: opens sessions through their entity, knows them by their ids, tells what there is to replay.
 *
 * Invariants
 * 1. A session id has 192 bits from the system's random source (not from the seeded one: it is a credential); only its
 *    SHA-256 is kept.
 * 2. A session shows what its maker was allowed to see when it was made; recording and interval never change.
 * 3. Known sessions are kept in memory for {@link freshMs}, and as long as the database is away, never beyond their end. A
 *    database that hangs holds a player up by {@link lookLimit} every {@link freshMs}, not longer.
 * 4. A session goes with the sign-in that it was opened in: at once where this node knows that it ended, and within
 *    {@link freshMs} of any later look where it did not hear of it.
 */
import { PeerTokens } from "#actors/protocol/auth-federation.ts"
import { Sessions } from "#actors/protocol/auth-users.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { type NewReplaySession, type ReplayGrant, Replays, ReplaySessionActor } from "#actors/protocol/replay.ts"
import { type ReplaySessionRow, ReplayStore } from "#actors/store/replay.ts"
import { Ownership } from "#cluster/ownership.ts"
import { atMost } from "#cluster/patience.ts"
import type { EpochMs, RecordingToken, ReplaySessionId } from "#schema/common.ts"
import { entityId } from "#schema/ownership.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import {
  FootageNotFound,
  keyPictureSpeed,
  makingPeer,
  type ReplayConfig,
  type ReplayMaker,
  type ReplaySession,
  ReplaySessionEnded,
  ReplaySessionNotFound,
  type ReplayUriRequest,
} from "#schema/replay.ts"
import { Clock, Duration, Effect, Layer, Option, Schedule } from "effect"
import type { Sharding } from "effect/cluster"
import { createHash, randomBytes } from "node:crypto"

/** How long a session that was read counts as known. */
const freshMs = 10_000
/** How long a known session waits for word of its end. */
const lookLimit = Duration.millis(500)
/** Sessions in memory, about 500 bytes each; the one read first leaves first. */
const rememberedSessions = 4_096
/** Ended sessions are remembered for a day, so that players hear 410 and not 404. */
const keepEndedMs = 86_400_000
/** A paired node asks for many people. */
const sessionsPerPeer = 1_000
const pruneEvery = Duration.hours(1)
/** A little longer than the entity's own limit, so that its answer is heard. */
const sendLimit = Duration.seconds(6)
/** Browsers' clocks are ahead of the node's now and then. */
const aheadMs = 60_000
const hourMs = 3_600_000

const digestOf = (id: ReplaySessionId): string => createHash("sha256").update(id).digest("base64url")

export const masterPath = (id: ReplaySessionId): string => `/replay/api/v1/hls/${id}/master.m3u8`

const stateOf = (row: ReplaySessionRow, nowMs: EpochMs): ReplaySession["state"] =>
  row.revokedAt !== null ? "revoked" : row.expiresAt <= nowMs ? "expired" : "active"

const sessionOf = (id: ReplaySessionId, row: ReplaySessionRow, nowMs: EpochMs): ReplaySession => ({
  sessionId: id,
  recordingToken: row.recordingToken,
  start: row.start,
  end: row.end,
  speed: row.speed,
  state: stateOf(row, nowMs),
  uri: masterPath(id),
  userId: row.userId,
  nodeId: row.nodeId,
  createdAt: row.createdAt,
  expiresAt: row.expiresAt,
})

/** Sessions that were read lately. */
const makeMemory = () => {
  const rows = new Map<string, { readonly row: ReplaySessionRow; readonly readAt: EpochMs }>()
  return {
    get: (digest: string) => rows.get(digest),
    put: (row: ReplaySessionRow, readAt: EpochMs) => {
      rows.delete(row.digest)
      rows.set(row.digest, { row, readAt })
      const [oldest] = rows.keys()
      if (rows.size > rememberedSessions && oldest !== undefined) rows.delete(oldest)
    },
    drop: (digest: string) => {
      rows.delete(digest)
    },
  }
}

const checked = (
  request: ReplayUriRequest,
  config: ReplayConfig,
  nowMs: EpochMs,
): Effect.Effect<void, InvalidInput> => {
  const { end, start } = request
  if (end !== undefined && end <= start) return Effect.fail(InvalidInput.at("/payload/end", "must lie after the start"))
  if (start > nowMs + aheadMs) return Effect.fail(InvalidInput.at("/payload/start", "must not lie in the future"))
  if ((end ?? nowMs) - start > config.maxIntervalHours * hourMs) {
    const pointer = end === undefined ? "/payload/start" : "/payload/end"
    return Effect.fail(InvalidInput.at(pointer, `the interval may have ${config.maxIntervalHours} hours at most`))
  }
  return Effect.void
}

const makeOpen = Effect.gen(function*() {
  const recordings = yield* Recordings
  const store = yield* ReplayStore
  const ownership = yield* Ownership
  const clientOf = yield* ReplaySessionActor.client

  return Effect.fnUntraced(function*(who: ReplayMaker, request: ReplayUriRequest) {
    const nowMs = yield* Clock.currentTimeMillis
    const config = yield* store.config()
    yield* checked(request, config, nowMs)
    const recording = yield* recordings.byToken(request.recordingToken)
    const { end = null, speed = 1, start } = request
    if (end !== null && end <= nowMs) {
      const files = yield* recordings.files(request.recordingToken, { start, end })
      if (files.length === 0) return yield* new FootageNotFound({ start, end })
    }
    const id = randomBytes(24).toString("base64url") as ReplaySessionId
    const session: NewReplaySession = {
      digest: digestOf(id),
      recordingId: recording.id,
      recordingToken: recording.recordingToken,
      userId: who.userId,
      loginSessionId: who.sessionId,
      start,
      end,
      speed,
      createdAt: nowMs,
      expiresAt: nowMs + config.sessionSeconds * 1000,
    }
    const keep = makingPeer(who.sessionId) === null ? config.sessionsPerUser : sessionsPerPeer
    yield* within(clientOf(entityId(ownership.slot, session.digest)).Open({ session, keep }))
    const row = { ...session, slot: ownership.slot, nodeId: ownership.nodeId, revokedAt: null }
    return { row, session: sessionOf(id, row, nowMs) }
  })
})

/** A message to an entity waits for ever while it has no owner; what the cluster says of itself is not for the caller. */
const within = <A, E>(
  send: Effect.Effect<A, E>,
): Effect.Effect<A, Extract<E, DependencyUnavailable> | DependencyUnavailable> => {
  const away = () =>
    Effect.fail(
      new DependencyUnavailable({ dependency: "node", message: "The session's node does not answer; try again." }),
    )
  return Effect.timeoutOrElse(send, { duration: sendLimit, orElse: away }).pipe(
    Effect.catch((error) => error instanceof DependencyUnavailable ? Effect.fail(error) : away()),
  )
}

const makeInfo = (recordings: Recordings["Service"]): Replays["Service"]["info"] =>
  Effect.fnUntraced(function*(token: RecordingToken) {
    const recording = yield* recordings.byToken(token)
    const bounds = yield* recordings.bounds(token)
    const coverage = bounds === null || bounds.newestMs <= bounds.oldestMs ?
      null :
      yield* recordings.coverage(recording.id, { start: bounds.oldestMs, end: bounds.newestMs })
    return {
      recordingToken: token,
      oldest: bounds?.oldestMs ?? null,
      newest: bounds?.newestMs ?? null,
      growing: recording.state === "recording",
      speeds: { minimum: 0.25, maximum: 16, keyPicturesFrom: keyPictureSpeed },
      coverage,
    }
  })

const make = Effect.gen(function*() {
  const store = yield* ReplayStore
  const recordings = yield* Recordings
  const clientOf = yield* ReplaySessionActor.client
  const open = yield* makeOpen
  const tokens = yield* AccessTokens
  const sessions = yield* Sessions
  const peers = yield* PeerTokens
  const memory = makeMemory()

  const isLive = (loginSessionId: string) => {
    const peer = makingPeer(loginSessionId)
    return peer === null ? sessions.isLive(loginSessionId) : Effect.map(peers.grantsOf(peer), (held) => held !== null)
  }

  /** As the tables say it: revoked, too, where the sign-in, or the pairing, that it was opened in is over. */
  const read = Effect.fnUntraced(function*(digest: string, nowMs: EpochMs) {
    const row = yield* store.get(digest)
    if (row === null || row.revokedAt !== null || (yield* isLive(row.loginSessionId))) return row
    return { ...row, revokedAt: nowMs }
  })

  /** The row as it is now; as it was known while the database is away. */
  const rowOf = Effect.fnUntraced(function*(id: ReplaySessionId, newest: boolean) {
    const digest = digestOf(id)
    const nowMs = yield* Clock.currentTimeMillis
    const known = memory.get(digest)
    if (!newest && known !== undefined && nowMs < known.readAt + freshMs) return known.row
    const row = known === undefined ?
      yield* read(digest, nowMs) :
      yield* atMost(read(digest, nowMs), lookLimit).pipe(
        Effect.map(Option.getOrElse(() => known.row)),
        Effect.catchTag("DependencyUnavailable", () => Effect.succeed(known.row)),
      )
    if (row === null) memory.drop(digest)
    else memory.put(row, nowMs)
    return row ?? (yield* new ReplaySessionNotFound())
  })

  yield* Effect.forkScoped(
    Effect.flatMap(Clock.currentTimeMillis, (nowMs) => store.prune(nowMs - keepEndedMs)).pipe(
      Effect.catchTag("DependencyUnavailable", () => Effect.void),
      Effect.repeat(Schedule.spaced(pruneEvery)),
    ),
  )

  return Replays.of({
    open: (who, request) =>
      Effect.map(open(who, request), ({ row, session }) => {
        memory.put(row, row.createdAt)
        return session
      }),
    session: Effect.fnUntraced(function*(id) {
      return sessionOf(id, yield* rowOf(id, true), yield* Clock.currentTimeMillis)
    }),
    grant: Effect.fnUntraced(function*(id) {
      const row = yield* rowOf(id, false)
      const over = yield* tokens.hasEnded(row.loginSessionId)
      const state = over ? "revoked" : stateOf(row, yield* Clock.currentTimeMillis)
      if (state !== "active") return yield* new ReplaySessionEnded({ state })
      return row satisfies ReplayGrant
    }),
    revokeUser: Effect.fnUntraced(function*(userId) {
      const sessions = yield* store.ofUser(userId, yield* Clock.currentTimeMillis)
      yield* Effect.forEach(
        sessions,
        ({ digest, slot }) =>
          Effect.andThen(
            within(clientOf(entityId(slot, digest)).Revoke({ digest })),
            Effect.sync(() => memory.drop(digest)),
          ),
        { concurrency: 8, discard: true },
      )
      return sessions.length
    }),
    info: makeInfo(recordings),
    config: () => store.config(),
    updateConfig: (update, ifMatch) => store.saveConfig(update, ifMatch),
  })
})

export const layer: Layer.Layer<
  Replays,
  never,
  ReplayStore | Recordings | Ownership | Sharding.Sharding | AccessTokens | PeerTokens | Sessions
> = Layer
  .effect(Replays, make)
