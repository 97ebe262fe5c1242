/**
 * The store of segments that other nodes brought, on their home node.
 *
 * Invariants
 * 1. One row a segment of a serving node: `wanted` (promised), `held` (whole in quarantine), `stored` (among the recordings).
 * 2. Segments with one `file_id` become one file; it is complete when none of them is `wanted`.
 * 3. A `stored` segment stays so.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { SegmentName } from "#schema/federation-recordback.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

export type IncomingState = "wanted" | "held" | "stored"

export interface IncomingRow extends SegmentName {
  readonly rerouteId: string
  readonly sourceFile: string
  /** The file it will be part of, and where behind its front. */
  readonly fileId: string
  readonly at: number
  readonly bytes: number
  readonly sha256: string
  readonly frontSha256: string
  readonly state: IncomingState
  readonly receipt: string | null
}

const columns =
  `recording_id AS "recordingId", epoch::float8 AS epoch, sequence::float8 AS sequence, reroute_id AS "rerouteId",
  source_file AS "sourceFile", file_id AS "fileId", at::float8 AS at, bytes, sha256, front_sha256 AS "frontSha256", state, receipt`

const make = Effect.map(SqlClient.SqlClient, (sql) => {
  const named = (servingNodeId: NodeId, { epoch, recordingId, sequence }: SegmentName) =>
    sql`serving_node_id = ${servingNodeId} AND recording_id = ${recordingId} AND epoch = ${epoch} AND sequence = ${sequence}`
  return {
    /** What is known of these segments. */
    find: (servingNodeId: NodeId, names: ReadonlyArray<SegmentName>) =>
      answered(sql<IncomingRow>`
        SELECT ${sql.literal(columns)} FROM recordback_incoming
        WHERE serving_node_id = ${servingNodeId} AND (recording_id, epoch, sequence) IN (
          SELECT n."recordingId", n.epoch, n.sequence
          FROM jsonb_to_recordset(${
        JSON.stringify(names)
      }::text::jsonb) AS n ("recordingId" uuid, epoch bigint, sequence bigint))`),
    /** Promises segments; one that was promised with other bytes is promised anew, one that is stored stays. */
    promise: (servingNodeId: NodeId, rows: ReadonlyArray<IncomingRow>, nowMs: EpochMs) =>
      rows.length === 0 ? Effect.void : answered(sql`
        INSERT INTO recordback_incoming (serving_node_id, recording_id, epoch, sequence, reroute_id, source_file, file_id, at, bytes,
          sha256, front_sha256, state, updated_at)
        SELECT ${servingNodeId}::text::uuid, r."recordingId", r.epoch, r.sequence, r."rerouteId", r."sourceFile", r."fileId", r.at,
          r.bytes, r.sha256, r."frontSha256", 'wanted', ${new Date(nowMs)}
        FROM jsonb_to_recordset(${
        JSON.stringify(rows)
      }::text::jsonb) AS r ("recordingId" uuid, epoch bigint, sequence bigint,
          "rerouteId" uuid, "sourceFile" text, "fileId" text, at bigint, bytes integer, sha256 text, "frontSha256" text)
        ON CONFLICT (serving_node_id, recording_id, epoch, sequence) DO UPDATE SET reroute_id = excluded.reroute_id,
          source_file = excluded.source_file, file_id = excluded.file_id, at = excluded.at, bytes = excluded.bytes,
          sha256 = excluded.sha256, front_sha256 = excluded.front_sha256, state = excluded.state, updated_at = excluded.updated_at
        WHERE recordback_incoming.state <> 'stored'`).pipe(Effect.asVoid),
    /** Segments of a file to be, in their order. */
    ofFile: (fileId: string) =>
      answered(sql<IncomingRow>`
        SELECT ${sql.literal(columns)} FROM recordback_incoming WHERE file_id = ${fileId} ORDER BY at`),
    /** They come no more, or in another file: nothing was promised. */
    forget: (fileIds: ReadonlyArray<string>) =>
      fileIds.length === 0 ? Effect.void : answered(sql`
        DELETE FROM recordback_incoming WHERE file_id = ANY (${[...fileIds]}::text[]) AND state <> 'stored'`).pipe(
        Effect.asVoid,
      ),
    /** Files to be of which every segment is held, and not every one stored. */
    whole: answered(sql<{ readonly fileId: string; readonly from: NodeId }>`
      SELECT file_id AS "fileId", serving_node_id AS "from" FROM recordback_incoming
      WHERE file_id IN (SELECT file_id FROM recordback_incoming WHERE state = 'held')
      GROUP BY file_id, serving_node_id HAVING bool_and(state <> 'wanted') ORDER BY file_id`),
    /** Lets go of what was promised or held of files that are not whole and not touched since, and of what was stored so long ago. */
    expire: (waitingBeforeMs: EpochMs, storedBeforeMs: EpochMs) =>
      answered(sql`
        DELETE FROM recordback_incoming AS r
        WHERE (r.state = 'stored' AND r.updated_at < ${new Date(storedBeforeMs)})
          OR (r.state <> 'stored'
            AND EXISTS (SELECT 1 FROM recordback_incoming AS w WHERE w.file_id = r.file_id AND w.state = 'wanted')
            AND NOT EXISTS (
              SELECT 1 FROM recordback_incoming AS o
              WHERE o.file_id = r.file_id AND o.updated_at >= ${new Date(waitingBeforeMs)}))`),
    held: (servingNodeId: NodeId, name: SegmentName, nowMs: EpochMs) =>
      answered(sql`
        UPDATE recordback_incoming SET state = 'held', updated_at = ${new Date(nowMs)}
        WHERE ${named(servingNodeId, name)} AND state = 'wanted'`),
    stored: (servingNodeId: NodeId, name: SegmentName, receipt: string, nowMs: EpochMs) =>
      answered(sql`
        UPDATE recordback_incoming SET state = 'stored', receipt = ${receipt}, updated_at = ${new Date(nowMs)}
        WHERE ${named(servingNodeId, name)}`),
    /** Of these files to be, those that something is still promised or held of. */
    awaited: (fileIds: ReadonlyArray<string>) =>
      answered(Effect.map(
        sql<{ readonly fileId: string }>`
          SELECT DISTINCT file_id AS "fileId" FROM recordback_incoming
          WHERE file_id = ANY (${[...fileIds]}::text[]) AND state <> 'stored'`,
        (rows): ReadonlySet<string> => new Set(rows.map(({ fileId }) => fileId)),
      )),
  }
})

export class RecordBackHomeStore
  extends Context.Service<RecordBackHomeStore, Effect.Success<typeof make>>()("nightjar/actors/RecordBackHomeStore")
{
  static readonly layer = Layer.effect(RecordBackHomeStore, make)
}
