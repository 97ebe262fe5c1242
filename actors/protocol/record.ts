/**
 * The record slice: messages of the entity `Recording` and the interface of the service `Recordings`.
 *
 * Invariants
 * 1. Whatever changes a recording goes through its entity, a single writer; reads do not.
 * 2. Entity type and message tags are a storage format: renaming one is a migration.
 * 3. No bytes travel here: spans tell what exists, the storage door is where it is read.
 */
import type { EpochMs, Interval, NodeId, PageOf, PageRequest, RecordingToken } from "#schema/common.ts"
import { RecordingId } from "#schema/common.ts"
import type { EventEnvelope } from "#schema/event.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import { shardGroupOf, type Slot } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
import { DependencyUnavailable, type InvalidCursor, type InvalidInput, VersionConflict } from "#schema/problem.ts"
import {
  NewRecording,
  Recording,
  RecordingChange,
  RecordingChannelNotFound,
  type RecordingCreate,
  type RecordingEventStatus,
  RecordingExists,
  type RecordingFilter,
  type RecordingModeUnsupported,
  RecordingNotFound,
  type RecordingSettings,
  type RecordingSettingsUpdate,
  type RecordingUpdate,
  type StoragePartition,
} from "#schema/record-config.ts"
import type { IndexRebuild, IndexRebuildNotFound, IndexReport } from "#schema/record-index.ts"
import type { Coverage, Gap, LedgerGap, SegmentFile, Span } from "#schema/record.ts"
import { Context, type Effect, Schema } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"

const failures = Schema.Union([RecordingNotFound, ControlElsewhere, VersionConflict, DependencyUnavailable])

/** Version the caller has seen (`If-Match`); null: whatever it is. */
const ifMatch = Schema.NullOr(Schema.Int)

/** Entity id: `<slot>/<recordingId>`. */
export const RecordingActor = Entity.make("Recording", [
  Rpc.make("Create", {
    payload: { recording: NewRecording },
    success: Recording,
    error: Schema.Union([RecordingExists, RecordingChannelNotFound, ControlElsewhere, DependencyUnavailable]),
  }),
  Rpc.make("Update", {
    payload: { id: RecordingId, change: RecordingChange, ifMatch },
    success: Recording,
    error: failures,
  }),
  Rpc.make("Toggle", {
    payload: { id: RecordingId, enabled: Schema.NullOr(Schema.Boolean), ifMatch },
    success: Recording,
    error: failures,
  }),
  /** Answers as soon as nothing is recorded any more and the deletion is on record; the footage goes afterwards. */
  Rpc.make("Delete", { payload: { id: RecordingId, ifMatch }, error: failures }),
]).annotate(ClusterSchema.ShardGroup, shardGroupOf)

/** What is stored of a recording, what is missing, and the files that hold it. */
export interface Footage {
  readonly recordingId: RecordingId
  readonly recordingToken: RecordingToken
  /**
   * What should exist within the asked interval: from the creation of the recording (or its oldest footage that retention
   * has left) to the newest stored fragment while it records, to now otherwise. Null: nothing was expected.
   */
  readonly expected: Interval | null
  /** By start, without overlap; spans and gaps together are `expected`. */
  readonly spans: ReadonlyArray<Span>
  readonly gaps: ReadonlyArray<Gap>
}

/** What each node of the cluster has of a recording, this one first. */
export interface FootageHolders {
  readonly holders: ReadonlyArray<{ readonly holder: NodeId; readonly spans: ReadonlyArray<Span> }>
  /** What none of them has. */
  readonly gaps: ReadonlyArray<Gap>
}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type OfRecording<A, E = never> = Answer<A, E | RecordingNotFound>

