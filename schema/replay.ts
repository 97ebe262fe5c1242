/**
 * Words of replay: sessions that let a player read the footage of an interval, their settings, and what can go wrong.
 *
 * Invariants
 * 1. A session's id is the only key to its media: 192 bits from the system's random source, never guessed, never listed.
 * 2. What a session may show (recording and interval) is fixed when it is made, by what its maker was allowed to see then.
 * 3. A session that has ended (expired or revoked) never comes back.
 */
import { Schema } from "effect"
import { Instant, NodeId, RecordingToken, ReplaySessionId, UserId } from "./common.ts"
import { Coverage } from "./record.ts"

/** Speed of playback: 0.25 to 16. From {@link keyPictureSpeed} on only key pictures are served. */
export const ReplaySpeed = Schema.Number.check(Schema.isBetween({ minimum: 0.25, maximum: 16 }))

/** From this speed on a player could not use all pictures anyway, so the session lists key pictures only. */
export const keyPictureSpeed = 4

export const ReplayUriRequest = Schema.Struct({
  recordingToken: RecordingToken,
  start: Instant,
  /** Left out: to the present and on, as the recording grows. */
  end: Schema.optionalKey(Instant),
  /** 1 if left out. */
  speed: Schema.optionalKey(ReplaySpeed),
  /**
   * Beyond the common contract, of a node that sews a replay: the edges lie at key pictures that another node shows from, or up to, as
   * that node's clock has them. The interval is to begin, or end, with the same pictures where this node has them.
   */
  startsAtKey: Schema.optionalKey(Schema.Boolean),
  endsAtKey: Schema.optionalKey(Schema.Boolean),
})
export type ReplayUriRequest = typeof ReplayUriRequest.Type

export const ReplayUri = Schema.Struct({
  sessionId: ReplaySessionId,
  /** Path of the master playlist on this server. */
  uri: Schema.String,
  expiresAt: Instant,
})
export type ReplayUri = typeof ReplayUri.Type

export const ReplaySessionState = Schema.Literals(["active", "expired", "revoked"])

/** Who a session is made for: a user in one of his sign-ins, or another node. It ends with the sign-in, or with the pairing. */
export interface ReplayMaker {
  readonly userId: UserId
  readonly sessionId: string
}

const peerPrefix = "peer:"

export const peerMaker = (nodeId: NodeId): ReplayMaker => ({
  userId: UserId.make(nodeId),
  sessionId: `${peerPrefix}${nodeId}`,
})

/** The node that a session was made for; null where it was a user. */
export const makingPeer = (loginSessionId: string): NodeId | null =>
  loginSessionId.startsWith(peerPrefix) ? NodeId.make(loginSessionId.slice(peerPrefix.length)) : null

export const ReplaySession = Schema.Struct({
  sessionId: ReplaySessionId,
  recordingToken: RecordingToken,
  start: Instant,
  /** `null`: open, it grows with the recording. */
  end: Schema.NullOr(Instant),
  speed: ReplaySpeed,
  state: ReplaySessionState,
  uri: Schema.String,
  userId: UserId,
  /** The node that serves it. */
  nodeId: NodeId,
  createdAt: Instant,
  expiresAt: Instant,
})
export type ReplaySession = typeof ReplaySession.Type

/** What there is to replay of a recording. */
export const ReplayInfo = Schema.Struct({
  recordingToken: RecordingToken,
  /** First and last moment any footage exists of; `null` while there is none. */
  oldest: Schema.NullOr(Instant),
  newest: Schema.NullOr(Instant),
  /** It is recording now: a session without an end grows. */
  growing: Schema.Boolean,
  speeds: Schema.Struct({ minimum: Schema.Number, maximum: Schema.Number, keyPicturesFrom: Schema.Number }),
  /** Of the whole time between `oldest` and `newest`; `null` while there is no footage. */
  coverage: Schema.NullOr(Coverage),
})
export type ReplayInfo = typeof ReplayInfo.Type

const configFields = {
  /** Life of a session, seconds: 60 to 604,800 (a week). */
  sessionSeconds: Schema.Int.check(Schema.isBetween({ minimum: 60, maximum: 604_800 })),
  /** Sessions one user may have at a time: 1 to 1,000. A new one beyond it ends the oldest. */
  sessionsPerUser: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 1_000 })),
  /** Longest interval of a session, hours: 1 to 744 (31 days). */
  maxIntervalHours: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 744 })),
}

export const ReplayConfig = Schema.Struct({ ...configFields, version: Schema.Int })
export type ReplayConfig = typeof ReplayConfig.Type

/** A replacement of the whole configuration. */
export const ReplayConfigUpdate = Schema.Struct(configFields)
export type ReplayConfigUpdate = typeof ReplayConfigUpdate.Type

/** In force until somebody changes it. */
export const defaultReplayConfig: ReplayConfigUpdate = {
  sessionSeconds: 21_600,
  sessionsPerUser: 64,
  maxIntervalHours: 168,
}

/** Never existed, or ended so long ago that nothing is known of it. */
export class ReplaySessionNotFound
  extends Schema.TaggedError<ReplaySessionNotFound>()("ReplaySessionNotFound", {}, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such replay session."
  }
}

/** It has ended: expired, revoked, or gone with the node that had it in memory. */
export class ReplaySessionEnded extends Schema.TaggedError<ReplaySessionEnded>()("ReplaySessionEnded", {
  state: Schema.Literals(["expired", "revoked", "gone"]),
}, { httpApiStatus: 410 }) {
  override get message(): string {
    return `This replay session is ${this.state}; ask for a new one.`
  }
}

/** Nothing was recorded in the interval, or it has been deleted since. */
export class FootageNotFound
  extends Schema.TaggedError<FootageNotFound>()("FootageNotFound", { start: Instant, end: Schema.NullOr(Instant) }, {
    httpApiStatus: 404,
  })
{
  override get message(): string {
    const end = this.end === null ? "now" : new Date(this.end).toISOString()
    return `There is no footage between ${new Date(this.start).toISOString()} and ${end}.`
  }
}

/** No file of that name belongs to the session, or its footage has been deleted. */
export class ReplayFileNotFound
  extends Schema.TaggedError<ReplayFileNotFound>()("ReplayFileNotFound", { filename: Schema.String }, {
    httpApiStatus: 404,
  })
{
  override get message(): string {
    return `This replay session has no file ${this.filename}.`
  }
}
