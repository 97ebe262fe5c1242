/** SQL of Web Push: each node's key, and the subscriptions that were made with it. */
import type { EpochMs, NodeId, UserId } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface PushRow {
  readonly id: string
  readonly userId: UserId
  readonly service: string
  /** Endpoint and keys, sealed by the node's vault. */
  readonly sealed: string
  readonly nodeId: string
  readonly userAgent: string
  readonly createdAt: Date
  readonly deliveredAt: Date | null
}

export const NotificationPushStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns = sql.literal(`id, user_id AS "userId", service, sealed, node_id AS "nodeId", user_agent AS "userAgent",
    created_at AS "createdAt", delivered_at AS "deliveredAt"`)
  return {
    key: (nodeId: NodeId) =>
      Effect.map(
        sql<{ readonly publicKey: string; readonly sealedPrivate: string }>`
          SELECT public_key AS "publicKey", sealed_private AS "sealedPrivate" FROM notification_push_key
          WHERE node_id = ${nodeId}`,
        ([row]) => row ?? null,
      ),
    /** Keeps the first. */
    keepKey: (nodeId: NodeId, publicKey: string, sealedPrivate: string, nowMs: EpochMs) =>
      sql`
        INSERT INTO notification_push_key (node_id, public_key, sealed_private, created_at)
        VALUES (${nodeId}, ${publicKey}, ${sealedPrivate}, ${new Date(nowMs)}) ON CONFLICT (node_id) DO NOTHING`,
    /** Newest first. */
    ofUsers: (users: ReadonlyArray<UserId>, limit: number) =>
      users.length === 0 ?
        Effect.succeed([]) :
        sql<PushRow>`
          SELECT ${columns} FROM notification_push WHERE user_id IN ${sql.in(users)}
          ORDER BY created_at DESC, id DESC LIMIT ${limit}`,
    get: (id: string) =>
      Effect.map(
        sql<PushRow>`SELECT ${columns} FROM notification_push WHERE id = ${id}::text::uuid`,
        ([row]) => row ?? null,
      ),
    /** The same endpoint again replaces; beyond `most` of the user the oldest go. */
    add: (row: Omit<PushRow, "deliveredAt"> & { readonly endpointHash: Uint8Array }, most: number) =>
      sql.withTransaction(Effect.gen(function*() {
        yield* sql`DELETE FROM notification_push WHERE user_id = ${row.userId} AND endpoint_hash = ${row.endpointHash}`
        yield* sql`
          INSERT INTO notification_push (id, user_id, endpoint_hash, service, sealed, node_id, user_agent, created_at)
          VALUES (${row.id}, ${row.userId}, ${row.endpointHash}, ${row.service}, ${row.sealed}, ${row.nodeId},
            ${row.userAgent}, ${row.createdAt})`
        yield* sql`
          DELETE FROM notification_push WHERE user_id = ${row.userId} AND id IN (
            SELECT id FROM notification_push WHERE user_id = ${row.userId} ORDER BY created_at DESC, id DESC OFFSET ${most})`
      })),
    /** Answers whether there was one. `userId` null: whoever's it is. */
    remove: (id: string, userId: UserId | null) =>
      Effect.map(
        sql`
          DELETE FROM notification_push
          WHERE id = ${id}::text::uuid AND ${userId === null ? sql`TRUE` : sql`user_id = ${userId}`} RETURNING 1`,
        (rows) => rows.length > 0,
      ),
    delivered: (id: string, nowMs: EpochMs) =>
      sql`UPDATE notification_push SET delivered_at = ${new Date(nowMs)} WHERE id = ${id}::text::uuid`,
  }
})