export class Recordings extends Context.Service<Recordings, {
  /** In the order they were created; what lies within `within`. */
  readonly list: (filter: RecordingFilter, page: PageRequest, within: Reach) => Answer<PageOf<Recording>, InvalidCursor>
  readonly get: (id: RecordingId) => OfRecording<Recording>
  /** Of these, those that do not exist, as `kind:id`. */
  readonly missing: (ids: ReadonlyArray<RecordingId>) => Answer<ReadonlySet<string>>
  readonly byToken: (token: RecordingToken) => OfRecording<Recording>
  readonly create: (input: RecordingCreate) => Answer<
    Recording,
    RecordingExists | RecordingModeUnsupported | RecordingChannelNotFound | LicenseRestricted | ControlElsewhere
  >
  readonly update: (
    id: RecordingId,
    update: RecordingUpdate,
    ifMatch: number | null,
  ) => OfRecording<Recording, ControlElsewhere | VersionConflict | RecordingModeUnsupported>
  readonly toggle: (
    id: RecordingId,
    enabled: boolean | null,
    ifMatch: number | null,
  ) => OfRecording<Recording, ControlElsewhere | VersionConflict>
  readonly remove: (id: RecordingId, ifMatch: number | null) => OfRecording<void, ControlElsewhere | VersionConflict>
  readonly eventStatus: (id: RecordingId) => OfRecording<RecordingEventStatus>
  /** Newest first. */
  readonly eventHistory: (
    id: RecordingId,
    interval: Interval,
    page: PageRequest,
  ) => OfRecording<PageOf<EventEnvelope>, InvalidInput | InvalidCursor>
  readonly settings: () => Answer<RecordingSettings>
  readonly updateSettings: (
    update: RecordingSettingsUpdate,
    ifMatch: number | null,
  ) => Answer<RecordingSettings, VersionConflict>
  /** Looks at the storage folders again. */
  readonly refreshPartitions: () => Answer<ReadonlyArray<StoragePartition>>
  readonly coverage: (id: RecordingId, interval: Interval) => OfRecording<Coverage, InvalidInput>
  /** Spans and gaps of one computation, so that they fit together. */
  readonly footage: (token: RecordingToken, interval: Interval) => OfRecording<Footage, InvalidInput>
  /** As {@link footage}, apart by the nodes on whose disks it is; `present`: other members that answer, which record on. */
  readonly holders: (
    token: RecordingToken,
    interval: Interval,
    present: ReadonlySet<NodeId>,
  ) => OfRecording<FootageHolders, InvalidInput>
  readonly spans: (token: RecordingToken, interval: Interval) => OfRecording<ReadonlyArray<Span>, InvalidInput>
  readonly gaps: (token: RecordingToken, interval: Interval) => OfRecording<ReadonlyArray<Gap>, InvalidInput>
  /** Files that overlap the interval, by start; those of this node as the disk has them, those of others as they reported. */
  readonly files: (token: RecordingToken, interval: Interval) => OfRecording<ReadonlyArray<SegmentFile>, InvalidInput>
  /** First and last moment any footage exists of, epoch milliseconds; null while there is none. */
  readonly bounds: (
    token: RecordingToken,
  ) => OfRecording<{ readonly oldestMs: EpochMs; readonly newestMs: EpochMs } | null>
}>()("nightjar/actors/Recordings") {}

/** The index of this node's footage in the database. */
export class RecordLedger extends Context.Service<RecordLedger, {
  /**
   * Makes cameras and recordings again that only this node still knows, and the index equal to its disks. Idempotent. `tell` hears
   * how far it is, 0 to 1.
   */
  readonly reindex: (tell: (progress: number) => void) => Answer<IndexReport>
  /** Position of the journal up to which the database knows everything; null: nothing was read yet. */
  readonly position: () => Answer<number | null>
  /** Footage that came from another node: files of this node from now on. */
  readonly adopted: (files: ReadonlyArray<SegmentFile>) => Answer<void>
  /** Files of this node that went to another one and are deleted here: no footage is missing for it. */
  readonly released: (files: ReadonlyArray<SegmentFile>) => Answer<void>
  /** Recordings whose home is `slot`. */
  readonly recordingsOf: (slot: Slot) => Answer<ReadonlySet<RecordingId>>
  /** What this node could not record and why: its own ledger, and what the database knows besides, by start; open ones left out. */
  readonly gapsOf: (id: RecordingId) => Answer<ReadonlyArray<LedgerGap>>
}>()("nightjar/actors/RecordLedger") {}

/** Rebuilds of the index as jobs of this node: one at a time, and a restart goes on with the one that was running. */
export class IndexRebuilds extends Context.Service<IndexRebuilds, {
  /** Begins one, or answers the one that runs. */
  readonly start: () => Answer<IndexRebuild>
  /** Also of another node. */
  readonly get: (id: string) => Answer<IndexRebuild, IndexRebuildNotFound>
}>()("nightjar/actors/IndexRebuilds") {}
