/**
 * The recordings of a home node as a whole: told to whoever guards it, and taken over by the guardian in its stead. A service of its own,
 * because the federation slice decides when, and the record slice knows how.
 */
import type { CameraId, ChannelId, EpochMs, RecordingId, StreamId } from "#schema/common.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { NewRecording } from "#schema/record-config.ts"
import { Context, type Effect } from "effect"

/** Where a recording that is wanted stands on this node's disk. */
export interface StoredSoFar {
  readonly recordingId: RecordingId
  readonly cameraId: CameraId
  readonly channelId: ChannelId
  /** Time of the first picture, a key picture, that was stored with the epoch asked about; null: none yet. */
  readonly firstMs: EpochMs | null
  /** End of the newest that was. */
  readonly lastMs: EpochMs | null
}

export class RecordBundles extends Context.Service<RecordBundles, {
  /** Another text after every change of what {@link export} tells. */
  readonly mark: (slot: Slot) => Effect.Effect<string, DependencyUnavailable>
  readonly export: (slot: Slot) => Effect.Effect<ReadonlyArray<NewRecording>, DependencyUnavailable>
  /** Bits a second that each stream of the slot came with lately; streams without footage are left out. */
  readonly rates: (slot: Slot) => Effect.Effect<ReadonlyMap<StreamId, number>, DependencyUnavailable>
  /** Writes recordings into a slot that this node serves; nothing is expected of new ones from before `sinceMs`. */
  readonly place: (
    slot: Slot,
    recordings: ReadonlyArray<NewRecording>,
    sinceMs: (id: RecordingId) => EpochMs,
  ) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** When each recording of the slot last changed, by id. */
  readonly changedMs: (slot: Slot) => Effect.Effect<ReadonlyMap<string, EpochMs>, DependencyUnavailable>
  /** Writes one recording of a slot that this node serves, as changed at `atMs`; others stay as they are. */
  readonly put: (
    slot: Slot,
    recording: NewRecording,
    atMs: EpochMs,
  ) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** Recordings of the slot that are switched on, with what this node has stored of them in `epoch`. */
  readonly stored: (slot: Slot, epoch: number) => Effect.Effect<ReadonlyArray<StoredSoFar>, DependencyUnavailable>
  /** Of the recordings of the slot, as this node stored them in `epoch`, the longest group of pictures of late; null: none was seen. */
  readonly longestGroupMs: (slot: Slot, epoch: number) => Effect.Effect<number | null, DependencyUnavailable>
  /** What is missing between the end of the last owner and the first picture here is told as the change of owner's doing. */
  readonly tellTakeover: (
    epoch: number,
    lostMs: EpochMs,
    stored: ReadonlyArray<StoredSoFar>,
  ) => Effect.Effect<void, DependencyUnavailable>
  /** Forgets the recordings of a slot with all that is kept of them here, footage too. */
  readonly remove: (slot: Slot) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/RecordBundles") {}
