/** Rows of the record tables and the models they make. */
import type { CameraId, ChannelId, EpochMs, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import { type EventEnvelope, severityOf } from "#schema/event.ts"
import type { Slot } from "#schema/ownership.ts"
import type { NewRecording, Recording, RecordingSettings } from "#schema/record-config.ts"
import type { GapCause, LedgerGap, RecordingMode, RecordingState, SegmentFile, StreamRole } from "#schema/record.ts"

export interface RecordingRow {
  readonly id: RecordingId
  readonly token: RecordingToken
  readonly slot: Slot
  readonly camera_id: CameraId
  readonly channel_id: ChannelId
  readonly role: StreamRole
  readonly mode: RecordingMode
  readonly enabled: boolean
  readonly state: RecordingState
  readonly reason: string
  readonly retention_days: number
  readonly max_bytes: bigint
  readonly pre_event_seconds: number
  readonly post_event_seconds: number
  readonly schedule: Recording["schedule"]
  readonly kept_from: Date | null
  readonly created_at: Date
  readonly updated_at: Date
  readonly version: number
}

/** A recording with what only the product itself needs to know. */
export interface StoredRecording {
  readonly recording: Recording
  readonly slot: Slot
  /** End of the newest footage that retention took. */
  readonly keptFromMs: EpochMs | null
}

export const recordingOf = (row: RecordingRow): StoredRecording => ({
  recording: {
    id: row.id,
    recordingToken: row.token,
    cameraId: row.camera_id,
    channelId: row.channel_id,
    role: row.role,
    mode: row.mode,
    enabled: row.enabled,
    state: row.enabled ? row.state : "disabled",
    reason: row.enabled ? row.reason : "",
    retentionDays: row.retention_days,
    maxBytes: Number(row.max_bytes),
    preEventSeconds: row.pre_event_seconds,
    postEventSeconds: row.post_event_seconds,
    schedule: row.schedule,
    createdAt: row.created_at.getTime(),
    updatedAt: row.updated_at.getTime(),
    version: row.version,
  },
  slot: row.slot,
  keptFromMs: row.kept_from?.getTime() ?? null,
})

/** What people set of it, and what it is. */
export const configurationOf = (row: RecordingRow): NewRecording => {
  const { recording } = recordingOf(row)
  return {
    id: recording.id,
    recordingToken: recording.recordingToken,
    cameraId: recording.cameraId,
    channelId: recording.channelId,
    role: recording.role,
    mode: recording.mode,
    enabled: recording.enabled,
    retentionDays: recording.retentionDays,
    maxBytes: recording.maxBytes,
    preEventSeconds: recording.preEventSeconds,
    postEventSeconds: recording.postEventSeconds,
    schedule: recording.schedule,
  }
}

export interface SegmentRow {
  readonly id: string
  readonly recording_id: RecordingId
  readonly token: RecordingToken
  readonly stream_id: StreamId
  readonly channel_id: ChannelId
  readonly node_id: NodeId
  readonly epoch: bigint
  readonly sequence: bigint
  readonly folder: string
  readonly start_at: Date
  readonly end_at: Date
  readonly bytes: bigint
  readonly fragments: number
  readonly frames: bigint
  readonly sealed: boolean
}

export const segmentOf = (row: SegmentRow): SegmentFile => ({
  id: row.id,
  recordingId: row.recording_id,
  recordingToken: row.token,
  streamId: row.stream_id,
  channelId: row.channel_id,
  nodeId: row.node_id,
  epoch: Number(row.epoch),
  sequence: Number(row.sequence),
  folder: row.folder,
  startMs: row.start_at.getTime(),
  endMs: row.end_at.getTime(),
  bytes: Number(row.bytes),
  fragments: row.fragments,
  frames: Number(row.frames),
  sealed: row.sealed,
})

export interface GapRow {
  readonly id: string
  readonly recording_id: RecordingId
  readonly node_id: NodeId
  readonly start_at: Date
  readonly end_at: Date | null
  readonly cause: GapCause
  readonly detail: string
}

/** A gap of the ledger and the node that told it. */
export type StoredGap = LedgerGap & { readonly nodeId: NodeId }

export const gapOf = (row: GapRow): StoredGap => ({
  id: row.id,
  recordingId: row.recording_id,
  nodeId: row.node_id,
  startMs: row.start_at.getTime(),
  endMs: row.end_at?.getTime() ?? null,
  cause: row.cause,
  detail: row.detail,
})

export interface EventRow {
  readonly id: string
  readonly recording_id: RecordingId
  readonly node_id: NodeId
  readonly type: string
  readonly at: Date
  readonly data: EventEnvelope["data"]
}

export const eventOf = (row: EventRow): EventEnvelope => ({
  id: row.id,
  source: `/nodes/${row.node_id}/record`,
  type: row.type,
  time: row.at.getTime(),
  subject: row.recording_id,
  data: row.data,
  nodeId: row.node_id,
  severity: severityOf(row.type),
})

export interface SettingsRow {
  readonly default_retention_days: number
  readonly default_max_bytes: bigint
  readonly event_history_days: number
  readonly version: number
}

export const settingsOf = (row: SettingsRow): RecordingSettings => ({
  defaultRetentionDays: row.default_retention_days,
  defaultMaxBytes: Number(row.default_max_bytes),
  eventHistoryDays: row.event_history_days,
  version: row.version,
})
