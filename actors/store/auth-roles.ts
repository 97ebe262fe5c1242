/**
 * SQL of roles: what they are called and what they grant.
 *
 * Invariants
 * 1. A role that somebody holds is not deleted: the row is locked while its holders are counted, and whoever grants it waits.
 */
import type { Role } from "#schema/auth-users.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

export interface RoleSet {
  readonly description?: string
  readonly permissions?: ReadonlyArray<string>
  readonly ptzPriority?: number
}

/** What became of a deletion. */
export type RoleRemoval =
  | { readonly kind: "removed" }
  | { readonly kind: "unknown" }
  | { readonly kind: "builtIn" }
  | { readonly kind: "otherVersion" }
  | { readonly kind: "held"; readonly users: ReadonlyArray<string>; readonly count: number }

/** Names that are told of those who hold a role. */
const namedHolders = 20

export const AuthRolesStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns = sql.literal(`
    o.name, o.description, o.built_in AS "builtIn", o.permissions, o.ptz_priority AS "ptzPriority",
    o.version,
    (SELECT count(*)::int FROM auth_user_role r WHERE r.role = o.name) AS users`)
  return {
    /** Built-in roles follow the release that runs. */
    seed: (
      built: ReadonlyArray<
        {
          readonly name: string
          readonly description: string
          readonly permissions: ReadonlyArray<string>
          readonly ptzPriority: number
        }
      >,
    ) =>
      Effect.forEach(built, (role) =>
        sql`
            INSERT INTO auth_role (name, description, built_in, permissions, ptz_priority)
            VALUES (${role.name}, ${role.description}, true, ${role.permissions as Array<string>}, ${role.ptzPriority})
            ON CONFLICT (name) DO UPDATE SET
              description = excluded.description, permissions = excluded.permissions, ptz_priority = excluded.ptz_priority
            WHERE auth_role.built_in AND
              (auth_role.description, auth_role.permissions, auth_role.ptz_priority)
              IS DISTINCT FROM (excluded.description, excluded.permissions, excluded.ptz_priority)`, { discard: true }),
    list: (limit: number, after: string | null) =>
      sql<Role>`
        SELECT ${columns} FROM auth_role o WHERE ${after}::text IS NULL OR o.name > ${after}::text
        ORDER BY o.name LIMIT ${limit}`,
    get: (name: string) =>
      Effect.map(sql<Role>`SELECT ${columns} FROM auth_role o WHERE o.name = ${name}`, (rows) => rows[0] ?? null),
    /** Those of the names that there are. */
    named: (names: ReadonlyArray<string>): Effect.Effect<ReadonlyArray<Role>, SqlError.SqlError> =>
      names.length === 0 ?
        Effect.succeed([]) :
        sql<Role>`SELECT ${columns} FROM auth_role o WHERE o.name IN ${sql.in(names)} ORDER BY o.name`,
    /** Whether the name was free; names that differ in case only are one to those who read them. */
    insert: (role: {
      readonly name: string
      readonly description: string
      readonly permissions: ReadonlyArray<string>
      readonly ptzPriority: number
    }) =>
      Effect.map(
        sql`
          INSERT INTO auth_role (name, description, built_in, permissions, ptz_priority)
          SELECT ${role.name}, ${role.description}, false, ${role.permissions as Array<
          string
        >}, ${role.ptzPriority}::int
          WHERE NOT EXISTS (SELECT 1 FROM auth_role WHERE lower(name) = lower(${role.name}))
          ON CONFLICT DO NOTHING RETURNING name`,
        (rows) => rows.length === 1,
      ),
    /** Whether there was such a role, not built in and of the expected version. */
    set: (name: string, change: RoleSet, expectedVersion: number | null) => {
      const sets = [
        sql`version = version + 1`,
        ...(change.description === undefined ? [] : [sql`description = ${change.description}`]),
        ...(change.permissions === undefined ? [] : [sql`permissions = ${change.permissions as Array<string>}`]),
        ...(change.ptzPriority === undefined ? [] : [sql`ptz_priority = ${change.ptzPriority}`]),
      ]
      return Effect.map(
        sql`
          UPDATE auth_role SET ${sql.csv(sets)}
          WHERE name = ${name} AND NOT built_in AND (${expectedVersion}::int IS NULL OR version = ${expectedVersion}::int)
          RETURNING name`,
        (rows) => rows.length === 1,
      )
    },
    remove: (name: string, expectedVersion: number | null) =>
      sql.withTransaction(Effect.gen(function*(): Effect.fn.Return<RoleRemoval, SqlError.SqlError> {
        const [role] = yield* sql<{ readonly builtIn: boolean; readonly version: number }>`
          SELECT built_in AS "builtIn", version FROM auth_role WHERE name = ${name} FOR UPDATE`
        if (role === undefined) return { kind: "unknown" }
        if (role.builtIn) return { kind: "builtIn" }
        if (expectedVersion !== null && role.version !== expectedVersion) return { kind: "otherVersion" }
        const holders = yield* sql<{ readonly username: string; readonly count: number }>`
          SELECT u.username, (count(*) OVER ())::int AS count
          FROM auth_user_role r JOIN auth_user u ON u.id = r.user_id
          WHERE r.role = ${name} ORDER BY u.username_key LIMIT ${namedHolders}`
        const [first] = holders
        if (first !== undefined) {
          return { kind: "held", users: holders.map(({ username }) => username), count: first.count }
        }
        yield* sql`DELETE FROM auth_role WHERE name = ${name}`
        return { kind: "removed" }
      })),
    /** Of all roles: what they grant. */
    permissions: () =>
      sql<{ readonly role: string; readonly permissions: ReadonlyArray<string>; readonly ptzPriority: number }>`
        SELECT name AS role, permissions, ptz_priority AS "ptzPriority" FROM auth_role`,
  }
})
export type AuthRolesStore = Effect.Success<typeof AuthRolesStore>
