/**
 * SQL of the management of users: finding, adding, changing and deleting them, their roles, passwords and preferences.
 *
 * Invariants
 * 1. What could leave nobody an administrator runs under the lock of the role `admin`: of two such changes at once the second
 *    sees what the first left.
 * 2. Every change of a user raises its version.
 */
import { LastAdministrator, type Preferences, RoleNotFound, type UserFilter } from "#schema/auth-users.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { violates } from "./answer.ts"

export interface UserRow {
  readonly id: string
  readonly username: string
  readonly passwordHash: string
  readonly displayName: string
  readonly email: string | null
  readonly locale: string | null
  readonly timeZone: string | null
  readonly enabled: boolean
  readonly mustChangePassword: boolean
  readonly createdAt: Date
  readonly passwordChangedAt: Date
  readonly lastSignInAt: Date | null
  readonly version: number
  readonly roles: ReadonlyArray<string>
}

/** A user with what lists show of them besides. */
export interface ManagedRow extends UserRow {
  readonly usernameKey: string
  readonly activeSessions: number
}

/** Names that differ in case or in Unicode form only are one name. */
export const usernameKey = (username: string): string => username.normalize("NFKC").toLowerCase()

/** Columns of {@link UserRow}, of the table `auth_user u`. */
export const userColumns = `
  u.id, u.username, u.password_hash AS "passwordHash", u.display_name AS "displayName", u.email, u.locale,
  u.time_zone AS "timeZone", u.enabled, u.must_change_password AS "mustChangePassword", u.created_at AS "createdAt",
  u.password_changed_at AS "passwordChangedAt", u.last_sign_in_at AS "lastSignInAt", u.version,
  ARRAY(SELECT r.role FROM auth_user_role r WHERE r.user_id = u.id ORDER BY r.role) AS roles`

/** Longest history that a setting can ask for, kept whatever it asks for today. */
const keptPasswords = 24

export interface UserInsert {
  readonly id: string
  readonly username: string
  readonly passwordHash: string
  readonly displayName: string
  readonly email: string | null
  readonly locale: string | null
  readonly timeZone: string | null
  readonly enabled: boolean
  readonly mustChangePassword: boolean
  readonly roles: ReadonlyArray<string>
  readonly nowMs: EpochMs
}

export interface UserSet {
  readonly username?: string
  readonly displayName?: string
  readonly email?: string | null
  readonly locale?: string | null
  readonly timeZone?: string | null
  readonly enabled?: boolean
  readonly mustChangePassword?: boolean
  readonly password?: { readonly hash: string; readonly nowMs: EpochMs }
}

const reads = (sql: SqlClient.SqlClient) => {
  const managed = (nowMs: EpochMs) =>
    sql`${sql.literal(userColumns)}, u.username_key AS "usernameKey", (
    SELECT count(*)::int FROM auth_session s
    WHERE s.user_id = u.id AND s.ended_at IS NULL AND s.expires_at > ${new Date(nowMs)}) AS "activeSessions"`
  const conditions = (filter: UserFilter, after: string | null) => [
    sql`TRUE`,
    ...(filter.enabled === undefined ? [] : [sql`u.enabled = ${filter.enabled}`]),
    ...(filter.role === undefined ? [] : [sql`
      EXISTS (SELECT 1 FROM auth_user_role r WHERE r.user_id = u.id AND r.role = ${filter.role})`]),
    ...(filter.text === undefined ? [] : [sql`(
      strpos(u.username_key, lower(${filter.text.normalize("NFKC")})) > 0
      OR strpos(lower(u.display_name), lower(${filter.text})) > 0
      OR strpos(lower(u.email), lower(${filter.text})) > 0)`]),
    ...(after === null ? [] : [sql`u.username_key > ${after}`]),
  ]
  return {
    /** By name; `after` is the key of the name that the last page ended with. */
    list: (filter: UserFilter, limit: number, after: string | null, nowMs: EpochMs) =>
      sql<ManagedRow>`
        SELECT ${managed(nowMs)} FROM auth_user u WHERE ${sql.and(conditions(filter, after))}
        ORDER BY u.username_key LIMIT ${limit}`,
    get: (id: string, nowMs: EpochMs) =>
      Effect.map(
        sql<ManagedRow>`SELECT ${managed(nowMs)} FROM auth_user u WHERE u.id = ${id}`,
        (rows) => rows[0] ?? null,
      ),
    /** The newest hashes of a user, the one in force first. */
    passwords: (id: string, most: number) =>
      Effect.map(
        sql<{ readonly hash: string }>`
          SELECT hash FROM auth_password_history WHERE user_id = ${id} ORDER BY set_at DESC LIMIT ${most}`,
        (rows) => rows.map(({ hash }) => hash),
      ),
  }
}

