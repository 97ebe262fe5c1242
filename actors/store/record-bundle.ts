/**
 * The recordings of one slot as a whole: read for a guardian, and written by one that serves another node's cameras.
 *
 * Invariants
 * 1. They are written in one transaction under the epoch of their slot; those of other slots are left alone.
 * 2. Of a recording that comes from another node nothing is expected here from before it came (`kept_from`).
 * 3. A recording that is not among them any more is switched off; its footage stays.
 */
import type { EpochMs, NodeId, RecordingId, StreamId } from "#schema/common.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { NewRecording } from "#schema/record-config.ts"
import type { LedgerGap } from "#schema/record.ts"
import { uuid7Time } from "#schema/uuid.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"
import { fenced } from "./fence.ts"
import { configurationOf, type RecordingRow } from "./record-rows.ts"
import type { Writer } from "./record.ts"

export class RecordBundleStore extends Context.Service<RecordBundleStore, {
  readonly mark: (slot: Slot) => Effect.Effect<string, DependencyUnavailable>
  readonly list: (slot: Slot) => Effect.Effect<ReadonlyArray<NewRecording>, DependencyUnavailable>
  readonly place: (
    writer: Writer,
    recordings: ReadonlyArray<NewRecording>,
    keptFromMs: (id: RecordingId) => EpochMs,
  ) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** When each recording of the slot last changed. */
  readonly changedMs: (slot: Slot) => Effect.Effect<ReadonlyMap<string, EpochMs>, DependencyUnavailable>
  /** Writes these, and leaves the others as they are; of new ones nothing is expected from before `writer.nowMs`. */
  readonly merge: (
    writer: Writer,
    recordings: ReadonlyArray<NewRecording>,
  ) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** Adds to the ledger what is missing between two serving nodes; the same gap again changes nothing. */
  readonly addGaps: (
    nodeId: NodeId,
    epoch: number,
    gaps: ReadonlyArray<LedgerGap>,
  ) => Effect.Effect<void, DependencyUnavailable>
  /** Bytes a second that each stream wrote lately, by its recording: of what was stored since `sinceMs`. */
  readonly rates: (slot: Slot, sinceMs: EpochMs) => Effect.Effect<
    ReadonlyArray<{ readonly streamId: StreamId; readonly bytes: number; readonly ms: number }>,
    DependencyUnavailable
  >
  /** Every recording of the slot, its index and its gaps. */
  readonly remove: (slot: Slot) => Effect.Effect<ReadonlyArray<RecordingId>, DependencyUnavailable>
}>()("nightjar/actors/RecordBundleStore") {
  static readonly layer = Layer.effect(
    RecordBundleStore,
    Effect.map(SqlClient.SqlClient, (sql) => RecordBundleStore.of({ ...reading(sql), ...writing(sql) })),
  )
}

const reading = (sql: SqlClient.SqlClient) => ({
  mark: (slot: Slot) =>
    answered(Effect.map(
      sql<{ readonly mark: string }>`
        SELECT concat_ws('/', count(*), coalesce(sum(version), 0), coalesce(max(updated_at), 'epoch')) AS mark
        FROM recording WHERE slot = ${slot} AND deleted_at IS NULL`,
      ([row]) => row?.mark ?? "",
    )),
  list: (slot: Slot) =>
    answered(
      Effect.map(
        sql<RecordingRow>`SELECT * FROM recording WHERE slot = ${slot} AND deleted_at IS NULL ORDER BY id`,
        (rows) => rows.map(configurationOf),
      ),
    ),
  changedMs: (slot: Slot) =>
    answered(Effect.map(
      sql<
        { readonly id: string; readonly at: Date }
      >`SELECT id, updated_at AS at FROM recording WHERE slot = ${slot}`,
      (rows): ReadonlyMap<string, EpochMs> => new Map(rows.map(({ at, id }) => [id, at.getTime()])),
    )),
  rates: (slot: Slot, sinceMs: EpochMs) =>
    answered(Effect.map(
      sql<{ readonly streamId: StreamId; readonly bytes: string; readonly ms: string }>`
        SELECT f.stream_id AS "streamId", sum(f.bytes)::text AS bytes,
          sum(extract(epoch FROM f.end_at - f.start_at) * 1000)::bigint::text AS ms
        FROM segment_file f JOIN recording r ON r.id = f.recording_id
        WHERE r.slot = ${slot} AND f.end_at >= ${new Date(sinceMs)} GROUP BY f.stream_id`,
      (rows) => rows.map(({ bytes, ms, streamId }) => ({ streamId, bytes: Number(bytes), ms: Number(ms) })),
    )),
})

