/**
 * SQL of what people ask of the audit log: lists with filters, one entry, counts by day, settings.
 *
 * Invariants
 * 1. Pages are cut by sequence (a keyset): a page costs the same at the beginning and at the end of a long log.
 * 2. A filter's text is data: `%`, `_` and `\` in it mean themselves.
 */
import type { AuditFilter, AuditSettings, AuditSettingsUpdate } from "#schema/auth-audit.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { chainColumns, type ChainRow } from "./auth-audit-chain.ts"

/** Counts of one day, by outcome and first word of the action. */
export interface AuditCount {
  /** Index of the day in the list that was asked for. */
  readonly day: number
  readonly outcome: "success" | "failure" | "refused"
  readonly group: string
  readonly count: number
}

const escaped = (text: string): string => text.replace(/[\\%_]/g, (sign) => `\\${sign}`)

const conditions = (sql: SqlClient.SqlClient, filter: AuditFilter) => {
  const { action, end, origin, outcome, resource, start, text, user } = filter
  const colon = resource?.indexOf(":") ?? -1
  const kind = colon < 0 ? resource : resource?.slice(0, colon)
  const like = text === undefined ? "" : `%${escaped(text)}%`
  return [
    ...start === undefined ? [] : [sql`time_ms >= ${start}`],
    ...end === undefined ? [] : [sql`time_ms < ${end}`],
    ...user === undefined ? [] : [sql`(actor_id = ${user} OR actor_name = ${user})`],
    ...action === undefined ? [] : [sql`action LIKE ${`${escaped(action)}%`}`],
    ...outcome === undefined ? [] : [sql`outcome = ${outcome}`],
    ...origin === undefined ? [] : [sql`origin = ${origin}`],
    ...kind === undefined ? [] : [sql`resource_kind = ${kind}`],
    ...resource === undefined || colon < 0 ? [] : [sql`resource_id = ${resource.slice(colon + 1)}`],
    ...text === undefined ? [] : [
      sql`(action ILIKE ${like} OR actor_name ILIKE ${like} OR address ILIKE ${like} OR resource_id ILIKE ${like}
        OR detail ILIKE ${like})`,
    ],
  ]
}

const reading = (sql: SqlClient.SqlClient) => ({
  /** Newest first, below the sequence `before`. */
  newest: (filter: AuditFilter, before: number, limit: number) =>
    sql<ChainRow>`
      SELECT ${sql.literal(chainColumns)} FROM auth_audit
      WHERE ${sql.and([sql`sequence < ${before}`, ...conditions(sql, filter)])}
      ORDER BY auth_audit.sequence DESC LIMIT ${limit}`,
  /** Oldest first, behind the sequence `after`, up to `upTo`. */
  oldest: (filter: AuditFilter, range: { readonly after: number; readonly upTo: number }, limit: number) =>
    sql<ChainRow>`
      SELECT ${sql.literal(chainColumns)} FROM auth_audit
      WHERE ${sql.and([sql`sequence > ${range.after}`, sql`sequence <= ${range.upTo}`, ...conditions(sql, filter)])}
      ORDER BY auth_audit.sequence LIMIT ${limit}`,
  byId: (id: string) =>
    Effect.map(
      sql<ChainRow>`SELECT ${sql.literal(chainColumns)} FROM auth_audit WHERE id = ${id}`,
      (rows) => rows[0] ?? null,
    ),
  /** Counts of the days that begin at `bounds`; the last bound is the end of the last day. */
  counts: (bounds: ReadonlyArray<EpochMs>): Effect.Effect<ReadonlyArray<AuditCount>, SqlError.SqlError> =>
    sql<AuditCount>`
      SELECT width_bucket(time_ms, b.bounds) - 1 AS day, outcome, split_part(action, '.', 1) AS group, count(*)::int AS count
      FROM auth_audit,
        (SELECT ARRAY(SELECT value::bigint FROM json_array_elements_text(${
      JSON.stringify(bounds)
    }::text::json)) AS bounds) AS b
      WHERE time_ms >= ${bounds[0] ?? 0} AND time_ms < ${bounds.at(-1) ?? 0}
      GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`,
})

const settingColumns =
  `retention_days AS "retentionDays", record_sign_ins AS "recordSignIns", record_views AS "recordViews",
  record_refusals AS "recordRefusals", version`

const settings = (sql: SqlClient.SqlClient) => ({
  settings: Effect.map(
    sql<AuditSettings>`SELECT ${sql.literal(settingColumns)} FROM auth_audit_settings`,
    (rows) => rows[0]!,
  ),
  /** `null`: the version is another. */
  updateSettings: (next: AuditSettingsUpdate, expectedVersion: number | null) =>
    Effect.map(
      sql<AuditSettings>`
        UPDATE auth_audit_settings SET retention_days = ${next.retentionDays}, record_sign_ins = ${next.recordSignIns},
          record_views = ${next.recordViews}, record_refusals = ${next.recordRefusals}, version = version + 1
        WHERE ${expectedVersion}::int IS NULL OR version = ${expectedVersion}
        RETURNING ${sql.literal(settingColumns)}`,
      (rows) => rows[0] ?? null,
    ),
})

export const AuditLogStore = Effect.map(SqlClient.SqlClient, (sql) => ({ ...reading(sql), ...settings(sql) }))
export type AuditLogStore = Effect.Success<typeof AuditLogStore>
