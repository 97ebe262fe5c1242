/**
 * The configuration of recordings, the settings of the record service, and what can go wrong with them. The words of what
 * was stored and what is missing are in `record.ts`.
 *
 * Invariants
 * 1. A recording belongs to one channel and takes one of its streams, named by role; a channel has at most one recording a role.
 * 2. Deleting a recording deletes its footage: nothing of it is found by its token any more.
 * 3. `version` grows by one with every change by a person; what the product observes (`state`) does not change it.
 */
import { Schema } from "effect"
import { CameraId, ChannelId, Instant, RecordingId, RecordingToken } from "./common.ts"
import { EventEnvelope } from "./event.ts"
import { GapCause, RecordingMode, RecordingState, StreamRole } from "./record.ts"

/** Days footage is kept: 1 to 3650. */
export const RetentionDays = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3650 }))

/** Bytes a recording may occupy, oldest footage leaves first; 0: no limit of its own. */
export const MaxBytes = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const EventSeconds = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 300 }))

/** One weekly window, local time of the node: minutes since Monday 00:00, half-open. */
export const ScheduleWindow = Schema.Struct({
  startMinute: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_080 })),
  endMinute: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 10_080 })),
})

/** At most 168 windows: one an hour of the week. */
const Schedule = Schema.Array(ScheduleWindow).check(Schema.isMaxLength(168))

export const Recording = Schema.Struct({
  id: RecordingId,
  recordingToken: RecordingToken,
  cameraId: CameraId,
  channelId: ChannelId,
  role: StreamRole,
  mode: RecordingMode,
  enabled: Schema.Boolean,
  state: RecordingState,
  /** One line for a person; empty while all is well. */
  reason: Schema.String,
  retentionDays: RetentionDays,
  maxBytes: MaxBytes,
  preEventSeconds: EventSeconds,
  postEventSeconds: EventSeconds,
  schedule: Schema.NullOr(Schedule),
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
})
export type Recording = typeof Recording.Type

const options = {
  mode: Schema.optionalKey(RecordingMode),
  enabled: Schema.optionalKey(Schema.Boolean),
  /** Left out: the service's default. */
  retentionDays: Schema.optionalKey(RetentionDays),
  maxBytes: Schema.optionalKey(MaxBytes),
  preEventSeconds: Schema.optionalKey(EventSeconds),
  postEventSeconds: Schema.optionalKey(EventSeconds),
  schedule: Schema.optionalKey(Schema.NullOr(Schedule)),
}

export const RecordingCreate = Schema.Struct({ channelId: ChannelId, role: Schema.optionalKey(StreamRole), ...options })
export type RecordingCreate = typeof RecordingCreate.Type

/** A replacement: what is left out goes back to its default. Channel and role stay. */
export const RecordingUpdate = Schema.Struct(options)
export type RecordingUpdate = typeof RecordingUpdate.Type

/** A recording as it is first written, whole. */
export const NewRecording = Schema.Struct({
  id: RecordingId,
  recordingToken: RecordingToken,
  cameraId: CameraId,
  channelId: ChannelId,
  role: StreamRole,
  mode: RecordingMode,
  enabled: Schema.Boolean,
  retentionDays: RetentionDays,
  maxBytes: MaxBytes,
  preEventSeconds: EventSeconds,
  postEventSeconds: EventSeconds,
  schedule: Schema.NullOr(Schedule),
})
export type NewRecording = typeof NewRecording.Type

/** What may be changed of a recording, complete. */
export const RecordingChange = Schema.Struct({
  mode: RecordingMode,
  enabled: Schema.Boolean,
  retentionDays: RetentionDays,
  maxBytes: MaxBytes,
  preEventSeconds: EventSeconds,
  postEventSeconds: EventSeconds,
  schedule: Schema.NullOr(Schedule),
})
export type RecordingChange = typeof RecordingChange.Type

/** What whoever assigns captures must know of a recording. */
export interface RecordingPlan {
  readonly recordingId: RecordingId
  readonly recordingToken: RecordingToken
  readonly cameraId: CameraId
  readonly channelId: ChannelId
  readonly role: StreamRole
  readonly enabled: boolean
  readonly retentionDays: number
  /** 0: no limit of its own. */
  readonly maxBytes: number
}

export const RecordingFilter = Schema.Struct({
  cameraId: Schema.optionalKey(CameraId),
  channelId: Schema.optionalKey(ChannelId),
  state: Schema.optionalKey(RecordingState),
})
export type RecordingFilter = typeof RecordingFilter.Type

/** What a recording is doing, and what it last reported. */
export const RecordingEventStatus = Schema.Struct({
  recordingId: RecordingId,
  mode: RecordingMode,
  state: RecordingState,
  /** A trigger is holding the recording on; always false in continuous mode. */
  eventActive: Schema.Boolean,
  /** The span that is missing right now. */
  openGap: Schema.NullOr(Schema.Struct({ since: Instant, cause: GapCause, detail: Schema.String })),
  lastEvent: Schema.NullOr(EventEnvelope),
})
export type RecordingEventStatus = typeof RecordingEventStatus.Type

export const RecordingSettings = Schema.Struct({
  defaultRetentionDays: RetentionDays,
  defaultMaxBytes: MaxBytes,
  /** Days the event history is kept: 1 to 3650. */
  eventHistoryDays: RetentionDays,
  version: Schema.Int,
})
export type RecordingSettings = typeof RecordingSettings.Type

/** Merged into the settings in force. */
export const RecordingSettingsUpdate = Schema.Struct({
  defaultRetentionDays: Schema.optionalKey(RetentionDays),
  defaultMaxBytes: Schema.optionalKey(MaxBytes),
  eventHistoryDays: Schema.optionalKey(RetentionDays),
})
export type RecordingSettingsUpdate = typeof RecordingSettingsUpdate.Type

/** One storage folder as the node sees it now; bytes. */
export const StoragePartition = Schema.Struct({
  name: Schema.String,
  path: Schema.String,
  state: Schema.Literals(["ok", "full", "readOnly", "missing", "error", "slow"]),
  detail: Schema.String,
  totalBytes: Schema.Number,
  freeBytes: Schema.Number,
  /** Recording stops in this folder when less than this is free. */
  floorBytes: Schema.Number,
  /** Bytes of recordings. */
  usedBytes: Schema.Number,
})
export type StoragePartition = typeof StoragePartition.Type

export class RecordingNotFound
  extends Schema.TaggedError<RecordingNotFound>()("RecordingNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no recording ${this.id}.`
  }
}

export class RecordingExists
  extends Schema.TaggedError<RecordingExists>()("RecordingExists", { channelId: Schema.String, role: StreamRole }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return `The ${this.role} stream of channel ${this.channelId} already has a recording.`
  }
}

export class RecordingModeUnsupported
  extends Schema.TaggedError<RecordingModeUnsupported>()("RecordingModeUnsupported", { mode: RecordingMode }, {
    httpApiStatus: 501,
  })
{
  override get message(): string {
    return `This version records continuously only; the mode "${this.mode}" is not available yet.`
  }
}

/** A recording was asked for a channel that is not there, or whose stream of that role is not. */
export class RecordingChannelNotFound
  extends Schema.TaggedError<RecordingChannelNotFound>()("RecordingChannelNotFound", {
    channelId: Schema.String,
    role: StreamRole,
  }, { httpApiStatus: 422 })
{
  override get message(): string {
    return `There is no channel ${this.channelId} with a ${this.role} stream to record.`
  }
}
