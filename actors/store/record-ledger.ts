/**
 * SQL of the index of footage and of the gap ledger, fed from each node's local journal.
 *
 * Invariants
 * 1. A batch of the journal and the position it reaches are written in one transaction: every entry counts once.
 * 2. A row is never overwritten on behalf of an older epoch than the one that wrote it; such entries are refused and counted.
 * 3. What belongs to a recording that is not (or no longer) known is not written.
 * 4. Retention moves `recording.kept_from`; gaps that ended before it are forgotten.
 */
import type { EpochMs, Interval, NodeId, RecordingId } from "#schema/common.ts"
import type { Slot } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { answered } from "./answer.ts"
import { gapOf, type GapRow, segmentOf, type SegmentRow, type StoredGap } from "./record-rows.ts"

/** A batch of the journal in its final state: one entry a file, one a gap. */
export interface LedgerBatch {
  readonly nodeId: NodeId
  readonly files: ReadonlyArray<SegmentFile>
  /** Ids of files that are gone. */
  readonly goneFiles: ReadonlyArray<string>
  /** Ids of gaps that are none: the footage is there again. */
  readonly goneGaps?: ReadonlyArray<string>
  readonly gaps: ReadonlyArray<LedgerGap & { readonly epoch: number }>
  /** Up to when retention has taken footage, by recording. */
  readonly keptFrom: ReadonlyArray<{ readonly recordingId: RecordingId; readonly untilMs: EpochMs }>
  readonly position: number
  readonly nowMs: EpochMs
}

export interface Applied {
  /** Entries of an older epoch than the row's, or of unknown recordings. */
  readonly refused: number
}

/** What other nodes told of a recording. */
export interface StoredFootage {
  readonly files: ReadonlyArray<SegmentFile>
  readonly gaps: ReadonlyArray<StoredGap>
}

export class RecordLedgerStore extends Context.Service<RecordLedgerStore, {
  /** How far the journal of a node was read; null: never. */
  readonly position: (nodeId: NodeId) => Effect.Effect<number | null, DependencyUnavailable>
  readonly apply: (batch: LedgerBatch) => Effect.Effect<Applied, DependencyUnavailable>
  /** Rows of a node's files, for a comparison with its disk. */
  readonly filesOf: (nodeId: NodeId) => Effect.Effect<ReadonlyArray<SegmentFile>, DependencyUnavailable>
  /** Files and gaps that overlap the interval, by start. */
  readonly footage: (id: RecordingId, interval: Interval) => Effect.Effect<StoredFootage, DependencyUnavailable>
  /** Gaps that a node told of a recording. */
  readonly gapsOf: (id: RecordingId, nodeId: NodeId) => Effect.Effect<ReadonlyArray<StoredGap>, DependencyUnavailable>
  /** Recordings whose home is a slot, but for deleted ones. */
  readonly recordingsOf: (slot: Slot) => Effect.Effect<ReadonlySet<RecordingId>, DependencyUnavailable>
  /** Start of the oldest and end of the newest file of nodes other than this. */
  readonly bounds: (
    id: RecordingId,
    except: NodeId,
  ) => Effect.Effect<{ readonly oldestMs: EpochMs; readonly newestMs: EpochMs } | null, DependencyUnavailable>
}>()("nightjar/actors/RecordLedgerStore") {
  static readonly layer = Layer.effect(
    RecordLedgerStore,
    Effect.map(SqlClient.SqlClient, (sql) => RecordLedgerStore.of({ apply: applying(sql), ...reading(sql) })),
  )
}

const iso = (ms: EpochMs) => new Date(ms).toISOString()

/** Whole list in one parameter: a statement has at most 65,535 of them. */
const json = (rows: ReadonlyArray<object>) => JSON.stringify(rows)

type Statement<A> = Effect.Effect<A, SqlError.SqlError>

