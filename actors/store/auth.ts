/**
 * SQL of identity: users and roles, sessions and their refresh tokens, signing keys.
 *
 * Invariants
 * 1. A refresh token is used up by exactly one transaction; whoever brings it again is told so.
 * 2. A refresh token is kept as its SHA-256 only: 256 random bits need no slow hash.
 */
import type { ProfileChange } from "#schema/auth.ts"
import type { EpochMs } from "#schema/common.ts"
import type { Grant } from "#schema/permission.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

export interface UserRow {
  readonly id: string
  readonly username: string
  readonly passwordHash: string
  readonly displayName: string
  readonly email: string | null
  readonly locale: string | null
  readonly timeZone: string | null
  readonly enabled: boolean
  readonly createdAt: Date
  readonly passwordChangedAt: Date
  readonly version: number
  readonly roles: ReadonlyArray<string>
}

export interface KeyRow {
  readonly kid: string
  readonly publicX: string
  readonly sealedPrivate: string
  readonly createdAt: Date
  readonly expiresAt: Date
}

/** What became of a refresh token that was presented. */
export type Rotation =
  | { readonly kind: "rotated"; readonly sessionId: string; readonly expiresAtMs: EpochMs; readonly user: UserRow }
  | { readonly kind: "replayed"; readonly sessionId: string }
  | { readonly kind: "refused" }

/** Names that differ in case or in Unicode form only are one name. */
export const usernameKey = (username: string): string => username.normalize("NFKC").toLowerCase()

const users = (sql: SqlClient.SqlClient) => {
  const columns = sql.literal(`
    u.id, u.username, u.password_hash AS "passwordHash", u.display_name AS "displayName", u.email, u.locale,
    u.time_zone AS "timeZone", u.enabled, u.created_at AS "createdAt", u.password_changed_at AS "passwordChangedAt", u.version,
    ARRAY(SELECT r.role FROM auth_user_role r WHERE r.user_id = u.id ORDER BY r.role) AS roles`)
  const one = Effect.map((rows: ReadonlyArray<UserRow>) => rows[0] ?? null)
  return {
    byName: (username: string) =>
      one(sql<UserRow>`SELECT ${columns} FROM auth_user u WHERE u.username_key = ${usernameKey(username)}`),
    byId: (id: string) => one(sql<UserRow>`SELECT ${columns} FROM auth_user u WHERE u.id = ${id}`),
    /** Adds the user if there is none at all; tells whether it did. Two nodes that start at once wait for each other. */
    addFirst: (
      user: { readonly id: string; readonly username: string; readonly passwordHash: string; readonly nowMs: EpochMs },
    ) =>
      sql.withTransaction(Effect.gen(function*() {
        yield* sql`LOCK TABLE auth_user IN SHARE ROW EXCLUSIVE MODE`
        const [{ count }] = (yield* sql`SELECT count(*)::int AS count FROM auth_user`) as unknown as [{ count: number }]
        if (count > 0) return false
        const now = new Date(user.nowMs)
        yield* sql`
          INSERT INTO auth_user (id, username, username_key, password_hash, created_at, password_changed_at)
          VALUES (${user.id}, ${user.username}, ${usernameKey(user.username)}, ${user.passwordHash}, ${now}, ${now})`
        yield* sql`INSERT INTO auth_user_role (user_id, role) VALUES (${user.id}, 'admin')`
        return true
      })),
    /** `null`: there is no such user, or `expectedVersion` is not the current one. */
    change: (id: string, change: ProfileChange, expectedVersion: number | null) =>
      Effect.map(
        sql`
          UPDATE auth_user SET
            display_name = CASE WHEN ${change.displayName !== undefined} THEN ${
          change.displayName ?? ""
        } ELSE display_name END,
            email = CASE WHEN ${change.email !== undefined} THEN ${change.email ?? null}::text ELSE email END,
            locale = CASE WHEN ${change.locale !== undefined} THEN ${change.locale ?? null}::text ELSE locale END,
            time_zone = CASE WHEN ${change.timeZone !== undefined} THEN ${
          change.timeZone ?? null
        }::text ELSE time_zone END,
            version = version + 1
          WHERE id = ${id} AND (${expectedVersion}::int IS NULL OR version = ${expectedVersion}::int)
          RETURNING id`,
        (rows) => rows.length === 1,
      ),
    /** Fails with a unique violation where the name is taken. */
    rename: (id: string, username: string) =>
      sql`
        UPDATE auth_user SET username = ${username}, username_key = ${usernameKey(username)}, version = version + 1
        WHERE id = ${id}`,
    setPassword: (id: string, passwordHash: string, nowMs: EpochMs | null) =>
      sql`
        UPDATE auth_user SET password_hash = ${passwordHash},
          password_changed_at = coalesce(${nowMs === null ? null : new Date(nowMs)}::timestamptz, password_changed_at),
          version = version + 1
        WHERE id = ${id}`,
  }
}

