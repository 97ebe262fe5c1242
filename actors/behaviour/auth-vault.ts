/**
 * Renewing the master key without a stop: a new key seals at once, every secret of before is sealed anew, then the keys of before
 * are forgotten. In a cluster the database's secrets come under its key in the same way: those that this node sealed by itself,
 * and those of a key before.
 *
 * Invariants
 * 1. A key of before is forgotten only after nothing was sealed under it twice, {@link settle} apart: whoever sealed with it just
 *    before the change has written by then.
 * 2. What was interrupted goes on at the next start: as long as there are keys of before, there is work.
 * 3. A secret that does not open is left as it is and told, and keeps its key.
 */
import { MasterKeyRenewal } from "#actors/protocol/auth-vault.ts"
import { MasterKeyRotating, type MasterKeyState } from "#schema/auth-vault.ts"
import { MasterKeys, ownVault, type SealedFile, type SharedKeyIds, SharedKeys, Vault } from "#schema/vault.ts"
import { type Duration, Effect, Latch, Layer, Result, type Scope, Semaphore, Stream } from "effect"
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

/** Ids of the keys under which a secret should not be any more. */
interface Outdated {
  /** Of files, and of what is this node's alone. */
  readonly own: ReadonlyArray<string>
  /** Of everything else in the database. */
  readonly shared: ReadonlyArray<string>
}

const make = Effect.fnUntraced(function*({ files, settle = defaultSettle }: RenewalOptions) {
  const store = yield* AuthVaultStore
  const common = yield* Vault
  const own = yield* ownVault
  const keys = yield* MasterKeys
  const cluster = yield* SharedKeys
  const wanted = Latch.makeUnsafe(true)
  const oneAtATime = yield* Semaphore.make(1)
  let shared: SharedKeyIds | null = null
  let left: number | null = null
  let error: string | null = null

  const outdated = Effect.map(keys.ids, ({ older, sealing }): Outdated => ({
    own: older,
    shared: shared === null ? older : [sealing, ...older, ...shared.older],
  }))
  const of = (one: SealedColumn, ids: Outdated) => one.own === true ? ids.own : ids.shared

  /** Seals a column's rows anew; answers how many did not open. */
  const resealColumn = Effect.fnUntraced(function*(one: SealedColumn, older: ReadonlyArray<string>) {
    const vault = one.own === true ? own : common
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

  const remaining = Effect.fnUntraced(function*(ids: Outdated) {
    const counts = yield* Effect.forEach(sealedColumns, (one) => {
      const older = of(one, ids)
      return older.length === 0 ? Effect.succeed(0) : store.count(one, older)
    })
    const kept = yield* Effect.forEach(files, (file) => file.keys)
    return counts.reduce((sum, count) => sum + count, 0) +
      kept.filter((used) => ids.own.some((id) => used.has(id))).length
  })

  const pass = Effect.fnUntraced(function*(ids: Outdated) {
    let closed = 0
    for (const one of sealedColumns) {
      const older = of(one, ids)
      if (older.length > 0) closed += yield* resealColumn(one, older)
    }
    for (const file of files) {
      const used = yield* file.keys
      if (ids.own.some((id) => used.has(id))) yield* file.reseal
    }
    left = yield* remaining(ids)
    error = closed === 0 ? null : `${closed} secrets do not open and stay under their key`
    return left
  })

  /** Answers whether something is wanted before the time is over. */
  const wantedWithin = (time: Duration.Input) =>
    Effect.raceFirst(Effect.as(wanted.await, true), Effect.as(Effect.sleep(time), false))

  /** Until nothing is left under a key of before, and none of this node's is kept; a change meanwhile begins it anew. */
  const work = Effect.gen(function*() {
    const ids = yield* outdated
    if (ids.shared.length === 0) return
    yield* pass(ids)
    if (yield* wantedWithin(settle)) return
    if ((yield* pass(ids)) > 0 || ids.own.length === 0) return
    yield* keys.retire(ids.own)
    yield* Effect.logInfo(`Every secret is sealed under the new master key; ${ids.own.join(", ")} retired`)
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
        yield* wantedWithin(again)
        yield* wanted.open
      }
    }
  })
  if (cluster !== null) {
    yield* cluster.pipe(
      Stream.runForEach((ids) => {
        shared = ids
        return wanted.open
      }),
      Effect.forkScoped,
    )
  }
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
