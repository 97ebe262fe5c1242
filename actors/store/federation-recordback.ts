/**
 * The store of record-back jobs, on the node that recorded.
 *
 * Invariants
 * 1. A segment is `left` until its receipt is here, or until it is `lost`: its bytes are gone or damaged.
 * 2. Planning a file twice adds nothing.
 * 3. Jobs that ended are kept until {@link RecordBackStore} is told to let them go.
 */
import type { ChannelId, EpochMs, NodeId, RecordingId } from "#schema/common.ts"
import type { SegmentName } from "#schema/federation-recordback.ts"
import type { RecordBackState } from "#schema/federation.ts"
import type { Slot } from "#schema/ownership.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

/** Rows of one statement. */
const batch = 1_000

export interface JobRow {
  readonly id: string
  readonly homeNodeId: NodeId
  readonly slot: Slot
  readonly firstEpoch: number
  readonly lastEpoch: number
  readonly state: RecordBackState
  readonly attempt: number
  readonly refusals: number
  readonly dueMs: EpochMs | null
  readonly reason: string
  readonly createdMs: EpochMs
  readonly endedMs: EpochMs | null
}

export type JobChange = Pick<JobRow, "state" | "attempt" | "refusals" | "dueMs" | "reason">

export type LeftState = "left" | "home" | "lost"

/** A segment as it is planned. */
export interface SegmentRow extends SegmentName {
  readonly channelId: ChannelId
  readonly fileId: string
  readonly folder: string
  /** Fragments `[firstRow, endRow)` of the file. */
  readonly firstRow: number
  readonly endRow: number
  /** Position of the first one in the file. */
  readonly at: number
  readonly bytes: number
  readonly startMs: EpochMs
  readonly endMs: EpochMs
  readonly exact: boolean
  readonly sha256: string | null
  /** How often the home node found other bytes than promised. */
  readonly tries: number
}

interface FileOfJob {
  readonly fileId: string
  readonly folder: string
  readonly recordingId: RecordingId
}

export interface Totals {
  readonly segmentsDone: number
  readonly segmentsTotal: number
  readonly bytesDone: number
  readonly bytesTotal: number
  readonly left: number
  readonly lost: number
}

const jobColumns =
  `id, home_node_id AS "homeNodeId", slot, first_epoch::float8 AS "firstEpoch", last_epoch::float8 AS "lastEpoch",
  state, attempt, refusals, round(extract(epoch FROM due_at) * 1000)::float8 AS "dueMs", reason,
  round(extract(epoch FROM created_at) * 1000)::float8 AS "createdMs", round(extract(epoch FROM ended_at) * 1000)::float8 AS "endedMs"`

const segmentColumns = `recording_id AS "recordingId", epoch::float8 AS epoch, sequence::float8 AS sequence,
  channel_id AS "channelId", file_id AS "fileId", folder, first_row AS "firstRow", end_row AS "endRow", at::float8 AS at, bytes,
  round(extract(epoch FROM start_at) * 1000)::float8 AS "startMs", round(extract(epoch FROM end_at) * 1000)::float8 AS "endMs",
  exact, sha256, tries`

const iso = (ms: EpochMs) => new Date(ms).toISOString()