const sessions = (
  sql: SqlClient.SqlClient,
  userById: (id: string) => ReturnType<ReturnType<typeof users>["byId"]>,
) => ({
  open: (session: {
    readonly id: string
    readonly userId: string
    readonly nowMs: EpochMs
    readonly expiresAtMs: EpochMs
    readonly tokenHash: Uint8Array
    readonly address: string
    readonly userAgent: string
  }) =>
    sql.withTransaction(Effect.gen(function*() {
      const now = new Date(session.nowMs)
      yield* sql`
        INSERT INTO auth_session (id, user_id, created_at, last_seen_at, expires_at, address, user_agent)
        VALUES (${session.id}, ${session.userId}, ${now}, ${now}, ${new Date(session.expiresAtMs)}, ${session.address},
          ${session.userAgent.slice(0, 256)})`
      yield* sql`
        INSERT INTO auth_refresh_token (hash, session_id, created_at) VALUES (${session.tokenHash}, ${session.id}, ${now})`
    })),

  /** Uses up one refresh token for the next. The session ends at `idleSeconds` from now, `maxSeconds` from its start at most. */
  rotate: (rotation: {
    readonly hash: Uint8Array
    readonly next: Uint8Array
    readonly nowMs: EpochMs
    readonly idleSeconds: number
    readonly maxSeconds: number
  }) =>
    sql.withTransaction(Effect.gen(function*(): Effect.fn.Return<Rotation, SqlError.SqlError> {
      const now = new Date(rotation.nowMs)
      const rows = yield* sql<
        { readonly sessionId: string; readonly userId: string; readonly used: boolean; readonly over: boolean }
      >`
        SELECT t.session_id AS "sessionId", s.user_id AS "userId", t.used_at IS NOT NULL AS used,
          s.ended_at IS NOT NULL OR s.expires_at <= ${now} AS over
        FROM auth_refresh_token t JOIN auth_session s ON s.id = t.session_id
        WHERE t.hash = ${rotation.hash} FOR UPDATE`
      const found = rows[0]
      if (found === undefined) return { kind: "refused" }
      if (found.used) return { kind: "replayed", sessionId: found.sessionId }
      const user = yield* userById(found.userId)
      if (found.over || user === null || !user.enabled) return { kind: "refused" }
      yield* sql`UPDATE auth_refresh_token SET used_at = ${now} WHERE hash = ${rotation.hash}`
      yield* sql`
        INSERT INTO auth_refresh_token (hash, session_id, created_at) VALUES (${rotation.next}, ${found.sessionId}, ${now})`
      const [{ expiresAt }] = (yield* sql`
        UPDATE auth_session SET last_seen_at = ${now},
          expires_at = least(${now}::timestamptz + make_interval(secs => ${rotation.idleSeconds}),
            created_at + make_interval(secs => ${rotation.maxSeconds}))
        WHERE id = ${found.sessionId} RETURNING expires_at AS "expiresAt"`) as unknown as [{ expiresAt: Date }]
      return { kind: "rotated", sessionId: found.sessionId, expiresAtMs: expiresAt.getTime(), user }
    })),

  /** When the session ends, now that it was seen; `null` where it is over. */
  touch: (id: string, nowMs: EpochMs) =>
    Effect.map(
      sql<{ readonly expiresAt: Date }>`
        UPDATE auth_session SET last_seen_at = ${new Date(nowMs)}
        WHERE id = ${id} AND ended_at IS NULL AND expires_at > ${new Date(nowMs)} RETURNING expires_at AS "expiresAt"`,
      (rows) => rows[0]?.expiresAt.getTime() ?? null,
    ),
  end: (id: string, reason: string, nowMs: EpochMs) =>
    sql`UPDATE auth_session SET ended_at = ${new Date(
      nowMs,
    )}, end_reason = ${reason} WHERE id = ${id} AND ended_at IS NULL`,
  /** Ends all sessions of a user but one; answers their ids. */
  endOthers: (userId: string, except: string, reason: string, nowMs: EpochMs) =>
    Effect.map(
      sql<{ readonly id: string }>`
        UPDATE auth_session SET ended_at = ${new Date(nowMs)}, end_reason = ${reason}
        WHERE user_id = ${userId} AND id <> ${except} AND ended_at IS NULL RETURNING id`,
      (rows) => rows.map((row) => row.id),
    ),
  endedSince: (sinceMs: EpochMs) =>
    Effect.map(
      sql<{ readonly id: string }>`SELECT id FROM auth_session WHERE ended_at > ${new Date(sinceMs)}`,
      (rows) => rows.map((row) => row.id),
    ),
})