const upsertFiles = (sql: SqlClient.SqlClient, files: ReadonlyArray<SegmentFile>): Statement<number> =>
  files.length === 0 ? Effect.succeed(0) : Effect.map(
    sql`
      INSERT INTO segment_file (id, recording_id, stream_id, channel_id, node_id, epoch, sequence, folder, start_at, end_at,
        bytes, fragments, frames, sealed)
      SELECT f.id, f."recordingId", f."streamId", f."channelId", f."nodeId", f.epoch, f.sequence, f.folder, f."startAt",
        f."endAt", f.bytes, f.fragments, f.frames, f.sealed
      FROM jsonb_to_recordset(${
      json(files.map((file) => ({ ...file, startAt: iso(file.startMs), endAt: iso(file.endMs) })))
    }::text::jsonb)
        AS f (id text, "recordingId" uuid, "streamId" uuid, "channelId" uuid, "nodeId" uuid, epoch bigint, sequence bigint,
          folder text, "startAt" timestamptz, "endAt" timestamptz, bytes bigint, fragments integer, frames bigint, sealed boolean)
      JOIN recording r ON r.id = f."recordingId"
      ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, folder = excluded.folder, start_at = excluded.start_at,
        end_at = excluded.end_at, bytes = excluded.bytes, fragments = excluded.fragments, frames = excluded.frames,
        sealed = excluded.sealed
      WHERE segment_file.epoch <= excluded.epoch AND segment_file.node_id = excluded.node_id
      RETURNING segment_file.id`,
    (rows) => rows.length,
  )

const upsertGaps = (sql: SqlClient.SqlClient, nodeId: NodeId, gaps: LedgerBatch["gaps"]): Statement<number> =>
  gaps.length === 0 ? Effect.succeed(0) : Effect.map(
    sql`
      INSERT INTO recording_gap (id, recording_id, node_id, epoch, start_at, end_at, cause, detail)
      SELECT g.id, g."recordingId", ${nodeId}::text::uuid, g.epoch, g."startAt", g."endAt", g.cause, g.detail
      FROM jsonb_to_recordset(${
      json(
        gaps.map((gap) => ({ ...gap, startAt: iso(gap.startMs), endAt: gap.endMs === null ? null : iso(gap.endMs) })),
      )
    }::text::jsonb)
        AS g (id text, "recordingId" uuid, epoch bigint, "startAt" timestamptz, "endAt" timestamptz, cause text, detail text)
      JOIN recording r ON r.id = g."recordingId"
      ON CONFLICT (id) DO UPDATE SET epoch = excluded.epoch, start_at = excluded.start_at, end_at = excluded.end_at,
        cause = excluded.cause, detail = excluded.detail
      WHERE recording_gap.epoch <= excluded.epoch AND recording_gap.node_id = excluded.node_id
      RETURNING recording_gap.id`,
    (rows) => rows.length,
  )

const retained = (sql: SqlClient.SqlClient, kept: LedgerBatch["keptFrom"]): Statement<void> =>
  kept.length === 0 ? Effect.void : Effect.gen(function*() {
    const rows = json(kept.map((one) => ({ id: one.recordingId, until: iso(one.untilMs) })))
    yield* sql`
      UPDATE recording SET kept_from = greatest(kept_from, k.until)
      FROM jsonb_to_recordset(${rows}::text::jsonb) AS k (id uuid, until timestamptz) WHERE recording.id = k.id`
    yield* sql`
      DELETE FROM recording_gap USING recording
      WHERE recording.id = recording_gap.recording_id AND recording_gap.end_at <= recording.kept_from
        AND recording.id IN ${sql.in(kept.map((one) => one.recordingId))}`
  })

