/**
 * Renewing the master key without a stop: a new key seals at once, every secret of before is sealed anew, then the keys of before
 * are forgotten.
 *
 * Invariants
 * 1. A key of before is forgotten only after nothing was sealed under it twice, {@link settle} apart: whoever sealed with it just
 *    before the change has written by then.
 * 2. What was interrupted goes on at the next start: as long as there are keys of before, there is work.
 * 3. A secret that does not open is left as it is and told, and keeps its key.
 */
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import { MasterKeyRotating, type MasterKeyState } from "#schema/auth-vault.ts"
import { MasterKeys, type SealedFile, Vault } from "#schema/vault.ts"
import { type Duration, Effect, Latch, Layer, Result, type Scope, Semaphore } from "effect"
import type { SqlClient } from "effect/sql"
import { AuthVaultStore, type SealedColumn, sealedColumns } from "../store/auth-vault.ts"

export interface RenewalOptions {
  /** Places of sealed texts outside of the database. */
  readonly files: ReadonlyArray<SealedFile>
  /** The longest that a write may lag behind its seal: work whose caller has gone ends after a minute. */
  readonly settle?: Duration.Input
}

const defaultSettle = "90 seconds"
const again = "10 seconds"
/** A transaction of some milliseconds. */
const pageRows = 100

const make = Effect.fnUntraced(function*({ files, settle = defaultSettle }: RenewalOptions) {
  const store = yield* AuthVaultStore
  const vault = yield* Vault
  const keys = yield* MasterKeys
  const wanted = Latch.makeUnsafe(true)
  const oneAtATime = yield* Semaphore.make(1)
  let left: number | null = null
  let error: string | null = null

  /** Seals a column's rows anew; answers how many did not open. */
  const resealColumn = Effect.fnUntraced(function*(one: SealedColumn, older: ReadonlyArray<string>) {
    let after = ""
    let closed = 0
    while (true) {
      const rows = yield* store.page(one, older, after, pageRows)
      const next = yield* Effect.forEach(rows, (row) =>
        Effect.gen(function*() {
          const context = one.context(row.key)
          const secret = yield* Effect.result(vault.open(context, row.sealed))
          if (Result.isSuccess(secret)) return [{ ...row, next: yield* vault.seal(context, secret.success) }]
          yield* Effect.logError(secret.failure.message)
          return []
        }))
      const opened = next.flat()
      closed += rows.length - opened.length
      if (opened.length > 0) yield* store.replace(one, opened)
      const last = rows.at(-1)
      if (last === undefined || rows.length < pageRows) return closed
      after = last.key
    }
  })

  const remaining = Effect.fnUntraced(function*(older: ReadonlyArray<string>) {
    const counts = yield* Effect.forEach(sealedColumns, (one) => store.count(one, older))
    const kept = yield* Effect.forEach(files, (file) => file.keys)
    return counts.reduce((sum, count) => sum + count, 0) +
      kept.filter((ids) => older.some((id) => ids.has(id))).length
  })

  const pass = Effect.fnUntraced(function*(older: ReadonlyArray<string>) {
    let closed = 0
    for (const one of sealedColumns) closed += yield* resealColumn(one, older)
    for (const file of files) {
      const ids = yield* file.keys
      if (older.some((id) => ids.has(id))) yield* file.reseal
    }
    left = yield* remaining(older)
    error = closed === 0 ? null : `${closed} secrets do not open and stay under their key`
    return left
  })

  /** Until no key of before is left. */
  const work = Effect.gen(function*() {
    const { older } = yield* keys.ids
    if (older.length === 0) return
    yield* pass(older)
    yield* Effect.sleep(settle)
    if ((yield* pass(older)) > 0) return
    yield* keys.retire(older)
    yield* Effect.logInfo(`Every secret is sealed under the new master key; ${older.join(", ")} retired`)
  })

  const loop = Effect.gen(function*() {
    while (true) {
      yield* wanted.await
      yield* wanted.close
      yield* Effect.catchCause(work, (cause) => {
        error = "The database or the disk did not answer; it is tried again"
        return Effect.logWarning("Sealing secrets anew must wait", cause)
      })
      if ((yield* keys.ids).older.length > 0) {
        yield* Effect.sleep(again)
        yield* wanted.open
      }
    }
  })
  yield* Effect.forkScoped(loop)

  const state = Effect.map(keys.ids, ({ older, sealing, source }): MasterKeyState => ({
    state: older.length === 0 ? "settled" : "resealing",
    keyId: sealing,
    source,
    olderKeyIds: older,
    left: older.length === 0 ? 0 : left,
    error: older.length === 0 ? null : error,
  }))
  return MasterKeyRenewal.of({
    state: () => state,
    rotate: Effect.fnUntraced(function*() {
      // Where the operator gives the key, `renew` says so whatever is left to do.
      const { older, source } = yield* keys.ids
      if (source === "file" && older.length > 0) return yield* new MasterKeyRotating()
      yield* keys.renew
      left = null
      yield* wanted.open
      return yield* state
    }, oneAtATime.withPermits(1)),
  })
})

/** Renewal of the master key, and the end of one that was interrupted. */
export const masterKeyLayer = <E, R>(
  options: Effect.Effect<RenewalOptions, E, R>,
): Layer.Layer<MasterKeyRenewal, E, Exclude<R, Scope.Scope> | SqlClient.SqlClient | Vault | MasterKeys> =>
  Layer.effect(MasterKeyRenewal, Effect.flatMap(options, make))