const make = Effect.map(SqlClient.SqlClient, (sql) => {
  const insert = (jobId: string, rows: ReadonlyArray<SegmentRow>) =>
    Effect.gen(function*() {
      for (let at = 0; at < rows.length; at += batch) {
        const told = rows.slice(at, at + batch).map((row) => ({
          ...row,
          startAt: iso(row.startMs),
          endAt: iso(row.endMs),
        }))
        yield* sql`
          INSERT INTO recordback_segment (job_id, recording_id, epoch, sequence, channel_id, file_id, folder, first_row, end_row, at,
            bytes, start_at, end_at, exact, state, sha256, tries)
          SELECT ${jobId}::text::uuid, s."recordingId", s.epoch, s.sequence, s."channelId", s."fileId", s.folder, s."firstRow",
            s."endRow", s.at, s.bytes, s."startAt", s."endAt", s.exact, 'left', s.sha256, s.tries
          FROM jsonb_to_recordset(${
          JSON.stringify(told)
        }::text::jsonb) AS s ("recordingId" uuid, epoch bigint, sequence bigint,
            "channelId" uuid, "fileId" text, folder text, "firstRow" integer, "endRow" integer, at bigint, bytes integer,
            "startAt" timestamptz, "endAt" timestamptz, exact boolean, sha256 text, tries integer)
          ON CONFLICT DO NOTHING`
      }
    })
  const named = (jobId: string, { epoch, recordingId, sequence }: SegmentName) =>
    sql`job_id = ${jobId} AND recording_id = ${recordingId} AND epoch = ${epoch} AND sequence = ${sequence}`
  return {
    add: (
      job: Pick<JobRow, "id" | "homeNodeId" | "slot" | "firstEpoch" | "lastEpoch">,
      nodeId: NodeId,
      nowMs: EpochMs,
    ) =>
      answered(Effect.gen(function*() {
        yield* sql`
          INSERT INTO recordback_job (id, node_id, home_node_id, slot, first_epoch, last_epoch, state, attempt, refusals, reason,
            created_at)
          VALUES (${job.id}, ${nodeId}, ${job.homeNodeId}, ${job.slot}, ${job.firstEpoch}, ${job.lastEpoch}, 'pending', 0, 0, '',
            ${new Date(nowMs)})
          ON CONFLICT DO NOTHING`
      })),
    get: (id: string) =>
      answered(
        Effect.map(sql<JobRow>`SELECT ${sql.literal(jobColumns)} FROM recordback_job WHERE id = ${id}`, ([row]) =>
          row ?? null),
      ),
    /** Of a node, newest first, below `before`. */
    list: (nodeId: NodeId, before: string | null, limit: number) =>
      answered(sql<JobRow>`
        SELECT ${sql.literal(jobColumns)} FROM recordback_job
        WHERE node_id = ${nodeId} AND (${before}::text IS NULL OR id < ${before}::text::uuid) ORDER BY id DESC LIMIT ${limit}`),
    /** Jobs of a node that have not ended. */
    open: (nodeId: NodeId) =>
      answered(sql<JobRow>`
        SELECT ${
        sql.literal(jobColumns)
      } FROM recordback_job WHERE node_id = ${nodeId} AND ended_at IS NULL ORDER BY id`),
    /** Jobs of a node that have ended. */
    ended: (nodeId: NodeId) =>
      answered(Effect.map(
        sql<{ readonly id: string }>`
          SELECT id FROM recordback_job WHERE node_id = ${nodeId} AND ended_at IS NOT NULL ORDER BY id`,
        (rows) => rows.map(({ id }) => id),
      )),
    /** Jobs that ended before, with their segments and receipts. */
    expire: (beforeMs: EpochMs) => answered(sql`DELETE FROM recordback_job WHERE ended_at < ${new Date(beforeMs)}`),
    change: (id: string, change: JobChange, endedMs: EpochMs | null) =>
      answered(sql`
        UPDATE recordback_job SET state = ${change.state}, attempt = ${change.attempt}, refusals = ${change.refusals},
          due_at = ${change.dueMs === null ? null : new Date(change.dueMs)}, reason = ${change.reason},
          ended_at = ${endedMs === null ? null : new Date(endedMs)}
        WHERE id = ${id}`),
    /** Ids of files that were planned. */
    planned: (id: string) =>
      answered(Effect.map(
        sql<{ readonly fileId: string }>`
          SELECT DISTINCT file_id AS "fileId" FROM recordback_segment WHERE job_id = ${id}`,
        (rows): ReadonlySet<string> => new Set(rows.map(({ fileId }) => fileId)),
      )),
    plan: (id: string, rows: ReadonlyArray<SegmentRow>) => answered(sql.withTransaction(insert(id, rows))),
    /** The oldest that are left, of at most `files` files, whole files but for the last. */
    left: (id: string, limit: number) =>
      answered(sql<SegmentRow>`
        SELECT ${sql.literal(segmentColumns)} FROM recordback_segment WHERE job_id = ${id} AND state = 'left'
        ORDER BY start_at, file_id, sequence LIMIT ${limit}`),
    hashed: (id: string, name: SegmentName, sha256: string) =>
      answered(sql`UPDATE recordback_segment SET sha256 = ${sha256} WHERE ${named(id, name)}`),
    /** Other bytes came than were promised: they are read again. */
    unhashed: (id: string, name: SegmentName) =>
      answered(sql`UPDATE recordback_segment SET sha256 = NULL, tries = tries + 1 WHERE ${named(id, name)}`),
    settle: (id: string, name: SegmentName, state: LeftState, receipt: string | null) =>
      answered(sql`UPDATE recordback_segment SET state = ${state}, receipt = ${receipt} WHERE ${named(id, name)}`),
    /** A segment becomes the parts of it that are wanted. */
    replace: (id: string, name: SegmentName, rows: ReadonlyArray<SegmentRow>) =>
      answered(
        sql.withTransaction(
          Effect.andThen(sql`DELETE FROM recordback_segment WHERE ${named(id, name)}`, insert(id, rows)),
        ),
      ),
    /** What could not be brought home is tried again. */
    again: (id: string) =>
      answered(sql`
        UPDATE recordback_segment SET state = 'left', tries = 0, sha256 = NULL WHERE job_id = ${id} AND state = 'lost'`),
    totals: (id: string) =>
      answered(Effect.map(
        sql<Totals>`
          SELECT count(*) FILTER (WHERE state = 'home')::integer AS "segmentsDone", count(*)::integer AS "segmentsTotal",
            coalesce(sum(bytes) FILTER (WHERE state = 'home'), 0)::float8 AS "bytesDone",
            coalesce(sum(bytes), 0)::float8 AS "bytesTotal",
            count(*) FILTER (WHERE state = 'left')::integer AS left, count(*) FILTER (WHERE state = 'lost')::integer AS lost
          FROM recordback_segment WHERE job_id = ${id}`,
        ([row]) => row ?? { segmentsDone: 0, segmentsTotal: 0, bytesDone: 0, bytesTotal: 0, left: 0, lost: 0 },
      )),
    /** Files that something is lost of. */
    lost: (id: string) =>
      answered(sql<FileOfJob>`
          SELECT DISTINCT file_id AS "fileId", folder, recording_id AS "recordingId" FROM recordback_segment
          WHERE job_id = ${id} AND state = 'lost'`),
    /** Files of which every segment is home. */
    finished: (id: string) =>
      answered(sql<FileOfJob>`
          SELECT file_id AS "fileId", folder, recording_id AS "recordingId" FROM recordback_segment WHERE job_id = ${id}
          GROUP BY file_id, folder, recording_id HAVING bool_and(state = 'home')`),
  }
})

export class RecordBackStore
  extends Context.Service<RecordBackStore, Effect.Success<typeof make>>()("nightjar/actors/RecordBackStore")
{
  static readonly layer = Layer.effect(RecordBackStore, make)
}