const applying = (sql: SqlClient.SqlClient) => (batch: LedgerBatch) =>
  answered(sql.withTransaction(Effect.gen(function*() {
    const files = yield* upsertFiles(sql, batch.files)
    const gaps = yield* upsertGaps(sql, batch.nodeId, batch.gaps)
    if (batch.goneFiles.length > 0) {
      yield* sql`
        DELETE FROM segment_file WHERE node_id = ${batch.nodeId}
          AND id IN (SELECT jsonb_array_elements_text(${JSON.stringify(batch.goneFiles)}::text::jsonb))`
    }
    if (batch.goneGaps !== undefined && batch.goneGaps.length > 0) {
      yield* sql`
        DELETE FROM recording_gap WHERE node_id = ${batch.nodeId}
          AND id IN (SELECT jsonb_array_elements_text(${JSON.stringify(batch.goneGaps)}::text::jsonb))`
    }
    yield* retained(sql, batch.keptFrom)
    yield* sql`
      INSERT INTO recording_journal (node_id, position, updated_at)
      VALUES (${batch.nodeId}, ${batch.position}, ${new Date(batch.nowMs)})
      ON CONFLICT (node_id) DO UPDATE SET position = greatest(recording_journal.position, excluded.position),
        updated_at = excluded.updated_at`
    return { refused: batch.files.length - files + batch.gaps.length - gaps }
  })))

const reading = (sql: SqlClient.SqlClient) => ({
  position: (nodeId: NodeId) =>
    answered(
      Effect.map(
        sql<{ readonly position: bigint }>`SELECT position FROM recording_journal WHERE node_id = ${nodeId}`,
        ([row]) => row === undefined ? null : Number(row.position),
      ),
    ),
  filesOf: (nodeId: NodeId) =>
    answered(Effect.map(
      sql<SegmentRow>`
        SELECT f.*, r.token FROM segment_file f JOIN recording r ON r.id = f.recording_id WHERE f.node_id = ${nodeId}`,
      (rows) => rows.map(segmentOf),
    )),
  gapsOf: (id: RecordingId, nodeId: NodeId) =>
    answered(Effect.map(
      sql<GapRow>`
        SELECT id, recording_id, node_id, start_at, end_at, cause, detail FROM recording_gap
        WHERE recording_id = ${id} AND node_id = ${nodeId} AND end_at > start_at ORDER BY start_at, id`,
      (rows) => rows.map(gapOf),
    )),
  recordingsOf: (slot: Slot) =>
    answered(
      Effect.map(
        sql<{ readonly id: RecordingId }>`SELECT id FROM recording WHERE slot = ${slot} AND deleted_at IS NULL`,
        (rows): ReadonlySet<RecordingId> => new Set(rows.map(({ id }) => id)),
      ),
    ),
  footage: (id: RecordingId, interval: Interval) =>
    answered(Effect.all({
      files: Effect.map(
        sql<SegmentRow>`
          SELECT f.*, r.token FROM segment_file f JOIN recording r ON r.id = f.recording_id
          WHERE f.recording_id = ${id} AND f.start_at < ${new Date(interval.end)} AND f.end_at > ${new Date(
          interval.start,
        )}
          ORDER BY f.start_at, f.id`,
        (rows) => rows.map(segmentOf),
      ),
      gaps: Effect.map(
        sql<GapRow>`
          SELECT id, recording_id, node_id, start_at, end_at, cause, detail FROM recording_gap
          WHERE recording_id = ${id} AND start_at < ${new Date(interval.end)}
            AND (end_at IS NULL OR end_at > ${new Date(interval.start)})
          ORDER BY start_at, id`,
        (rows) => rows.map(gapOf),
      ),
    })),
  bounds: (id: RecordingId, except: NodeId) =>
    answered(Effect.map(
      sql<{ readonly oldest: Date | null; readonly newest: Date | null }>`
        SELECT min(start_at) AS oldest, max(end_at) AS newest FROM segment_file
        WHERE recording_id = ${id} AND node_id <> ${except}`,
      ([row]) =>
        row === undefined || row.oldest === null || row.newest === null ?
          null :
          { oldestMs: row.oldest.getTime(), newestMs: row.newest.getTime() },
    )),
})
