/**
 * Words of the rebuild of the index of footage from the disk: the job, and what it found.
 *
 * Invariants
 * 1. A rebuild deletes nothing on a disk: what it does not understand stays, and is named in `leftAlone`.
 * 2. Lists are bounded (see their lengths); the counts beside them are not cut.
 */
import { Schema } from "effect"
import { CameraId, Instant, NodeId, Uuid7 } from "./common.ts"

/** Longest lists of a report. */
export const mostListed = 200

export const RecoveredCamera = Schema.Struct({
  cameraId: CameraId,
  name: Schema.String,
  /** Its address was still known and it is recorded on; otherwise it is switched off and keeps its footage visible. */
  working: Schema.Boolean,
  recordings: Schema.Int,
})
export type RecoveredCamera = typeof RecoveredCamera.Type

export const LeftAlone = Schema.Struct({
  folder: Schema.String,
  path: Schema.String,
  /** One line for a person. */
  reason: Schema.String,
})
export type LeftAlone = typeof LeftAlone.Type

export const IndexReport = Schema.Struct({
  /** Files of footage on this node's disks. */
  files: Schema.Int,
  /** Rows of files that the index did not have, whose files are gone, and that told something else than the disk. */
  added: Schema.Int,
  removed: Schema.Int,
  corrected: Schema.Int,
  /** Files whose end is torn; they count as far as they can be read. */
  torn: Schema.Int,
  /** Gaps of this node's ledgers, and of files that are gone. */
  gaps: Schema.Int,
  /** Files that the index did not take: of deleted recordings, or of other nodes. */
  unknown: Schema.Int,
  recordingsRecovered: Schema.Int,
  camerasRecovered: Schema.Int,
  recovered: Schema.Array(RecoveredCamera),
  leftAloneCount: Schema.Int,
  leftAlone: Schema.Array(LeftAlone),
})
export type IndexReport = typeof IndexReport.Type

export const IndexRebuild = Schema.Struct({
  id: Uuid7,
  nodeId: NodeId,
  state: Schema.Literals(["running", "ready", "failed"]),
  /** 0 to 1. */
  progress: Schema.Finite,
  /** One line for a person; null unless it failed. */
  error: Schema.NullOr(Schema.String),
  /** Null until it is ready. */
  report: Schema.NullOr(IndexReport),
  startedAt: Instant,
  endedAt: Schema.NullOr(Instant),
}).annotate({ identifier: "IndexRebuild" })
export type IndexRebuild = typeof IndexRebuild.Type

export class IndexRebuildNotFound
  extends Schema.TaggedError<IndexRebuildNotFound>()("IndexRebuildNotFound", { id: Schema.String }, {
    httpApiStatus: 404,
  })
{
  override get message(): string {
    return `There is no rebuild ${this.id} of the index.`
  }
}
