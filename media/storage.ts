/**
 * The door to footage on disk. Its rooms: `media/storage/` (folders, files, index, retention, scan) and `media/fmp4/`.
 *
 * Invariants
 * 1. Bytes once acknowledged by a sync are never changed, moved or truncated; a file only grows, then is sealed, then is
 *    unlinked whole.
 * 2. A kill costs at most the fragment being written; opening a file again cuts off what is not a whole fragment.
 * 3. Each file tells by itself what it is: losing every database loses no footage.
 * 4. A fragment lasts at most 1 s (a single longer picture excepted) and each group of pictures begins a new one.
 * 5. Footage of another node keeps its bytes, its recorder and its epoch; it is among the recordings only whole, proven and synced.
 */
import type { CameraId, EpochMs, RecordingId } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { GapCause, SegmentFile, StreamRole } from "#schema/record.ts"
import { Context, type Effect, Schema, type Scope, type Stream } from "effect"
import type { FragmentTable } from "./storage/fragment-table.ts"
import type { Shown } from "./storage/seams.ts"

/** Why something could not be written or read. `cause` is what the gap ledger will say. */
export class StorageError extends Schema.TaggedError<StorageError>()("StorageError", {
  cause: Schema.Literals(["disk_full", "disk_error", "disk_slow"] satisfies ReadonlyArray<GapCause>),
  /** Its name; empty where it is no matter of one folder. */
  folder: Schema.String,
  /** Error name of the system (`ENOSPC`, `EROFS`, `EIO`, …). */
  code: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `${this.code}${this.folder === "" ? "" : ` in ${this.folder}`}: ${this.detail}`
  }
}

/**
 * A fragment ready to be written: `moof` and `mdat` (ISO/IEC 14496-12, 8.8) behind its index line. It has one holder at a time, who
 * hands it on or releases it.
 */
export interface Fragment {
  readonly data: Uint8Array
  /** `data` is not needed any more: its memory will hold something else. Where this is forgotten, it is garbage. */
  readonly release: () => void
  readonly bytes: number
  readonly startMs: EpochMs
  readonly endMs: EpochMs
  /** Video decode time of the first picture, 90 kHz, running on across the files of one epoch. */
  readonly decodeTicks: number
  readonly durationTicks: number
  /** Begins with a picture that decoding can start at. */
  readonly key: boolean
  /** The wall clock does not continue from the fragment before (a gap, a clock step, new parameters, a restart). */
  readonly discontinuity: boolean
  readonly frames: number
}

/** One line of a file's index. */
export interface IndexEntry {
  readonly startMs: EpochMs
  readonly endMs: EpochMs
  readonly decodeTicks: number
  readonly durationTicks: number
  /** Position of the fragment in its file, bytes. */
  readonly offset: number
  readonly bytes: number
  readonly frames: number
  readonly key: boolean
  readonly discontinuity: boolean
}

/** Who a new file belongs to. */
export interface FileIdentity
  extends Pick<SegmentFile, "recordingId" | "recordingToken" | "streamId" | "channelId" | "nodeId" | "epoch">
{}

/** What footage tells of its camera besides: enough to make that camera again. */
export interface FileOrigin {
  readonly cameraId: CameraId
  readonly cameraName: string
  readonly channelName: string
  readonly role: StreamRole
}

/** An open, growing file. Used by one fiber. */
export interface FileWriter {
  readonly file: () => SegmentFile
  /**
   * Queues a fragment; returns at once. Double-buffered: `false` when the disk is so far behind that the queue (its bound in
   * bytes is an option of the layer) is full, and the fragment was not written. It is released either way.
   */
  readonly append: (fragment: Fragment) => boolean
  /** Bytes that the queue would still take. */
  readonly room: () => number
  /** Fails once, with the first error of a queued write; never completes otherwise. */
  readonly failure: Effect.Effect<never, StorageError>
  /** Writes what is queued, syncs, marks the file sealed. */
  readonly seal: Effect.Effect<SegmentFile, StorageError>
}

/** Bytes on their way in are not footage, or not what was promised. Nothing of them is among the recordings. */
export class NotFootage extends Schema.TaggedError<NotFootage>()("NotFootage", { detail: Schema.String }) {
  override get message(): string {
    return this.detail
  }
}

/** A file that another node recorded, on its way in. */
export interface Incoming {
  /** Of the file that will be; UUIDv7, the caller's choice, the same each time. */
  readonly id: string
  /** As it stood in the other node's file before the first fragment: `ftyp`, `moov` and identity. */
  readonly front: Uint8Array
  /** Of all fragments that will come. */
  readonly bytes: number
}

/** A file in quarantine: it lies on the disk of its folder, where nobody reads it but its writers. */
export interface Quarantined {
  /** Whose it is, as its front tells it. */
  readonly identity: FileIdentity
  /** Writes fragments at a position behind the front; several may write at once, each at places of its own. */
  readonly write: (at: number, bytes: Uint8Array) => Effect.Effect<void, StorageError>
  /** Syncs, and reads `[at, at + bytes)` as whole fragments one behind the other. */
  readonly prove: (at: number, bytes: number) => Effect.Effect<ReadonlyArray<IndexEntry>, StorageError | NotFootage>
}

/** Something in a storage folder that is not ours; it stays as it is. */
export interface StrangeFile {
  readonly folder: string
  readonly path: string
  /** One line for a person. */
  readonly reason: string
}

/** How a scan goes on. */
export interface ScanTold {
  /** Directories of recordings, of all folders that answer. */
  readonly progress?: (done: number, total: number) => void
  readonly strange?: (file: StrangeFile) => void
}

