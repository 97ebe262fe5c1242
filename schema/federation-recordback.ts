/**
 * Words of record-back: how footage that another node recorded comes home. Design: failover, "Record-back".
 *
 * Invariants
 * 1. A segment is a run of whole fragments of one file. It is named by recording, epoch and sequence, and proven by its SHA-256;
 *    its bytes are never changed on the way.
 * 2. A manifest and its answer are bounded: {@link maxManifest} segments.
 */
import { Schema } from "effect"
import { ChannelId, EpochMs, Instant, NodeId, RecordingId, Uuid7 } from "./common.ts"
import { RecordBackProgress } from "./federation.ts"
import { GapCause } from "./record.ts"

/** Segments are cut below this; a single fragment that is larger is a segment by itself. */
export const maxSegmentBytes = 16 * 1024 * 1024
/** What is taken at most: a fragment of a second at 512 Mbit/s. */
export const hardestSegmentBytes = 64 * 1024 * 1024
/** Initialisation part and identity of a file. */
export const maxFrontBytes = 256 * 1024
/** Segments of one session: 12 GiB of full ones, and half a MiB of JSON. */
export const maxManifest = 768

/** A SHA-256, lower-case hexadecimal. */
export const Sha256 = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Which segment: `sequence` is the file's place in its recording and epoch, times 2^20, plus the fragment it begins with. */
export const SegmentName = Schema.Struct({
  recordingId: RecordingId,
  epoch: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  sequence: Count,
})
export type SegmentName = typeof SegmentName.Type

export const fragmentsOfFile = 2 ** 20

export const ManifestEntry = Schema.Struct({
  ...SegmentName.fields,
  channelId: ChannelId,
  /** The file it was recorded to. */
  fileId: Uuid7,
  startMs: EpochMs,
  durationMs: Count,
  fragments: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: fragmentsOfFile })),
  /** Of its fragments. */
  bytes: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: hardestSegmentBytes })),
  /** Of its fragments. */
  sha256: Sha256,
  /** Of the file before its first fragment; it goes with each segment. */
  frontBytes: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: maxFrontBytes })),
  frontSha256: Sha256,
  /** It was cut to what the home node asked for, and is not cut again. */
  exact: Schema.Boolean,
}).annotate({ identifier: "RecordBackSegment" })
export type ManifestEntry = typeof ManifestEntry.Type

/** Gaps that one request tells. */
export const maxToldGaps = 1_000

/** What the serving node could not record, and why; times of its clock. */
export const ToldGap = Schema.Struct({
  recordingId: RecordingId,
  startMs: EpochMs,
  endMs: EpochMs,
  cause: GapCause,
  /** One line for a person. */
  detail: Schema.String.check(Schema.isMaxLength(400)),
}).annotate({ identifier: "RecordBackToldGap" })
export type ToldGap = typeof ToldGap.Type

/** The key that data keys are sent to, signed by the home node: a JWS (EdDSA) over the other members. */
export const TransferKey = Schema.Struct({
  nodeId: NodeId,
  keyId: Uuid7,
  algorithm: Schema.Literal("ECDH-ES+A256KW"),
  /** X25519, 32 bytes in base64url. */
  publicKey: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/)),
  expiresAt: Instant,
  signature: Schema.String.check(Schema.isMaxLength(2_048)),
  /** The home node's clock as it answers, not signed: the serving node measures how far theirs differ. */
  clockMs: EpochMs,
}).annotate({ identifier: "RecordBackTransferKey" })
export type TransferKey = typeof TransferKey.Type

export const SessionRequest = Schema.Struct({
  rerouteId: Uuid7,
  keyId: Uuid7,
  /** The data key as a compact JWE (ECDH-ES+A256KW, A256GCM). */
  envelope: Schema.String.check(Schema.isMaxLength(4_096)),
  /** The home node's clock minus the serving node's, as measured: times of the manifest are judged by it. */
  offsetMs: Schema.Int,
  /** By how much that may be wrong. */
  offsetErrorMs: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  /** Empty where only gaps are told. */
  manifest: Schema.Array(ManifestEntry).check(Schema.isMaxLength(maxManifest)),
  /** What is missing there: told once all that is there has come home. */
  gaps: Schema.Array(ToldGap).check(Schema.isMaxLength(maxToldGaps)),
}).annotate({ identifier: "RecordBackSessionRequest" })
export type SessionRequest = typeof SessionRequest.Type

/**
 * What becomes of a segment. `wanted`: send it. `cut`: only what overlaps `keep` is wanted. `held`: it is there, its neighbours
 * are not yet. `stored`: it is among the recordings. `covered`: the home node recorded all of it itself. `refused`: see `reason`.
 */
