/** SQL of who is signed in just now. */
import type { EpochMs } from "#schema/common.ts"
import type { LicenseSession } from "#schema/license.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

interface Row extends Omit<LicenseSession, "since" | "lastHeartbeat" | "expiresAt"> {
  readonly since: Date
  readonly lastHeartbeat: Date
  readonly expiresAt: Date
}

export const AuthPresenceStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const present = (nowMs: EpochMs, seenSinceMs: EpochMs) =>
    sql`s.ended_at IS NULL AND s.expires_at > ${new Date(nowMs)} AND s.last_seen_at > ${new Date(seenSinceMs)}`
  return {
    list: (
      times: { readonly nowMs: EpochMs; readonly seenSinceMs: EpochMs },
      limit: number,
      after: { readonly since: EpochMs; readonly sessionId: string } | null,
    ) =>
      Effect.map(
        sql<Row>`
          SELECT s.id AS "sessionId", s.user_id AS "userId", u.username, s.address, s.user_agent AS "userAgent",
            date_trunc('milliseconds', s.created_at) AS since, s.last_seen_at AS "lastHeartbeat", s.expires_at AS "expiresAt"
          FROM auth_session s JOIN auth_user u ON u.id = s.user_id
          WHERE ${present(times.nowMs, times.seenSinceMs)} AND ${
          after === null ?
            sql`TRUE` :
            sql`(date_trunc('milliseconds', s.created_at), s.id) < (${new Date(
              after.since,
            )}, ${after.sessionId}::text::uuid)`
        }
          ORDER BY date_trunc('milliseconds', s.created_at) DESC, s.id DESC LIMIT ${limit}`,
        (rows): ReadonlyArray<LicenseSession> =>
          rows.map((row) => ({
            ...row,
            since: row.since.getTime(),
            lastHeartbeat: row.lastHeartbeat.getTime(),
            expiresAt: row.expiresAt.getTime(),
          })),
      ),
    count: (nowMs: EpochMs, seenSinceMs: EpochMs) =>
      Effect.map(
        sql<{ readonly count: number }>`
          SELECT count(*)::integer AS count FROM auth_session s WHERE ${present(nowMs, seenSinceMs)}`,
        ([row]) => row?.count ?? 0,
      ),
  }
})