/** What `scan` found of one recording on one folder. */
export interface ScannedFile {
  readonly file: SegmentFile
  readonly entries: number
  /** Bytes of a torn tail that were cut off, or would be. */
  readonly tornBytes: number
}

export interface FolderUsage {
  readonly name: string
  readonly path: string
  readonly state: "ok" | "full" | "readOnly" | "missing" | "error" | "slow"
  readonly detail: string
  readonly totalBytes: number
  readonly freeBytes: number
  readonly floorBytes: number
  /** Bytes of recordings. */
  readonly usedBytes: number
}

export interface RetentionPolicy {
  readonly recordingId: RecordingId
  readonly retentionDays: number
  /** 0: no limit of its own. */
  readonly maxBytes: number
}

export class Storage extends Context.Service<Storage, {
  /** Opens a new file in the folder with the most free space above its floor. */
  readonly create: (
    identity: FileIdentity,
    parameters: TrackParameters,
    first: { readonly sequence: number; readonly startMs: EpochMs },
    origin?: FileOrigin,
  ) => Effect.Effect<FileWriter, StorageError>
  /** Whole index of a file, in order; reads only what it has not cached. */
  readonly index: (file: Pick<SegmentFile, "id" | "folder">) => Effect.Effect<ReadonlyArray<IndexEntry>, StorageError>
  /** The same of several files, in the order of `files` and without an object a fragment; the error where one cannot be read. */
  readonly fragments: (
    files: ReadonlyArray<Pick<SegmentFile, "id" | "folder">>,
  ) => Effect.Effect<ReadonlyArray<FragmentTable | StorageError>>
  /**
   * The same of sealed files with a row for each segment of a replay (see `media/hls/plan.ts`) instead of each fragment: of a day
   * from one read or two.
   */
  readonly outlines: (
    files: ReadonlyArray<Pick<SegmentFile, "id" | "folder">>,
  ) => Effect.Effect<ReadonlyArray<FragmentTable | StorageError>>
  /** Files of a recording that overlap the interval, by start time; from memory, never from PostgreSQL. */
  readonly files: (
    recordingId: RecordingId,
    interval: { readonly start: EpochMs; readonly end: EpochMs },
  ) => ReadonlyArray<SegmentFile>
  /**
   * What of these files is to be shown, in the order of showing: of pictures that several nodes recorded each once. See
   * `storage/seams.ts`. `files`: of one recording, by start, as {@link files} gives them.
   */
  readonly shown: (files: ReadonlyArray<SegmentFile>) => Effect.Effect<ReadonlyArray<Shown>>
  /** Recordings that have files here; from memory. */
  readonly recordings: () => ReadonlyArray<RecordingId>
  /** From a file's own header; null in a file of an earlier version. */
  readonly origin: (file: Pick<SegmentFile, "id" | "folder">) => Effect.Effect<FileOrigin | null, StorageError>
  /** Bytes `[0, initBytes)`: `ftyp` and `moov`. */
  readonly init: (file: Pick<SegmentFile, "id" | "folder">) => Effect.Effect<Uint8Array, StorageError>
  /** Absolute path, for reading at byte ranges; empty where there is no such file. */
  readonly path: (file: Pick<SegmentFile, "id" | "folder">) => string
  readonly parameters: (file: Pick<SegmentFile, "id" | "folder">) => Effect.Effect<TrackParameters, StorageError>
  /** Bytes `[from, to)` in chunks of at most 512 KiB, read as they are taken; fewer where the file ends before. */
  readonly bytes: (
    file: Pick<SegmentFile, "id" | "folder">,
    range: { readonly from: number; readonly to: number },
  ) => Stream.Stream<Uint8Array, StorageError>
  /** Reads every folder from the disk alone. `repair` cuts torn tails, rebuilds damaged indexes and seals what a dead process left growing. */
  readonly scan: (
    options: { readonly repair: boolean } & ScanTold,
  ) => Effect.Effect<ReadonlyArray<ScannedFile>, StorageError>
  /** Deletes by age, then, while a folder is below its floor, the oldest file of the recording that is furthest over its fair share. Returns what went. */
  readonly enforceRetention: (policies: ReadonlyArray<RetentionPolicy>) => Effect.Effect<ReadonlyArray<SegmentFile>>
  readonly remove: (file: Pick<SegmentFile, "id" | "folder">) => Effect.Effect<void, StorageError>
  /** A file that was removed lately (see `storage/departed.ts`), and what was in it. */
  readonly departed: (id: string) => { readonly file: SegmentFile; readonly table: FragmentTable } | null
  /**
   * Takes in footage of another node. `open` begins a file, or goes on with what a former process left of it; `adopt` makes it one of
   * the recordings: indexed, synced, moved, in this order, and found by `files` when it returns; again for one that is there changes
   * nothing. Until then it is only found by `ids`. `discard` forgets it.
   */
  readonly quarantine: {
    readonly open: (incoming: Incoming) => Effect.Effect<Quarantined, StorageError | NotFootage, Scope.Scope>
    readonly adopt: (incoming: Pick<Incoming, "id" | "bytes">) => Effect.Effect<SegmentFile, StorageError | NotFootage>
    readonly ids: Effect.Effect<ReadonlyArray<string>>
    readonly discard: (id: string) => Effect.Effect<void, StorageError>
  }
  readonly usage: Effect.Effect<ReadonlyArray<FolderUsage>>
}>()("nightjar/media/Storage") {}
