/**
 * SQL of second factors and recovery codes.
 *
 * Invariants
 * 1. A period and a recovery code are used up by exactly one statement each: of two who bring the same one, one is refused.
 */
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface FactorRow {
  readonly sealedSecret: string
  /** `null` while it was not confirmed. */
  readonly confirmedAt: Date | null
  readonly codesLeft: number
}

export const AuthFactorStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  get: (userId: string) =>
    Effect.map(
      sql<FactorRow>`
        SELECT f.sealed_secret AS "sealedSecret", f.confirmed_at AS "confirmedAt",
          (SELECT count(*)::int FROM auth_recovery_code c WHERE c.user_id = f.user_id AND c.used_at IS NULL) AS "codesLeft"
        FROM auth_second_factor f WHERE f.user_id = ${userId}`,
      (rows) => rows[0] ?? null,
    ),
  /** `false`: one is active. */
  enrol: (userId: string, sealedSecret: string, nowMs: EpochMs) =>
    Effect.map(
      sql`
        INSERT INTO auth_second_factor AS f (user_id, sealed_secret, created_at)
        VALUES (${userId}, ${sealedSecret}, ${new Date(nowMs)})
        ON CONFLICT (user_id) DO UPDATE SET sealed_secret = excluded.sealed_secret, created_at = excluded.created_at,
          last_step = 0
        WHERE f.confirmed_at IS NULL RETURNING 1`,
      (rows) => rows.length === 1,
    ),
  /** `false`: this period or a later one was used before. */
  usePeriod: (userId: string, period: number) =>
    Effect.map(
      sql`
        UPDATE auth_second_factor SET last_step = ${period} WHERE user_id = ${userId} AND last_step < ${period} RETURNING 1`,
      (rows) => rows.length === 1,
    ),
  activate: (userId: string, nowMs: EpochMs) =>
    sql`UPDATE auth_second_factor SET confirmed_at = ${new Date(nowMs)} WHERE user_id = ${userId}`,
  /** `false`: there is no such code, or it was used before. */
  useCode: (userId: string, hash: Uint8Array, nowMs: EpochMs) =>
    Effect.map(
      sql`
        UPDATE auth_recovery_code SET used_at = ${new Date(nowMs)}
        WHERE user_id = ${userId} AND hash = ${hash} AND used_at IS NULL RETURNING 1`,
      (rows) => rows.length === 1,
    ),
  replaceCodes: (userId: string, hashes: ReadonlyArray<Uint8Array>) =>
    Effect.andThen(
      sql`DELETE FROM auth_recovery_code WHERE user_id = ${userId}`,
      Effect.forEach(hashes, (hash) =>
        sql`INSERT INTO auth_recovery_code (user_id, hash) VALUES (${userId}, ${hash})`, { discard: true }),
    ),
  /** With its recovery codes; `false`: there was none. */
  remove: (userId: string) =>
    Effect.map(sql`DELETE FROM auth_second_factor WHERE user_id = ${userId} RETURNING 1`, (rows) => rows.length === 1),
  inTransaction: sql.withTransaction,
}))
export type AuthFactorStore = Effect.Success<typeof AuthFactorStore>
