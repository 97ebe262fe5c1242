/**
 * The replay slice: messages of the entity `ReplaySession` and the interface of the service `Replays`.
 *
 * Invariants
 * 1. Sessions are opened and ended by their entity, a single writer; reads do not go through it.
 * 2. Entity type and message tags are a storage format: renaming one is a migration.
 * 3. The session id, a secret, is in no message and in no table: both know its SHA-256 only.
 */
import { EpochMs, type NodeId, RecordingId, RecordingToken, type ReplaySessionId, UserId } from "#schema/common.ts"
import { shardGroupOf } from "#schema/ownership.ts"
import { DependencyUnavailable, type InvalidInput, type VersionConflict } from "#schema/problem.ts"
import type { RecordingNotFound } from "#schema/record-config.ts"
import type {
  FootageNotFound,
  ReplayConfig,
  ReplayConfigUpdate,
  ReplayInfo,
  ReplayMaker,
  ReplaySession,
  ReplaySessionEnded,
  ReplaySessionNotFound,
  ReplayUriRequest,
} from "#schema/replay.ts"
import { Context, type Effect, Schema } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"

/** SHA-256 of a session id, base64url: names the session where its id must not stand. */
export const SessionDigest = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/))

/** What is fixed when a session is made. Times are epoch milliseconds. */
export const NewReplaySession = Schema.Struct({
  digest: SessionDigest,
  recordingId: RecordingId,
  recordingToken: RecordingToken,
  userId: UserId,
  /** The login session it was made in. */
  loginSessionId: Schema.String,
  start: EpochMs,
  end: Schema.NullOr(EpochMs),
  speed: Schema.Number,
  createdAt: EpochMs,
  expiresAt: EpochMs,
})
export type NewReplaySession = typeof NewReplaySession.Type

/** Entity id: `<slot>/<digest>`. */
export const ReplaySessionActor = Entity.make("ReplaySession", [
  Rpc.make("Open", {
    /** `keep`: the newest sessions of the user that stay, this one included; older ones end. */
    payload: { session: NewReplaySession, keep: Schema.Int },
    error: DependencyUnavailable,
  }),
  /** Idempotent. */
  Rpc.make("Revoke", { payload: { digest: SessionDigest }, error: DependencyUnavailable }),
]).annotate(ClusterSchema.ShardGroup, shardGroupOf)

/** What whoever knows a session's id may read. */
export interface ReplayGrant {
  /** Where it was opened: that node shows it. */
  readonly nodeId: NodeId
  /** Media that are under way close when it ends. */
  readonly loginSessionId: string
  /** Whose permission to replay it lives by. */
  readonly userId: UserId
  readonly recordingId: RecordingId
  readonly recordingToken: RecordingToken
  readonly start: EpochMs
  readonly end: EpochMs | null
  readonly speed: number
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs
}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export class Replays extends Context.Service<Replays, {
  /** The caller's permission to replay has been checked; the session is bound to the caller. */
  readonly open: (
    who: ReplayMaker,
    request: ReplayUriRequest,
  ) => Answer<ReplaySession, RecordingNotFound | FootageNotFound | InvalidInput>
  /** Also of a session that has ended, for a day. */
  readonly session: (id: ReplaySessionId) => Answer<ReplaySession, ReplaySessionNotFound>
  /**
   * Asked for every playlist and every segment, so it is answered from memory: a session that was revoked on another node is
   * refused within 10 s, one whose sign-in ended within 2 s, and a known session keeps playing while the database is away.
   */
  readonly grant: (id: ReplaySessionId) => Answer<ReplayGrant, ReplaySessionNotFound | ReplaySessionEnded>
  /** Ends every session of a user; answers how many there were. */
  readonly revokeUser: (userId: UserId) => Answer<number>
  readonly info: (token: RecordingToken) => Answer<ReplayInfo, RecordingNotFound | InvalidInput>
  readonly config: () => Answer<ReplayConfig>
  readonly updateConfig: (update: ReplayConfigUpdate, ifMatch: number | null) => Answer<ReplayConfig, VersionConflict>
}>()("nightjar/actors/Replays") {}
