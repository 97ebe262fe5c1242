/**
 * The door to the recorder supervisor: what captures run on this node, with a life of its own. Its room: `media/capture/`.
 *
 * Invariants
 * 1. It needs no database, no network but the cameras', no actor: a node that boots with PostgreSQL away records from its
 *    local assignment file.
 * 2. An assignment with a smaller epoch than the one in force is refused.
 * 3. Every change of what is recorded or missing is in the local journal before anybody is told, and stays there until it is
 *    acknowledged; the journal is bounded (see `journal`).
 */
import type { CameraId, ChannelId, Interval, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import { LedgerGap, type RecordingState, SegmentFile, type StreamRole } from "#schema/record.ts"
import type { SealedFile } from "#schema/vault.ts"
import { Context, type Effect, type Redacted, Schema, type Stream } from "effect"

/** What this node should do with one stream of one camera. Written whole; the newest epoch wins. */
export interface Assignment {
  readonly streamId: StreamId
  readonly cameraId: CameraId
  readonly channelId: ChannelId
  /** Names for people and the part of the stream; footage carries them, for a time when nothing else tells. */
  readonly cameraName: string
  readonly channelName: string
  readonly role: StreamRole
  /** A key of the driver registry. */
  readonly driver: "rtsp" | "mobile"
  readonly url: string
  readonly username: string | null
  readonly password: Redacted.Redacted | null
  readonly transport: "tcp" | "udp"
  readonly nodeId: NodeId
  readonly epoch: number
  /** The camera, channel and stream are switched on: the supervisor keeps knowing whether the stream is there. */
  readonly enabled: boolean
  /**
   * Connected while somebody watches or it is recorded; otherwise its state is looked at once, not again and again. Left out: false.
   */
  readonly onDemand?: boolean
  /** Absent: only probed for its state and parameters, nothing stored. */
  readonly recording: {
    readonly recordingId: RecordingId
    readonly recordingToken: RecordingToken
    readonly enabled: boolean
    readonly retentionDays: number
    readonly maxBytes: number
  } | null
}

/** What a person sees of a stream. */
export type StreamHealth =
  | "registered"
  | "probing"
  | "online"
  | "degraded"
  | "offline"
  | "authFailed"
  | "disabled"
  | "idle"

export interface StreamStatus {
  readonly streamId: StreamId
  readonly health: StreamHealth
  /** One line for a person, empty while all is well. */
  readonly reason: string
  readonly parameters: TrackParameters | null
  readonly recordingState: RecordingState
  /** Since this process started. */
  readonly frames: number
  readonly lostPackets: number
  readonly bytes: number
  readonly reconnects: number
  /** Arrival of the newest access unit, epoch milliseconds; null before the first. */
  readonly lastUnitMs: number | null
  /** Camera clock minus node clock, milliseconds; null where no sender report came. */
  readonly clockOffsetMs: number | null
}

/** One line of the local journal; `position` grows by one. */
export const JournalEntry = Schema.Union([
  Schema.TaggedStruct("FileOpened", { position: Schema.Int, file: SegmentFile }),
  /** Also written every 30 s while a file grows. */
  Schema.TaggedStruct("FileGrown", { position: Schema.Int, file: SegmentFile }),
  Schema.TaggedStruct("FileSealed", { position: Schema.Int, file: SegmentFile }),
  Schema.TaggedStruct("FileDeleted", {
    position: Schema.Int,
    file: SegmentFile,
    reason: Schema.Literals(["retention", "space", "recording_deleted", "missing"]),
  }),
  Schema.TaggedStruct("GapOpened", { position: Schema.Int, gap: LedgerGap, epoch: Schema.Int }),
  Schema.TaggedStruct("GapClosed", { position: Schema.Int, gap: LedgerGap, epoch: Schema.Int }),
])
export type JournalEntry = typeof JournalEntry.Type

export class StaleAssignment extends Schema.TaggedError<StaleAssignment>()("StaleAssignment", {
  streamId: Schema.String,
  epoch: Schema.Int,
  inForce: Schema.Int,
}) {}

export class RecorderSupervisor extends Context.Service<RecorderSupervisor, {
  /** Idempotent. Kept on disk (secrets sealed) before it returns. */
  readonly assign: (assignment: Assignment) => Effect.Effect<void, StaleAssignment>
  /** Stops for good and forgets; footage stays. */
  readonly withdraw: (streamId: StreamId, epoch: number) => Effect.Effect<void, StaleAssignment>
  readonly assignments: Effect.Effect<ReadonlyArray<Assignment>>
  readonly status: (streamId: StreamId) => StreamStatus | null
  readonly statuses: () => ReadonlyArray<StreamStatus>
  /** Every change of health, parameters or recording state; a slow consumer loses the oldest (sliding, 256). */
  readonly changes: Stream.Stream<StreamStatus>
  /** At most `limit` entries after `position`, in order. */
  readonly journal: (position: number, limit: number) => Effect.Effect<ReadonlyArray<JournalEntry>>
  /** Suspends until there is an entry after `position`. */
  readonly awaitJournal: (position: number) => Effect.Effect<void>
  /** Entries up to `position` are stored elsewhere and may be dropped. */
  readonly acknowledge: (position: number) => Effect.Effect<void>
  /** The newest position that was ever acknowledged; 0: none. */
  readonly journalAcknowledged: Effect.Effect<number>
  /**
   * After the journal overflowed its bound: the position up to which entries may be missing, so that the index must be rebuilt
   * from the disk. Null again once it is acknowledged. It grows with each further overflow.
   */
  readonly journalLostAt: Effect.Effect<number | null>
  /** The ledger of this node's own recordings, from the disk: gaps that overlap the interval, the open one with `endMs: null`. */
  readonly gaps: (
    recordingId: RecordingId,
    interval: { readonly start: number; readonly end: number },
  ) => ReadonlyArray<LedgerGap>
  /**
   * Footage of another node came to this one: the ledger lets go of what is `covered`, and takes over what that node tells of the
   * rest where its own word is only that nobody was here. Both sorted and disjoint; again, it changes nothing. On disk when it returns.
   */
  readonly amend: (recordingId: RecordingId, told: {
    readonly covered: ReadonlyArray<Interval>
    readonly explained: ReadonlyArray<Interval & Pick<LedgerGap, "cause" | "detail">>
    readonly epoch: number
  }) => Effect.Effect<void>
  /** The passwords that assignments keep on disk. */
  readonly secrets: SealedFile
  /** The recording was deleted and its footage is gone: its ledger goes too. Nothing while it is assigned. */
  readonly forget: (recordingId: RecordingId) => Effect.Effect<void>
}>()("nightjar/media/RecorderSupervisor") {}
