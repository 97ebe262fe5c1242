/**
 * Every column of the database that holds sealed texts, and how one is replaced by another seal of the same secret. Whose table
 * it is does not matter here: the meaning of a row stays what it was.
 *
 * Invariants
 * 1. {@link sealedColumns} is complete: a test compares it with the migrations.
 * 2. A seal is replaced only if it is still the one that was read: a secret that was changed meanwhile wins.
 */
import { peerTokenSecret } from "#schema/auth-federation.ts"
import { cameraJobSecret, cameraSecret, streamSecret } from "#schema/camera-change.ts"
import { CameraId, StreamId } from "#schema/common.ts"
import { conflictSecret, journalSecret } from "#schema/federation-journal.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

export interface SealedColumn {
  readonly table: string
  readonly column: string
  /** Column of the primary key. */
  readonly key: string
  /** What a secret is sealed for, by its row's key. */
  readonly context: (key: string) => string
  /** Only the node that sealed it may open it: it stays under that node's own key in a cluster too. */
  readonly own?: true
}

export const sealedColumns: ReadonlyArray<SealedColumn> = [
  {
    table: "auth_signing_key",
    column: "sealed_private",
    key: "kid",
    context: (kid) => `auth/signing-key/${kid}`,
    own: true,
  },
  { table: "auth_smtp", column: "sealed_password", key: "only", context: () => "auth/smtp/password" },
  {
    table: "auth_second_factor",
    column: "sealed_secret",
    key: "user_id",
    context: (userId) => `auth/second-factor/${userId}`,
  },
  { table: "auth_peer", column: "sealed_token", key: "id", context: peerTokenSecret },
  { table: "camera", column: "sealed_password", key: "id", context: (id) => cameraSecret(CameraId.make(id)) },
  { table: "camera_stream", column: "sealed_password", key: "id", context: (id) => streamSecret(StreamId.make(id)) },
  {
    table: "camera_job_item",
    column: "sealed_input",
    key: "id",
    context: cameraJobSecret,
  },
  {
    table: "notification_webhook",
    column: "sealed_secret",
    key: "id",
    context: (id) => `notification/webhook/${id}`,
  },
  {
    table: "notification_push_key",
    column: "sealed_private",
    key: "node_id",
    context: (id) => `notification/push-key/${id}`,
  },
  { table: "notification_push", column: "sealed", key: "id", context: (id) => `notification/push/${id}` },
  { table: "federation_journal", column: "sealed_before", key: "id", context: journalSecret },
  { table: "federation_journal", column: "sealed_after", key: "id", context: journalSecret },
  { table: "federation_conflict", column: "sealed_base", key: "id", context: conflictSecret },
  { table: "federation_conflict", column: "sealed_here", key: "id", context: conflictSecret },
  { table: "federation_conflict", column: "sealed_there", key: "id", context: conflictSecret },
  { table: "license", column: "sealed_key", key: "id", context: () => "license/key" },
]

export interface SealedRow {
  readonly key: string
  readonly sealed: string
}

export const AuthVaultStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const under = (column: string, keyIds: ReadonlyArray<string>) =>
    sql`split_part(${sql(column)}, '.', 2) IN ${sql.in(keyIds)}`
  return {
    /** Rows sealed under one of these keys, after a row's key, in its order. */
    page: (one: SealedColumn, keyIds: ReadonlyArray<string>, after: string, limit: number) =>
      sql<SealedRow>`
        SELECT ${sql(one.key)}::text AS key, ${sql(one.column)} AS sealed FROM ${sql(one.table)}
        WHERE ${under(one.column, keyIds)} AND ${sql(one.key)}::text > ${after}
        ORDER BY ${sql(one.key)}::text LIMIT ${limit}`,
    count: (one: SealedColumn, keyIds: ReadonlyArray<string>) =>
      Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::int AS count FROM ${sql(one.table)} WHERE ${under(one.column, keyIds)}`,
        (rows) => rows[0]?.count ?? 0,
      ),
    /** All of them, on the disk when it returns. */
    replace: (
      one: SealedColumn,
      rows: ReadonlyArray<SealedRow & { readonly next: string }>,
    ): Effect.Effect<void, SqlError.SqlError> =>
      sql.withTransaction(Effect.andThen(
        // Whatever the server's habit: the old key must not go before this is safe.
        sql`SET LOCAL synchronous_commit TO on`,
        Effect.forEach(rows, ({ key, next, sealed }) =>
          sql`
            UPDATE ${sql(one.table)} SET ${sql(one.column)} = ${next}
            WHERE ${sql(one.key)}::text = ${key} AND ${sql(one.column)} = ${sealed}`, { discard: true }),
      )),
  }
})
export type AuthVaultStore = Effect.Success<typeof AuthVaultStore>