export const SegmentState = Schema.Literals(["wanted", "cut", "held", "stored", "covered", "refused"])
export type SegmentState = typeof SegmentState.Type

/** Epoch milliseconds of the serving node's clock, half-open. */
const Kept = Schema.Struct({ start: EpochMs, end: EpochMs })

export const SegmentAnswer = Schema.Struct({
  ...SegmentName.fields,
  state: SegmentState,
  keep: Schema.Array(Kept),
  /** A JWS (EdDSA) by the home node over {@link ReceiptClaims}; with `stored` and `covered`. */
  receipt: Schema.NullOr(Schema.String),
  /** One line for a person; empty where there is nothing to say. */
  reason: Schema.String,
}).annotate({ identifier: "RecordBackSegmentAnswer" })
export type SegmentAnswer = typeof SegmentAnswer.Type

export const SessionAnswer = Schema.Struct({
  sessionId: Uuid7,
  segments: Schema.Array(SegmentAnswer),
}).annotate({ identifier: "RecordBackSession" })
export type SessionAnswer = typeof SessionAnswer.Type

/** The first part of a pushed segment; the second is the sealed bytes. */
export const SegmentHead = Schema.Struct({ sessionId: Uuid7, ...SegmentName.fields })
export type SegmentHead = typeof SegmentHead.Type

/** After a segment came: it, and those that were stored with it. */
export const SegmentsTaken = Schema.Struct({ segments: Schema.Array(SegmentAnswer) }).annotate({
  identifier: "RecordBackSegmentsTaken",
})
export type SegmentsTaken = typeof SegmentsTaken.Type

/** What a receipt says. */
export const ReceiptClaims = Schema.Struct({
  rerouteId: Uuid7,
  homeNodeId: NodeId,
  servingNodeId: NodeId,
  ...SegmentName.fields,
  sha256: Sha256,
  state: Schema.Literals(["stored", "covered"]),
  timeMs: EpochMs,
})
export type ReceiptClaims = typeof ReceiptClaims.Type

export const RecordBackJob = Schema.Struct({
  /** The id of the reroute. */
  id: Uuid7,
  homeNodeId: NodeId,
  servingNodeId: NodeId,
  ...RecordBackProgress.fields,
  attempt: Schema.Int,
  /** When it goes on by itself; null unless it waits. */
  nextAttemptAt: Schema.NullOr(Instant),
  createdAt: Instant,
  endedAt: Schema.NullOr(Instant),
}).annotate({ identifier: "RecordBackJob" })
export type RecordBackJob = typeof RecordBackJob.Type

export class RecordBackNotFound
  extends Schema.TaggedError<RecordBackNotFound>()("RecordBackNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no record-back job ${this.id}`
  }
}

/** The job is in a state that knows no such step. */
export class RecordBackStateConflict extends Schema.TaggedError<RecordBackStateConflict>()("RecordBackStateConflict", {
  id: Schema.String,
  state: Schema.String,
  asked: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `A record-back job that is ${this.state} cannot ${this.asked}`
  }
}

/** The caller may not bring footage to this node. */
export class RecordBackRefused
  extends Schema.TaggedError<RecordBackRefused>()("RecordBackRefused", { reason: Schema.String }, {
    httpApiStatus: 403,
  })
{
  override get message(): string {
    return this.reason
  }
}

/** The session ended, or was opened before this node started: open one again. */
export class RecordBackSessionNotFound
  extends Schema.TaggedError<RecordBackSessionNotFound>()("RecordBackSessionNotFound", {
    id: Schema.String,
  }, { httpApiStatus: 404 })
{
  override get message(): string {
    return "There is no such record-back session; open one again"
  }
}

/** The key is not known here, or too old: ask for the transfer key again. */
export class TransferKeyExpired
  extends Schema.TaggedError<TransferKeyExpired>()("TransferKeyExpired", { keyId: Schema.String }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return "The transfer key is not valid any more"
  }
}

/** A segment is not what its manifest promised; nothing of it was kept. */
export class SegmentInvalid extends Schema.TaggedError<SegmentInvalid>()("SegmentInvalid", {
  reason: Schema.Literals(["envelope", "seal", "length", "hash", "identity", "interval", "footage"]),
  detail: Schema.String,
}, { httpApiStatus: 422 }) {
  override get message(): string {
    return `The segment is refused (${this.reason}): ${this.detail}`
  }
}

/** The disks of this node cannot take footage now. */
export class RecordBackNoRoom
  extends Schema.TaggedError<RecordBackNoRoom>()("RecordBackNoRoom", { detail: Schema.String }, { httpApiStatus: 503 })
{
  override get message(): string {
    return `Footage cannot be stored now: ${this.detail}`
  }
}