const writes = (sql: SqlClient.SqlClient) => {
  const keepPassword = (userId: string, hash: string, nowMs: EpochMs) =>
    Effect.andThen(
      sql`INSERT INTO auth_password_history (user_id, set_at, hash) VALUES (${userId}, ${new Date(nowMs)}, ${hash})`,
      sql`
        DELETE FROM auth_password_history WHERE user_id = ${userId} AND set_at <
          (SELECT set_at FROM auth_password_history WHERE user_id = ${userId} ORDER BY set_at DESC
           OFFSET ${keptPasswords - 1} LIMIT 1)`,
    )
  const addRole = (userId: string, role: string) =>
    sql`INSERT INTO auth_user_role (user_id, role) VALUES (${userId}, ${role}) ON CONFLICT DO NOTHING RETURNING role`
      .pipe(
        Effect.catchIf((error) =>
          violates(error, "auth_user_role_role_fkey"), () =>
          Effect.fail(new RoleNotFound({ role }))),
        Effect.map((rows) => rows.length === 1),
      )
  const setRoles = (userId: string, roles: ReadonlyArray<string>) =>
    Effect.andThen(
      sql`DELETE FROM auth_user_role WHERE user_id = ${userId}`,
      Effect.forEach(roles, (role) => addRole(userId, role), { discard: true }),
    )
  const raise = (userId: string) => sql`UPDATE auth_user SET version = version + 1 WHERE id = ${userId}`
  const text = (value: string | null) => sql`${value}::text`

  return {
    addRole,
    setRoles,
    raise,
    /** Changes of one user wait for each other from here to the end of the transaction. Whether there is such a user. */
    lock: (id: string) =>
      Effect.map(sql`SELECT 1 FROM auth_user WHERE id = ${id} FOR NO KEY UPDATE`, (rows) => rows.length === 1),
    /** Whether the user held it. */
    dropRole: (userId: string, role: string) =>
      Effect.map(
        sql`DELETE FROM auth_user_role WHERE user_id = ${userId} AND role = ${role} RETURNING role`,
        (rows) => rows.length === 1,
      ),
    /** Fails with a unique violation where the name is taken. */
    insert: Effect.fnUntraced(function*(user: UserInsert) {
      const now = new Date(user.nowMs)
      yield* sql`
        INSERT INTO auth_user (id, username, username_key, password_hash, display_name, email, locale, time_zone, enabled,
          must_change_password, created_at, password_changed_at)
        VALUES (${user.id}, ${user.username}, ${usernameKey(user.username)}, ${user.passwordHash}, ${user.displayName},
          ${text(user.email)}, ${text(user.locale)}, ${
        text(user.timeZone)
      }, ${user.enabled}, ${user.mustChangePassword},
          ${now}, ${now})`
      yield* keepPassword(user.id, user.passwordHash, user.nowMs)
      yield* setRoles(user.id, user.roles)
    }),
    /** Whether there was such a user, of the expected version. Fails with a unique violation where the name is taken. */
    set: Effect.fnUntraced(function*(id: string, change: UserSet, expectedVersion: number | null) {
      const { password, username } = change
      const sets = [
        sql`version = version + 1`,
        ...(username === undefined ? [] : [sql`username = ${username}`, sql`username_key = ${usernameKey(username)}`]),
        ...(change.displayName === undefined ? [] : [sql`display_name = ${change.displayName}`]),
        ...(change.email === undefined ? [] : [sql`email = ${text(change.email)}`]),
        ...(change.locale === undefined ? [] : [sql`locale = ${text(change.locale)}`]),
        ...(change.timeZone === undefined ? [] : [sql`time_zone = ${text(change.timeZone)}`]),
        ...(change.enabled === undefined ? [] : [sql`enabled = ${change.enabled}`]),
        ...(change.mustChangePassword === undefined ? [] : [sql`must_change_password = ${change.mustChangePassword}`]),
        ...(password === undefined ? [] : [
          sql`password_hash = ${password.hash}`,
          sql`password_changed_at = ${new Date(password.nowMs)}`,
        ]),
      ]
      const rows = yield* sql`
        UPDATE auth_user SET ${sql.csv(sets)}
        WHERE id = ${id} AND (${expectedVersion}::int IS NULL OR version = ${expectedVersion}::int) RETURNING id`
      if (rows.length === 1 && password !== undefined) yield* keepPassword(id, password.hash, password.nowMs)
      return rows.length === 1
    }),
    remove: (id: string, expectedVersion: number | null) =>
      Effect.map(
        sql`
          DELETE FROM auth_user
          WHERE id = ${id} AND (${expectedVersion}::int IS NULL OR version = ${expectedVersion}::int) RETURNING id`,
        (rows) => rows.length === 1,
      ),
  }
}

