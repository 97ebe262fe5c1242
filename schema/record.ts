/**
 * Words of recording: what is wanted, what was stored, what is missing and why.
 *
 * Invariants
 * 1. Within what was expected, recorded spans and gaps do not overlap and together leave nothing out.
 * 2. Every gap has exactly one cause: the first one that held when the gap opened.
 */
import { Schema } from "effect"
import { ChannelId, EpochMs, Instant, NodeId, RecordingId, RecordingToken, StreamId } from "./common.ts"

export const RecordingMode = Schema.Literals(["continuous", "event", "schedule"])
export type RecordingMode = typeof RecordingMode.Type

export const StreamRole = Schema.Literals(["main", "sub"])
export type StreamRole = typeof StreamRole.Type

/**
 * What a recording is doing now. `waiting`: wanted, the camera has not delivered yet; `recording`: a fragment was stored in
 * the last seconds; `failed`: wanted, and something (see the open gap's cause) prevents it.
 */
export const RecordingState = Schema.Literals(["disabled", "waiting", "recording", "failed"])
export type RecordingState = typeof RecordingState.Type

/** Why footage is missing. */
export const GapCause = Schema.Literals([
  "starting", // wanted, first picture not yet here
  "camera_offline", // refused, unreachable, or the connection broke
  "publisher_away", // a camera that comes by itself, such as a phone, was not sending
  "camera_frozen", // connected, but no media for the watchdog's time
  "auth_failed", // the camera refused the credentials
  "stream_invalid", // garbage, unknown codec, or no key frame
  "packet_loss", // packets missing inside a running stream
  "stream_changed", // the camera changed its parameter sets in mid-stream
  "clock_step", // the node's clock was set forward
  "node_down", // this node was not running
  "takeover", // between two serving nodes
  "disk_full", // every storage folder is below its free-space floor
  "disk_error", // read-only, removed, input/output error
  "disk_slow", // the write queue overflowed
  "operator_paused", // disabled by a person
  "segment_missing", // a file the index knew of is gone or damaged
])
export type GapCause = typeof GapCause.Type

export const Gap = Schema.Struct({ start: Instant, end: Instant, cause: GapCause })
export type Gap = typeof Gap.Type

export const SpanKind = Schema.Literals(["continuous", "event", "schedule"])
export const Span = Schema.Struct({ start: Instant, end: Instant, kind: SpanKind, nodeId: NodeId, epoch: Schema.Int })
export type Span = typeof Span.Type

/** Proof of completeness for an interval; milliseconds. `recordedMs + missingMs = expectedMs`. */
export const Coverage = Schema.Struct({
  recordingToken: RecordingToken,
  start: Instant,
  end: Instant,
  expectedMs: Schema.Int,
  recordedMs: Schema.Int,
  missingMs: Schema.Int,
  gaps: Schema.Array(Gap),
})
export type Coverage = typeof Coverage.Type

/**
 * One file of footage, as its own header tells it (design: media, "On disk") and as PostgreSQL keeps one row of it.
 * `end` is the end of the last whole fragment; a growing file is not `sealed`.
 */
export const SegmentFile = Schema.Struct({
  /** File name without ending; unique over all nodes: UUIDv7 made when the file was opened. */
  id: Schema.String,
  recordingId: RecordingId,
  recordingToken: RecordingToken,
  streamId: StreamId,
  channelId: ChannelId,
  nodeId: NodeId,
  epoch: Schema.Int,
  /** Counts the files of one recording and epoch, from 0. */
  sequence: Schema.Int,
  /** Name of the storage folder (not its path). */
  folder: Schema.String,
  startMs: EpochMs,
  endMs: EpochMs,
  bytes: Schema.Int,
  fragments: Schema.Int,
  frames: Schema.Int,
  sealed: Schema.Boolean,
})
export type SegmentFile = typeof SegmentFile.Type

/** A missing span as the ledger keeps it; `endMs` is null while it lasts. */
export const LedgerGap = Schema.Struct({
  /** UUIDv7 made when the gap was opened. */
  id: Schema.String,
  recordingId: RecordingId,
  startMs: EpochMs,
  endMs: Schema.NullOr(EpochMs),
  cause: GapCause,
  /** One line for a person: what was seen, without secrets. */
  detail: Schema.String,
})
export type LedgerGap = typeof LedgerGap.Type
