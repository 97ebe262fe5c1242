/**
 * The fence in front of every write on behalf of an owner.
 *
 * Invariants
 * 1. The row of the slot stays share-locked until the transaction ends, so a takeover waits for a write that has begun, and a
 *    write that comes after the takeover sees the new epoch.
 * 2. Only the epoch in force passes: an older one is a former owner, a newer one was granted by nobody.
 */
import { type Slot, StaleEpoch } from "#schema/ownership.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** Runs `write` in a transaction that holds `epoch` of `slot` in force. */
export const fenced = <A, E, R>(
  owner: { readonly slot: Slot; readonly epoch: number },
  write: Effect.Effect<A, E, R>,
): Effect.Effect<A, E | StaleEpoch | SqlError.SqlError, R | SqlClient.SqlClient> =>
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(Effect.gen(function*() {
      const rows = yield* sql<{ readonly epoch: string | number | bigint }>`
          SELECT epoch FROM group_owner WHERE slot = ${owner.slot} FOR SHARE`
      const inForce = Number(rows[0]?.epoch ?? 0)
      if (inForce !== owner.epoch) return yield* new StaleEpoch({ ...owner, inForce })
      return yield* write
    }))
  })
