/**
 * {@link RoleReach}: resource groups in memory, closed over nesting.
 *
 * Invariants
 * 1. What a group holds is kept once, however many roles it narrows: a role keeps only which groups are its own.
 * 2. Nothing is read from the tables of groups while their version stands.
 */
import { RoleReach } from "#actors/protocol/permission.ts"
import type { ResourceKey, ResourceSet } from "#schema/permission.ts"
import { Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { type GroupRow, PermissionReachStore } from "../store/permission-reach.ts"

export interface GroupState {
  readonly groups: ReadonlyArray<GroupRow>
  readonly members: ReadonlyArray<{ readonly groupId: string; readonly key: ResourceKey }>
  readonly roles: ReadonlyArray<{ readonly role: string; readonly groupIds: ReadonlyArray<string> }>
}

const listed = <A>(rows: ReadonlyArray<A>, key: (row: A) => string | null, value: (row: A) => string) => {
  const lists = new Map<string, Array<string>>()
  for (const row of rows) {
    const name = key(row)
    if (name === null) continue
    const list = lists.get(name)
    if (list === undefined) lists.set(name, [value(row)])
    else list.push(value(row))
  }
  return lists
}

/** These groups and all that are nested in them; each once, should they ever form a circle. */
const closed = (roots: ReadonlyArray<string>, nested: ReadonlyMap<string, ReadonlyArray<string>>) => {
  const all = new Set<string>()
  const open = [...roots]
  for (let id = open.pop(); id !== undefined; id = open.pop()) {
    if (all.has(id)) continue
    all.add(id)
    open.push(...(nested.get(id) ?? []))
  }
  return all
}

/** What each narrowed role reaches. */
export const reachOfRoles = (state: GroupState): ReadonlyMap<string, ResourceSet> => {
  const nested = listed(state.groups, (group) => group.parentId, (group) => group.id)
  const holding = listed(state.members, (member) => member.key, (member) => member.groupId)
  const held = listed(state.members, (member) => member.groupId, (member) => member.key) as ReadonlyMap<
    string,
    ReadonlyArray<ResourceKey>
  >
  return new Map(state.roles.map(({ groupIds, role }) => {
    const own = closed(groupIds, nested)
    const set: ResourceSet = {
      has: (key) => (holding.get(key) ?? []).some((groupId) => own.has(groupId)),
      *[Symbol.iterator]() {
        for (const groupId of own) yield* held.get(groupId) ?? []
      },
    }
    return [role, set]
  }))
}

export const layer: Layer.Layer<RoleReach, never, SqlClient.SqlClient> = Layer.effect(
  RoleReach,
  Effect.map(PermissionReachStore, (store) => {
    let known: { readonly version: bigint; readonly reach: ReadonlyMap<string, ResourceSet> } | null = null
    return RoleReach.of({
      read: Effect.gen(function*() {
        const version = yield* store.version
        if (known?.version === version) return known.reach
        const state = { groups: yield* store.groups, members: yield* store.members, roles: yield* store.roles }
        const reach = reachOfRoles(state)
        known = { version, reach }
        return reach
      }),
    })
  }),
)
