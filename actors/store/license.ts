/**
 * SQL of the licence. One row holds what is installed; `license_history` what ever was.
 *
 * Invariants
 * 1. A licence that was given back stays in the history and is not installed again.
 * 2. The high-water mark only grows, but for {@link LicenseStore.resetTime}, which the vendor's signed word alone calls for.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { LicenseMode } from "#schema/license.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

interface Row {
  readonly licenseText: string | null
  readonly mode: LicenseMode | null
  readonly activatedAt: Date | null
  readonly confirmedAt: Date | null
  readonly vendorState: "active" | "suspended" | "revoked"
  readonly sealedKey: string | null
  readonly keyHint: string | null
  readonly failureAt: Date | null
  readonly failure: string | null
  readonly released: boolean
  readonly highWater: Date
}

export interface KeptLicense {
  readonly installed: {
    readonly text: string
    readonly mode: LicenseMode
    readonly activatedAtMs: EpochMs
    readonly confirmedAtMs: EpochMs
  } | null
  readonly vendor: Row["vendorState"]
  readonly key: { readonly sealed: string; readonly hint: string } | null
  readonly failure: { readonly atMs: EpochMs; readonly message: string } | null
  readonly released: boolean
  readonly highWaterMs: EpochMs
}

const keptOf = (row: Row): KeptLicense => ({
  installed: row.licenseText === null || row.mode === null ? null : {
    text: row.licenseText,
    mode: row.mode,
    activatedAtMs: row.activatedAt?.getTime() ?? 0,
    confirmedAtMs: row.confirmedAt?.getTime() ?? 0,
  },
  vendor: row.vendorState,
  key: row.sealedKey === null ? null : { sealed: row.sealedKey, hint: row.keyHint ?? "" },
  failure: row.failureAt === null ? null : { atMs: row.failureAt.getTime(), message: row.failure ?? "" },
  released: row.released,
  highWaterMs: row.highWater.getTime(),
})

/** Longest message of a failure that is kept. */
const longestFailure = 500

const writes = (sql: SqlClient.SqlClient) => ({
  install: (licence: {
    readonly text: string
    readonly licenseId: string
    readonly mode: LicenseMode
    readonly key: { readonly sealed: string; readonly hint: string } | null
    readonly nowMs: EpochMs
  }) => {
    const now = new Date(licence.nowMs)
    return answered(sql.withTransaction(Effect.andThen(
      sql`
        UPDATE license SET license_text = ${licence.text}, license_id = ${licence.licenseId}, mode = ${licence.mode},
          activated_at = ${now}, confirmed_at = ${now}, vendor_state = 'active', failure_at = NULL, failure = NULL,
          sealed_key = ${licence.key?.sealed ?? null}, key_hint = ${licence.key?.hint ?? null}, released = false
        WHERE id = 1`,
      sql`
        INSERT INTO license_history (license_id, first_activated_at) VALUES (${licence.licenseId}, ${now})
        ON CONFLICT (license_id) DO NOTHING`,
    )))
  },
  keepKey: (key: { readonly sealed: string; readonly hint: string }) =>
    answered(
      sql`UPDATE license SET sealed_key = ${key.sealed}, key_hint = ${key.hint}, failure_at = NULL, failure = NULL WHERE id = 1`,
    ),
  confirm: (vendor: Row["vendorState"], atMs: EpochMs) =>
    answered(sql`
        UPDATE license SET vendor_state = ${vendor}, confirmed_at = ${new Date(atMs)}, failure_at = NULL, failure = NULL
        WHERE id = 1`),
  fail: (message: string, nowMs: EpochMs) =>
    answered(
      sql`UPDATE license SET failure_at = ${new Date(nowMs)}, failure = ${
        message.slice(0, longestFailure)
      } WHERE id = 1`,
    ),
  /** Forgets licence and key. */
  release: (nowMs: EpochMs) =>
    answered(sql.withTransaction(Effect.andThen(
      sql`
        UPDATE license_history SET released_at = ${new Date(nowMs)}
        WHERE license_id = (SELECT license_id FROM license WHERE id = 1)`,
      sql`
        UPDATE license SET license_text = NULL, license_id = NULL, mode = NULL, activated_at = NULL, confirmed_at = NULL,
          vendor_state = 'active', sealed_key = NULL, key_hint = NULL, failure_at = NULL, failure = NULL, released = true
        WHERE id = 1`,
    ))),
})

export const LicenseStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...writes(sql),
  /** What is there; the row is made by the first who looks. */
  read: (nowMs: EpochMs) =>
    answered(Effect.gen(function*() {
      const select = sql<Row>`
        SELECT license_text AS "licenseText", mode, activated_at AS "activatedAt", confirmed_at AS "confirmedAt",
          vendor_state AS "vendorState", sealed_key AS "sealedKey", key_hint AS "keyHint", failure_at AS "failureAt", failure,
          released, high_water AS "highWater"
        FROM license WHERE id = 1`
      const [known] = yield* select
      if (known !== undefined) return keptOf(known)
      yield* sql`INSERT INTO license (id, high_water) VALUES (1, ${new Date(nowMs)}) ON CONFLICT (id) DO NOTHING`
      const [made] = yield* select
      return keptOf(made!)
    })),
  wasReleased: (licenseId: string) =>
    answered(
      Effect.map(
        sql`SELECT 1 FROM license_history WHERE license_id = ${licenseId} AND released_at IS NOT NULL`,
        (rows) => rows.length > 0,
      ),
    ),
  /** Moves the mark on; answers where it is. */
  advanceTime: (toMs: EpochMs) =>
    answered(Effect.map(
      sql<{ readonly highWater: Date }>`
        UPDATE license SET high_water = greatest(high_water, ${new Date(toMs)}) WHERE id = 1
        RETURNING high_water AS "highWater"`,
      ([row]) => row?.highWater.getTime() ?? toMs,
    )),
  resetTime: (toMs: EpochMs) => answered(sql`UPDATE license SET high_water = ${new Date(toMs)} WHERE id = 1`),
  seeHardware: (nodeId: NodeId, hardwareId: string, nowMs: EpochMs) =>
    answered(sql`
      INSERT INTO license_hardware (node_id, hardware_id, seen_at) VALUES (${nodeId}, ${hardwareId}, ${new Date(nowMs)})
      ON CONFLICT (node_id) DO UPDATE SET hardware_id = excluded.hardware_id, seen_at = excluded.seen_at`),
  /** Machines of the cluster; one that has not been seen since `sinceMs` does not count. At most 64 nodes make a cluster. */
  hardware: (sinceMs: EpochMs) =>
    answered(sql<{ readonly nodeId: NodeId; readonly hardwareId: string }>`
      SELECT node_id AS "nodeId", hardware_id AS "hardwareId" FROM license_hardware
      WHERE seen_at > ${new Date(sinceMs)} ORDER BY node_id LIMIT 64`),
}))
export type LicenseStore = Effect.Success<typeof LicenseStore>