const writing = (sql: SqlClient.SqlClient) => {
  const put = (writer: Writer, recordings: ReadonlyArray<NewRecording>, keptFromMs: (id: RecordingId) => EpochMs) => {
    const now = new Date(writer.nowMs)
    const rows = recordings.map((one) => ({
      ...one,
      createdAt: new Date(uuid7Time(one.id)).toISOString(),
      keptFrom: new Date(keptFromMs(one.id)).toISOString(),
    }))
    return sql`
      INSERT INTO recording (id, token, slot, camera_id, channel_id, role, mode, enabled, state, reason, retention_days,
        max_bytes, pre_event_seconds, post_event_seconds, schedule, kept_from, created_at, updated_at, version)
      SELECT r.id, r."recordingToken", ${writer.slot}::text, r."cameraId", r."channelId", r.role, r.mode, r.enabled, 'waiting', '',
        r."retentionDays", r."maxBytes", r."preEventSeconds", r."postEventSeconds", r.schedule,
        r."keptFrom", r."createdAt", ${now}::timestamptz, 1
      FROM jsonb_to_recordset(${
      JSON.stringify(rows)
    }::text::jsonb) AS r (id uuid, "recordingToken" uuid, "cameraId" uuid,
        "channelId" uuid, role text, mode text, enabled boolean, "retentionDays" integer, "maxBytes" bigint,
        "preEventSeconds" integer, "postEventSeconds" integer, schedule jsonb, "createdAt" timestamptz,
        "keptFrom" timestamptz)
      ON CONFLICT (id) DO UPDATE SET mode = excluded.mode, enabled = excluded.enabled,
        retention_days = excluded.retention_days, max_bytes = excluded.max_bytes, schedule = excluded.schedule,
        pre_event_seconds = excluded.pre_event_seconds, post_event_seconds = excluded.post_event_seconds,
        updated_at = excluded.updated_at, version = recording.version + 1
      WHERE recording.slot = excluded.slot AND recording.deleted_at IS NULL`
  }
  const owned = <A, E, R>(writer: Writer, write: Effect.Effect<A, E, R>) =>
    answered(fenced({ slot: writer.slot, epoch: writer.epoch }, write)).pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
    )
  return {
    place: (writer: Writer, recordings: ReadonlyArray<NewRecording>, keptFromMs: (id: RecordingId) => EpochMs) =>
      owned(
        writer,
        Effect.gen(function*() {
          yield* put(writer, recordings, keptFromMs)
          yield* sql`
            UPDATE recording SET enabled = false, version = version + 1
            WHERE slot = ${writer.slot} AND enabled AND NOT id = ANY (${recordings.map(({ id }) => id)}::uuid[])`
        }),
      ),
    merge: (writer: Writer, recordings: ReadonlyArray<NewRecording>) =>
      owned(writer, Effect.asVoid(put(writer, recordings, () => writer.nowMs))),
    addGaps: (nodeId: NodeId, epoch: number, gaps: ReadonlyArray<LedgerGap>) =>
      gaps.length === 0 ? Effect.void : answered(Effect.asVoid(sql`
        INSERT INTO recording_gap (id, recording_id, node_id, epoch, start_at, end_at, cause, detail)
        SELECT g.id, g."recordingId", ${nodeId}::text::uuid, ${epoch}::bigint, g."startAt", g."endAt", g.cause, g.detail
        FROM jsonb_to_recordset(${
        JSON.stringify(gaps.map((gap) => ({
          ...gap,
          startAt: new Date(gap.startMs).toISOString(),
          endAt: gap.endMs === null ? null : new Date(gap.endMs).toISOString(),
        })))
      }::text::jsonb)
          AS g (id text, "recordingId" uuid, "startAt" timestamptz, "endAt" timestamptz, cause text, detail text)
        JOIN recording r ON r.id = g."recordingId"
        ON CONFLICT (id) DO NOTHING`)),
    remove: (slot: Slot) =>
      answered(
        Effect.map(sql<{ readonly id: RecordingId }>`DELETE FROM recording WHERE slot = ${slot} RETURNING id`, (rows) =>
          rows.map(({ id }) =>
            id
          )),
      ),
  }
}
