/**
 * Talking to a camera: who does, since when, and what is in the way.
 *
 * Invariants
 * 1. One talker a camera. Who is refused learns who talks.
 */
import { Schema } from "effect"
import { CameraId, Instant, StreamId, UserId, Uuid7 } from "./common.ts"

/** G.711 at 8 kHz (RFC 3551, section 4.5.14). */
export const TalkCodec = Schema.Literals(["pcmu", "pcma"])
export type TalkCodec = typeof TalkCodec.Type

export const TalkHolder = Schema.Struct({ userId: UserId, username: Schema.String }).annotate({
  identifier: "TalkHolder",
})

/** A camera's loudspeaker, held by one user. */
export const TalkSession = Schema.Struct({
  id: Uuid7,
  streamId: StreamId,
  cameraId: CameraId,
  holder: TalkHolder,
  /** How the talker comes in. */
  via: Schema.Literals(["http", "rtsp"]),
  /** What the camera takes, and the talker has to send. */
  codec: TalkCodec,
  since: Instant,
  /** When it ends unless something is heard until then. */
  until: Instant,
  /** Where a browser offers its microphone (WHIP, RFC 9725). */
  whipUrl: Schema.String,
}).annotate({ identifier: "TalkSession" })
export type TalkSession = typeof TalkSession.Type

/** Of a session on the node that holds it. */
export const TalkStatus = Schema.Struct({
  streamId: StreamId,
  cameraId: CameraId,
  active: Schema.Boolean,
  /** Null: nobody talks. */
  session: Schema.NullOr(Schema.Struct({
    id: Uuid7,
    streamId: StreamId,
    holder: TalkHolder,
    via: Schema.Literals(["http", "rtsp"]),
    since: Instant,
    until: Instant,
    /** The caller holds it in this login session. */
    mine: Schema.Boolean,
    nodeId: Uuid7,
  })),
}).annotate({ identifier: "TalkStatus" })
export type TalkStatus = typeof TalkStatus.Type

/** What the entity of a camera remembers of who talks; times in epoch milliseconds. */
export const TalkLease = Schema.Struct({
  id: Uuid7,
  cameraId: CameraId,
  streamId: StreamId,
  userId: UserId,
  username: Schema.String,
  /** The login session. */
  sessionId: Schema.String,
  nodeId: Uuid7,
  via: Schema.Literals(["http", "rtsp"]),
  sinceMs: Schema.Int,
  untilMs: Schema.Int,
})
export type TalkLease = typeof TalkLease.Type

/** Somebody else talks. */
export class TalkBackTaken extends Schema.TaggedError<TalkBackTaken>()("TalkBackTaken", {
  holder: Schema.String,
  since: Instant,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `${this.holder} is talking to this camera.`
  }
}

/** The camera has no loudspeaker that this node could speak to. */
export class TalkBackUnsupported extends Schema.TaggedError<TalkBackUnsupported>()("TalkBackUnsupported", {
  detail: Schema.String,
}, { httpApiStatus: 501 }) {
  override get message(): string {
    return `This camera cannot be talked to: ${this.detail}.`
  }
}

/** The caller holds no session there, or it is over. */
export class TalkBackNotOpen extends Schema.TaggedError<TalkBackNotOpen>()("TalkBackNotOpen", {}, {
  httpApiStatus: 404,
}) {
  override get message(): string {
    return "You do not talk to this camera; begin a session first."
  }
}

/** The session of the caller is on another node. */
export class TalkBackElsewhere extends Schema.TaggedError<TalkBackElsewhere>()("TalkBackElsewhere", {
  nodeId: Uuid7,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "This session is held by another node; end it, or speak to that one."
  }
}

/** What a browser offered cannot be taken. */
export class TalkOfferRefused extends Schema.TaggedError<TalkOfferRefused>()("TalkOfferRefused", {
  detail: Schema.String,
}, { httpApiStatus: 422 }) {
  override get message(): string {
    return `The offer cannot be answered: ${this.detail}`
  }
}
