/** SQL of signing in: a user by name or id, signing keys, and the removal of what is over. */
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { userColumns, usernameKey, type UserRow } from "./auth-users.ts"

export interface KeyRow {
  readonly kid: string
  readonly publicX: string
  readonly sealedPrivate: string
  readonly signsFrom: Date
  readonly expiresAt: Date
}

const users = (sql: SqlClient.SqlClient) => {
  const columns = sql.literal(userColumns)
  const one = Effect.map((rows: ReadonlyArray<UserRow>) => rows[0] ?? null)
  return {
    byName: (username: string) =>
      one(sql<UserRow>`SELECT ${columns} FROM auth_user u WHERE u.username_key = ${usernameKey(username)}`),
    byId: (id: string) => one(sql<UserRow>`SELECT ${columns} FROM auth_user u WHERE u.id = ${id}`),
    /** The same password at another cost; not where it was changed meanwhile. */
    rehash: (id: string, before: string, hash: string) =>
      sql`UPDATE auth_user SET password_hash = ${hash} WHERE id = ${id} AND password_hash = ${before}`,
  }
}

const keys = (sql: SqlClient.SqlClient) => ({
  /** Not expired, the one that signs from the latest moment on first. */
  list: (nowMs: EpochMs) =>
    sql<KeyRow>`
      SELECT kid, public_x AS "publicX", sealed_private AS "sealedPrivate", signs_from AS "signsFrom",
        expires_at AS "expiresAt"
      FROM auth_signing_key WHERE expires_at > ${new Date(nowMs)} ORDER BY signs_from DESC, kid`,
  add: (key: {
    readonly kid: string
    readonly publicX: string
    readonly sealedPrivate: string
    readonly nowMs: EpochMs
    readonly signsFromMs: EpochMs
    readonly expiresAtMs: EpochMs
  }) =>
    sql`
      INSERT INTO auth_signing_key (kid, public_x, sealed_private, created_at, signs_from, expires_at)
      VALUES (${key.kid}, ${key.publicX}, ${key.sealedPrivate}, ${new Date(key.nowMs)}, ${new Date(key.signsFromMs)},
        ${new Date(key.expiresAtMs)})`,
})

/** Rows that serve no purpose any more: expired keys, sessions over for a week, used tokens of a week ago, old failures. */
const prune = (sql: SqlClient.SqlClient) => (nowMs: EpochMs) => {
  const weekAgo = new Date(nowMs - 7 * 86_400_000)
  return Effect.all([
    sql`DELETE FROM auth_signing_key WHERE expires_at < ${new Date(nowMs)}`,
    sql`DELETE FROM auth_session WHERE expires_at < ${weekAgo} OR ended_at < ${weekAgo}`,
    sql`DELETE FROM auth_refresh_token WHERE used_at < ${weekAgo}`,
    sql`DELETE FROM auth_throttle WHERE updated_at < ${new Date(nowMs - 86_400_000)}`,
  ], { discard: true })
}

/** The store, over the client at hand. */
export const AuthStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  users: users(sql),
  keys: keys(sql),
  prune: prune(sql),
}))
export type AuthStore = Effect.Success<typeof AuthStore>
