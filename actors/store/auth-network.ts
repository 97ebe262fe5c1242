/**
 * SQL of the addresses that may administer.
 *
 * Invariants
 * 1. Changes come one after the other (a lock on the table), so what a change is judged by is what it leads to.
 */
import type { ListedNetwork, ManagementIp } from "#schema/auth-network.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

interface Row extends Omit<ManagementIp, "createdAt"> {
  readonly createdAt: Date
}

const entryOf = (row: Row): ManagementIp => ({ ...row, createdAt: row.createdAt.getTime() })
const first = Effect.map((rows: ReadonlyArray<Row>) => rows[0] === undefined ? null : entryOf(rows[0]))

export const AuthNetworkStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns = sql.literal(`id, name, cidr, enabled, created_at AS "createdAt", version`)
  return {
    /** UUIDv7 sort by the time they were made. */
    page: (after: string | null, limit: number) =>
      Effect.map(
        sql<Row>`
          SELECT ${columns} FROM auth_management_ip WHERE ${after}::uuid IS NULL OR id > ${after}::uuid
          ORDER BY id LIMIT ${limit}`,
        (rows) => rows.map(entryOf),
      ),
    get: (id: string) => first(sql<Row>`SELECT ${columns} FROM auth_management_ip WHERE id = ${id}`),
    count: Effect.map(
      sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM auth_management_ip`,
      (rows) => rows[0]?.count ?? 0,
    ),
    enabled: Effect.suspend(() =>
      sql<ListedNetwork>`SELECT id, name, cidr FROM auth_management_ip WHERE enabled ORDER BY id`
    ),
    insert: (entry: ManagementIp) =>
      sql`
        INSERT INTO auth_management_ip (id, name, cidr, enabled, created_at, version)
        VALUES (${entry.id}, ${entry.name}, ${entry.cidr}, ${entry.enabled}, ${new Date(
        entry.createdAt,
      )}, ${entry.version})`,
    update: (entry: ManagementIp) =>
      sql`
        UPDATE auth_management_ip SET name = ${entry.name}, cidr = ${entry.cidr}, enabled = ${entry.enabled},
          version = ${entry.version}
        WHERE id = ${entry.id}`,
    remove: (id: string) => sql`DELETE FROM auth_management_ip WHERE id = ${id}`,
    /** One change at a time. */
    changing: <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
      sql.withTransaction(Effect.andThen(sql`LOCK TABLE auth_management_ip IN SHARE ROW EXCLUSIVE MODE`, work)),
  }
})
export type AuthNetworkStore = Effect.Success<typeof AuthNetworkStore>
