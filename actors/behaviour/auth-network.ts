/**
 * The addresses that may administer: the list in PostgreSQL, and what every node knows of it.
 *
 * Invariants
 * 1. A change after which its author could administer no longer is refused unless he says `force`; it is judged by the list that
 *    it leads to, within its transaction.
 * 2. The list holds at most {@link mostEntries} entries: it is looked through at each administrative call.
 */
import { ManagementAccess, ManagementIps } from "#actors/protocol/auth-network.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import {
  type CallOrigin,
  checkOrigin,
  type ListedNetwork,
  type ManagementIp,
  ManagementIpId,
  ManagementIpNotFound,
  ManagementIpsFull,
  ManagementIpTaken,
  WouldLockOut,
} from "#schema/auth-network.ts"
import { Uuid7 } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered, violates } from "../store/answer.ts"
import { AuthNetworkStore } from "../store/auth-network.ts"

/** More would be a directory, not a list; a check of all of them costs about 0.1 ms. */
const mostEntries = 256

/** What this node knows; for as long as HTTP serves. */
export const ManagementAccessLive = Layer.sync(ManagementAccess, () => {
  let known: ReadonlyArray<ListedNetwork> | null = null
  /** An entry that holds nothing: while the list is unknown only the machine itself gets in. */
  const nobody: ReadonlyArray<ListedNetwork> = [{ id: "", name: "", cidr: "" }]
  return ManagementAccess.of({
    check: (origin) =>
      Effect.suspend(() => {
        if (known !== null) return Effect.succeed(checkOrigin(known, origin))
        const atTheMachine = checkOrigin(nobody, origin)
        if (atTheMachine.allowed) return Effect.succeed(atTheMachine)
        const message = "The management addresses were not read yet"
        return Effect.fail(new DependencyUnavailable({ dependency: "database", message }))
      }),
    know: (listed) =>
      Effect.sync(() => {
        known = listed
      }),
  })
})

const cursor = cursorOf("management-ips", Uuid7)

const make = Effect.gen(function*() {
  const store = yield* AuthNetworkStore
  const trust = yield* Trust
  const access = yield* ManagementAccess
  yield* trust.reads("management addresses", Effect.flatMap(store.enabled, access.know))

  const found = (id: ManagementIpId) =>
    Effect.filterOrFail(
      store.get(id),
      (entry): entry is ManagementIp => entry !== null,
      () => new ManagementIpNotFound({ id }),
    )
  const current = Effect.fnUntraced(function*(id: ManagementIpId, expectedVersion: number | null) {
    const entry = yield* found(id)
    if (expectedVersion !== null && expectedVersion !== entry.version) {
      return yield* new VersionConflict({ message: "The entry was changed by somebody else" })
    }
    return entry
  })

  /** Makes the change, unless it locks its author out. */
  const change = <A, E>(work: Effect.Effect<A, E | SqlError.SqlError>, author: CallOrigin, force: boolean) =>
    store.changing(Effect.gen(function*() {
      const done = yield* work
      const { address, allowed } = checkOrigin(yield* store.enabled, author)
      if (!allowed && !force) return yield* new WouldLockOut({ address })
      return done
    })).pipe(Effect.tap(() => trust.changed))

  const taken = (cidr: string) => <A, E, R>(write: Effect.Effect<A, E | SqlError.SqlError, R>) =>
    Effect.catchIf(
      write,
      (error): error is Extract<typeof error, SqlError.SqlError> =>
        isSqlError(error) && violates(error, "auth_management_ip_cidr"),
      () => Effect.fail(new ManagementIpTaken({ cidr })),
    )

  return ManagementIps.of({
    list: Effect.fnUntraced(function*({ cursor: at, limit }) {
      const rows = yield* store.page(yield* cursor.decode(at), limit + 1)
      return pageFrom({ rows, limit, cursor, position: (row) => row.id, item: (row) => row })
    }, answered),
    get: (id) => answered(found(id)),
    add: Effect.fnUntraced(function*({ cidr, enabled, force, name }, author) {
      const entry: ManagementIp = {
        id: ManagementIpId.make(yield* uuid7),
        name,
        cidr,
        enabled: enabled ?? true,
        createdAt: yield* Clock.currentTimeMillis,
        version: 1,
      }
      const insert = Effect.gen(function*() {
        if ((yield* store.count) >= mostEntries) return yield* new ManagementIpsFull({ limit: mostEntries })
        yield* store.insert(entry)
        return entry
      })
      return yield* taken(cidr)(change(insert, author, force ?? false))
    }, answered),
    update: Effect.fnUntraced(function*(id, { cidr, enabled, force, name }, author, expectedVersion) {
      const write = Effect.gen(function*() {
        const before = yield* current(id, expectedVersion)
        const entry = { ...before, name, cidr, enabled, version: before.version + 1 }
        yield* store.update(entry)
        return entry
      })
      return yield* taken(cidr)(change(write, author, force ?? false))
    }, answered),
    remove: Effect.fnUntraced(function*(id, force, author, expectedVersion) {
      const erase = Effect.andThen(current(id, expectedVersion), store.remove(id))
      yield* change(erase, author, force)
    }, answered),
  })
})

const isSqlError = (error: unknown): error is SqlError.SqlError =>
  typeof error === "object" && error !== null && "_tag" in error && error._tag === "SqlError"

/** The list over PostgreSQL; tells {@link ManagementAccess} of it for as long as it lives. */
export const managementIpsLayer: Layer.Layer<
  ManagementIps,
  SqlError.SqlError,
  SqlClient.SqlClient | Trust | ManagementAccess
> = Layer.effect(ManagementIps, make)
