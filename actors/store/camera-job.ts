/**
 * The store of jobs on many cameras.
 *
 * Invariants
 * 1. What an item is to do is kept sealed, and only until it is done.
 * 2. Jobs that ended are kept for {@link keptMs}.
 */
import type { CameraJobId, CameraJobItem, JobOutcome } from "#schema/camera-job.ts"
import type { CameraId, ChannelId, EpochMs, NodeId, StreamId } from "#schema/common.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

const keptMs = 7 * 86_400_000
/** Items written by one statement. */
const batch = 500

export interface NewJobItem {
  readonly id: string
  readonly number: number
  readonly name: string
  readonly host: string | null
  readonly outcome: JobOutcome
  readonly detail: string
  /** Decided beforehand: after a kill it tells whether the camera was added. */
  readonly cameraId: CameraId
  readonly sealedInput: string | null
}

export interface JobRow {
  readonly id: CameraJobId
  readonly kind: "bulk" | "import"
  readonly createdAt: Date
  readonly finishedAt: Date | null
}

const make = Effect.map(SqlClient.SqlClient, (sql) => ({
  add: (
    job: { readonly id: CameraJobId; readonly kind: JobRow["kind"]; readonly nodeId: NodeId },
    items: ReadonlyArray<NewJobItem>,
    nowMs: EpochMs,
  ) =>
    answered(sql.withTransaction(Effect.gen(function*() {
      yield* sql`DELETE FROM camera_job WHERE finished_at < ${new Date(nowMs - keptMs)}`
      yield* sql`
        INSERT INTO camera_job (id, kind, node_id, created_at)
        VALUES (${job.id}::text::uuid, ${job.kind}, ${job.nodeId}::text::uuid, ${new Date(nowMs)})`
      for (let at = 0; at < items.length; at += batch) {
        yield* sql`
          INSERT INTO camera_job_item (id, job_id, number, name, host, outcome, detail, camera_id, sealed_input)
          SELECT item.id, ${job.id}::text::uuid, item.number, item.name, item.host, item.outcome, item.detail, item."cameraId",
            item."sealedInput"
          FROM jsonb_to_recordset(${
          JSON.stringify(items.slice(at, at + batch))
        }::text::jsonb) AS item (id uuid, number integer,
            name text, host text, outcome text, detail text, "cameraId" uuid, "sealedInput" text)`
      }
    }))),
  get: (id: CameraJobId) =>
    answered(Effect.gen(function*() {
      const [job] = yield* sql<JobRow>`
        SELECT id, kind, created_at AS "createdAt", finished_at AS "finishedAt" FROM camera_job WHERE id = ${id}`
      if (job === undefined) return null
      const counts = yield* sql<{ readonly outcome: JobOutcome; readonly count: number }>`
        SELECT outcome, count(*)::integer AS count FROM camera_job_item WHERE job_id = ${id} GROUP BY outcome`
      return { job, counts }
    })),
  items: (id: CameraJobId, after: number, limit: number) =>
    answered(sql<CameraJobItem>`
      SELECT number, name, host, outcome, detail, CASE WHEN outcome IN ('added', 'known') THEN camera_id END AS "cameraId"
      FROM camera_job_item WHERE job_id = ${id} AND number > ${after} ORDER BY number LIMIT ${limit}`),
  /** Whether all items of the job are about these cameras; an item that added none is about nothing that could be told of. */
  isOf: (id: CameraJobId, cameras: ReadonlySet<string>) =>
    answered(Effect.map(
      sql<{ readonly strange: boolean }>`
        SELECT EXISTS (SELECT FROM camera_job_item WHERE job_id = ${id}
          AND (outcome NOT IN ('added', 'known') OR camera_id <> ALL (${[...cameras]}::uuid[]))) AS strange`,
      ([row]) => row?.strange === false,
    )),
  /** Of this node, oldest first. */
  running: (nodeId: NodeId) =>
    answered(sql<Pick<JobRow, "id" | "kind">>`
      SELECT id, kind FROM camera_job WHERE node_id = ${nodeId} AND finished_at IS NULL ORDER BY id`),
  waiting: (id: CameraJobId, limit: number) =>
    answered(sql<NewJobItem>`
      SELECT id, number, name, host, outcome, detail, camera_id AS "cameraId", sealed_input AS "sealedInput"
      FROM camera_job_item WHERE job_id = ${id} AND outcome = 'waiting' ORDER BY number LIMIT ${limit}`),
  settle: (itemId: string, outcome: JobOutcome, detail: string, cameraId: CameraId) =>
    answered(sql`
      UPDATE camera_job_item SET outcome = ${outcome}, detail = ${detail}, camera_id = ${cameraId}, sealed_input = NULL
      WHERE id = ${itemId}`),
  finish: (id: CameraJobId, nowMs: EpochMs) =>
    answered(sql`UPDATE camera_job SET finished_at = ${new Date(nowMs)} WHERE id = ${id}`),
  /** Cameras that have one of these parts, or a stream at one of these addresses: `channel:id`, `stream:id`, `url:…`. */
  taken: (parts: {
    readonly channels: ReadonlyArray<ChannelId>
    readonly streams: ReadonlyArray<StreamId>
    readonly urls: ReadonlyArray<string>
  }) =>
    answered(Effect.map(
      sql<{ readonly key: string; readonly name: string }>`
        SELECT 'channel:' || h.id AS key, c.name FROM camera_channel h JOIN camera c ON c.id = h.camera_id
        WHERE h.id = ANY (${[...parts.channels]}::uuid[])
        UNION ALL SELECT 'stream:' || s.id, c.name FROM camera_stream s JOIN camera c ON c.id = s.camera_id
        WHERE s.id = ANY (${[...parts.streams]}::uuid[])
        UNION ALL SELECT 'url:' || s.source_url, c.name FROM camera_stream s JOIN camera c ON c.id = s.camera_id
        WHERE s.source_url = ANY (${[...parts.urls]}::text[])`,
      (rows): ReadonlyMap<string, string> => new Map(rows.map(({ key, name }) => [key, name])),
    )),
}))

export class CameraJobStore
  extends Context.Service<CameraJobStore, Effect.Success<typeof make>>()("nightjar/actors/CameraJobStore")
{
  static readonly layer = Layer.effect(CameraJobStore, make)
}