/** Invariant 1: `work` is undone where no administrator is left behind it. */
const keepingAnAdministrator = (sql: SqlClient.SqlClient) => <A, E, R>(work: Effect.Effect<A, E, R>) =>
  sql.withTransaction(Effect.gen(function*() {
    yield* sql`SELECT 1 FROM auth_role WHERE name = 'admin' FOR NO KEY UPDATE`
    const done = yield* work
    const [left] = yield* sql`
      SELECT 1 FROM auth_user u JOIN auth_user_role r ON r.user_id = u.id WHERE r.role = 'admin' AND u.enabled LIMIT 1`
    return left === undefined ? yield* new LastAdministrator() : done
  }))

interface PreferenceRow {
  readonly document: string
  readonly version: number
}

const preferences = (sql: SqlClient.SqlClient) => {
  const parsed = (rows: ReadonlyArray<PreferenceRow>) => {
    const [row] = rows
    // What stands there was written below, from an object.
    const document = (row === undefined ? {} : JSON.parse(row.document)) as Preferences
    return { document, version: row?.version ?? 0 }
  }
  return {
    get: (userId: string) =>
      Effect.map(sql<PreferenceRow>`SELECT document, version FROM auth_preference WHERE user_id = ${userId}`, parsed),
    /** What `next` makes of them; two at once wait for each other. `null` where there is no such user. */
    change: <E>(
      userId: string,
      next: (now: { readonly document: Preferences; readonly version: number }) => Effect.Effect<Preferences, E>,
    ): Effect.Effect<
      { readonly document: Preferences; readonly version: number } | null,
      E | SqlError.SqlError
    > =>
      sql.withTransaction(Effect.gen(function*() {
        const [user] = yield* sql`SELECT 1 FROM auth_user WHERE id = ${userId} FOR NO KEY UPDATE`
        if (user === undefined) return null
        const now = parsed(
          yield* sql<PreferenceRow>`SELECT document, version FROM auth_preference WHERE user_id = ${userId}`,
        )
        const document = yield* next(now)
        const version = now.version + 1
        yield* sql`
          INSERT INTO auth_preference (user_id, document, version) VALUES (${userId}, ${
          JSON.stringify(document)
        }, ${version})
          ON CONFLICT (user_id) DO UPDATE SET document = excluded.document, version = excluded.version`
        return { document, version }
      })),
  }
}

/** The store, over the client at hand. */
export const AuthUsersStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...reads(sql),
  ...writes(sql),
  /** Adds the user if there is none at all; tells whether it did. Two nodes that start at once wait for each other. */
  addFirst: (user: UserInsert) =>
    sql.withTransaction(Effect.gen(function*() {
      yield* sql`LOCK TABLE auth_user IN SHARE ROW EXCLUSIVE MODE`
      const any = yield* sql`SELECT 1 FROM auth_user LIMIT 1`
      if (any.length > 0) return false
      yield* writes(sql).insert(user)
      return true
    })),
  preferences: preferences(sql),
  keepingAnAdministrator: keepingAnAdministrator(sql),
  inTransaction: sql.withTransaction,
}))
export type AuthUsersStore = Effect.Success<typeof AuthUsersStore>
