/**
 * The store of other nodes' channels.
 *
 * Invariants
 * 1. A channel keeps its id as long as its node is paired, told of or not.
 */
import type { FederatedChannel, OfferedChannel } from "#schema/bff-federation.ts"
import type { ChannelId, EpochMs, NodeId, RecordingToken } from "#schema/common.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

type Row = Omit<FederatedChannel, "updatedAt"> & { readonly updatedAt: Date }

const toChannel = (row: Row): FederatedChannel => ({ ...row, updatedAt: row.updatedAt.getTime() })

const make = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns =
    sql`id, node_id AS "nodeId", remote_channel_id AS "remoteChannelId", remote_camera_id AS "remoteCameraId",
    channel_name AS "channelName", camera_name AS "cameraName", active, recordings, present, updated_at AS "updatedAt"`
  const one = (rows: ReadonlyArray<Row>) => rows[0] === undefined ? null : toChannel(rows[0])
  return {
    /** By id. */
    list: (nodeId: NodeId | null, after: ChannelId | null, limit: number) =>
      answered(Effect.map(
        sql<Row>`
          SELECT ${columns} FROM federation_channel
          WHERE (${nodeId}::uuid IS NULL OR node_id = ${nodeId}::uuid) AND (${after}::uuid IS NULL OR id > ${after}::uuid)
          ORDER BY id LIMIT ${limit}`,
        (rows) => rows.map(toChannel),
      )),
    ofNode: (nodeId: NodeId) =>
      answered(
        Effect.map(sql<Row>`SELECT ${columns} FROM federation_channel WHERE node_id = ${nodeId}`, (rows) =>
          rows.map(toChannel)),
      ),
    get: (id: ChannelId) =>
      answered(Effect.map(sql<Row>`SELECT ${columns} FROM federation_channel WHERE id = ${id}`, one)),
    byToken: (token: RecordingToken) =>
      answered(Effect.map(
        sql<Row>`
          SELECT ${columns} FROM federation_channel
          WHERE recordings @> ${
          JSON.stringify([{ recordingToken: token }])
        }::text::jsonb ORDER BY present DESC LIMIT 1`,
        one,
      )),
    ofSubject: (nodeId: NodeId, remoteId: string) =>
      answered(Effect.map(
        sql<Row>`
          SELECT ${columns} FROM federation_channel
          WHERE node_id = ${nodeId} AND (remote_channel_id::text = ${remoteId} OR remote_camera_id::text = ${remoteId}
            OR recordings @> jsonb_build_array(jsonb_build_object('recordingToken', ${remoteId}::text)))`,
        (rows) => rows.map(toChannel),
      )),
    /** Of these, those that are here. */
    known: (ids: ReadonlyArray<ChannelId>) =>
      answered(
        Effect.map(
          sql<{ readonly id: ChannelId }>`SELECT id FROM federation_channel WHERE id = ANY (${[...ids]}::uuid[])`,
          (rows): ReadonlySet<string> => new Set(rows.map(({ id }) => id)),
        ),
      ),
    /** In one transaction: the new and changed under their ids, and those that are not told of any more. */
    put: (
      nodeId: NodeId,
      told: ReadonlyArray<OfferedChannel & { readonly id: ChannelId }>,
      gone: ReadonlyArray<ChannelId>,
      nowMs: EpochMs,
    ) =>
      answered(sql.withTransaction(Effect.gen(function*() {
        const now = new Date(nowMs)
        const rows = JSON.stringify(told)
        yield* sql`
          INSERT INTO federation_channel (id, node_id, remote_channel_id, remote_camera_id, channel_name, camera_name, active,
            recordings, present, updated_at)
          SELECT t.id, ${nodeId}::uuid, t."channelId", t."cameraId", t."channelName", t."cameraName", t.active, t.recordings,
            true, ${now}::timestamptz
          FROM jsonb_to_recordset(${rows}::text::jsonb) AS t (id uuid, "channelId" uuid, "cameraId" uuid, "channelName" text,
            "cameraName" text, active boolean, recordings jsonb)
          ON CONFLICT (node_id, remote_channel_id) DO UPDATE SET remote_camera_id = excluded.remote_camera_id,
            channel_name = excluded.channel_name, camera_name = excluded.camera_name, active = excluded.active,
            recordings = excluded.recordings, present = true, updated_at = excluded.updated_at`
        yield* sql`
          UPDATE federation_channel SET present = false, updated_at = ${now} WHERE id = ANY (${[...gone]}::uuid[])`
      }))),
    /** Forgets the channels of all nodes but these. */
    keepOnly: (nodeIds: ReadonlyArray<NodeId>) =>
      answered(sql`DELETE FROM federation_channel WHERE node_id <> ALL (${[...nodeIds]}::uuid[])`),
  }
})

export class FederatedChannelStore
  extends Context.Service<FederatedChannelStore, Effect.Success<typeof make>>()("nightjar/actors/FederatedChannelStore")
{
  static readonly layer = Layer.effect(FederatedChannelStore, make)
}