const keys = (sql: SqlClient.SqlClient) => ({
  /** Not expired, newest first. */
  list: (nowMs: EpochMs) =>
    sql<KeyRow>`
      SELECT kid, public_x AS "publicX", sealed_private AS "sealedPrivate", created_at AS "createdAt", expires_at AS "expiresAt"
      FROM auth_signing_key WHERE expires_at > ${new Date(nowMs)} ORDER BY created_at DESC, kid`,
  add: (key: {
    readonly kid: string
    readonly publicX: string
    readonly sealedPrivate: string
    readonly nowMs: EpochMs
    readonly expiresAtMs: EpochMs
  }) =>
    sql`
      INSERT INTO auth_signing_key (kid, public_x, sealed_private, created_at, expires_at)
      VALUES (${key.kid}, ${key.publicX}, ${key.sealedPrivate}, ${new Date(key.nowMs)}, ${new Date(key.expiresAtMs)})`,
})

const roles = (sql: SqlClient.SqlClient) => ({
  /** Built-in roles follow the release that runs. */
  seed: (
    built: ReadonlyArray<
      { readonly name: string; readonly description: string; readonly permissions: ReadonlyArray<string> }
    >,
  ) =>
    Effect.forEach(
      built,
      (role) =>
        sql`
        INSERT INTO auth_role (name, description, built_in, permissions)
        VALUES (${role.name}, ${role.description}, true, ${role.permissions as Array<string>})
        ON CONFLICT (name) DO UPDATE SET description = excluded.description, permissions = excluded.permissions
        WHERE auth_role.built_in
          AND (auth_role.description, auth_role.permissions) IS DISTINCT FROM (excluded.description, excluded.permissions)`,
      {
        discard: true,
      },
    ),
  permissions: () => sql<Pick<Grant, "role" | "permissions">>`SELECT name AS role, permissions FROM auth_role`,
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
export const AuthStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const user = users(sql)
  return {
    users: user,
    sessions: sessions(sql, user.byId),
    keys: keys(sql),
    roles: roles(sql),
    prune: prune(sql),
    inTransaction: sql.withTransaction,
  }
})
export type AuthStore = Effect.Success<typeof AuthStore>
