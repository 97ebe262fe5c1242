/**
 * {@link ResourceGroups}: trees of groups and what they hold.
 *
 * Invariants
 * 1. A change of the shape of the trees is decided and made in one transaction that no other such change shares: there is never
 *    a circle, never more than the limits.
 * 2. Only what exists gets into a group. What is deleted later leaves it in the transaction that deletes it.
 * 3. Nobody gives away what they do not hold: what the roles that lead to a group would then grant of what it gets must be
 *    within what the caller holds; somebody whose roles are narrowed puts into a group only what these roles reach.
 */
import { Grants } from "#actors/protocol/auth-grants.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import { ResourceGroups, Resources } from "#actors/protocol/permission.ts"
import type { PageRequest } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import {
  groupLimits,
  type Resource,
  type ResourceGroup,
  type ResourceGroupFilter,
  ResourceGroupId,
  type ResourceGroupInput,
  ResourceGroupNameTaken,
  ResourceGroupNested,
  ResourceGroupNotFound,
  ResourceGroupsExhausted,
} from "#schema/permission-groups.ts"
import {
  beyond,
  resourceKey,
  type ResourceKind,
  resourceKinds,
  type ResourceSet,
  type UserPrincipal,
} from "#schema/permission.ts"
import { Forbidden, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered, violates } from "../store/answer.ts"
import { PermissionRoleStore } from "../store/permission-roles.ts"
import { PermissionStore } from "../store/permission.ts"

const groupCursor = cursorOf("resource-groups", Schema.Struct({ name: Schema.String, id: Schema.String }))
const memberCursor = cursorOf(
  "group-members",
  Schema.Struct({ kind: Schema.Literals(resourceKinds), id: Schema.String }),
)

type Store = PermissionStore

const finding = (store: Store) => (id: ResourceGroupId) =>
  Effect.flatMap(
    store.get(id),
    (group) => group === null ? Effect.fail(new ResourceGroupNotFound({ groupId: id })) : Effect.succeed(group),
  )

const matching = (ifMatch: number | null) => ({ version }: ResourceGroup) =>
  ifMatch === null || ifMatch === version ?
    Effect.void :
    Effect.fail(new VersionConflict({ message: `It has changed in the meantime and is at version ${version} now.` }))

const listing = (store: Store) => {
  const one = finding(store)
  return {
    list: Effect.fnUntraced(function*(filter: ResourceGroupFilter, page: PageRequest) {
      const after = yield* groupCursor.decode(page.cursor)
      return pageFrom({
        rows: yield* store.list(filter, page.limit + 1, after),
        limit: page.limit,
        cursor: groupCursor,
        position: ({ id, name }: ResourceGroup) => ({ id, name }),
        item: (group) => group,
      })
    }, answered),
    get: (id: ResourceGroupId) => answered(one(id)),
    members: Effect.fnUntraced(function*(id: ResourceGroupId, kind: ResourceKind | null, page: PageRequest) {
      const after = yield* memberCursor.decode(page.cursor)
      yield* one(id)
      return pageFrom({
        rows: yield* store.members(id, kind, page.limit + 1, after),
        limit: page.limit,
        cursor: memberCursor,
        position: (member) => ({ kind: member.kind, id: member.id }),
        item: (member) => member,
      })
    }, answered),
  }
}

/** Whether a group may be nested there; `id` null: one that is made just now. Within the lock. */
const checkedParent = Effect.fnUntraced(
  function*(store: Store, id: ResourceGroupId | null, parentId: ResourceGroupId | null) {
    if (parentId === null) return
    const above = yield* store.ancestors(parentId)
    if (above.length === 0) return yield* InvalidInput.at("/payload/parentId", "there is no such resource group")
    if (id !== null && above.includes(id)) {
      return yield* InvalidInput.at("/payload/parentId", "a resource group cannot be nested in itself")
    }
    const height = id === null ? 1 : yield* store.height(id)
    if (above.length + height > groupLimits.depth) {
      return yield* InvalidInput.at("/payload/parentId", `groups nest ${groupLimits.depth} deep at most`)
    }
  },
)

const named = (name: string) =>
  Effect.mapError((error: SqlError.SqlError) =>
    violates(error, "permission_group_name") ? new ResourceGroupNameTaken({ name }) : error
  )

/** Nesting a group gives what it holds to those who were given the groups above it. */
const mayShape = (who: UserPrincipal) =>
  who.grants.some((grant) => grant.resources === "all" && manages(grant)) ?
    Effect.void :
    Effect.fail(new Forbidden({ message: "Your roles are narrowed to resource groups; you cannot nest groups" }))

const manages = ({ permissions }: { readonly permissions: ReadonlyArray<string> }) =>
  permissions.includes("*") || permissions.includes("permission:write")

const mayAdd = Effect.fnUntraced(
  function*(resources: Resources["Service"], who: UserPrincipal, wanted: ReadonlyArray<Resource>) {
    const mine = who.grants.filter(manages)
    if (mine.some((grant) => grant.resources === "all")) return
    for (const resource of wanted) {
      const refs = (yield* resources.containing(resource)) ?? []
      const held = refs.some((ref) =>
        mine.some((grant) => grant.resources !== "all" && grant.resources.has(`${ref.kind}:${ref.id}`))
      )
      if (!held) {
        const message = `Your roles do not reach the ${resource.kind} ${resource.id}; you cannot put it into a group`
        return yield* new Forbidden({ message })
      }
    }
  },
)

/** Whether the caller may let everybody who is led to this group reach these. Within the transaction that does it. */
const giving = (roles: PermissionRoleStore, grants: Grants["Service"]) =>
  Effect.fnUntraced(function*(who: UserPrincipal, groupId: ResourceGroupId, resources: ResourceSet) {
    if (beyond(who, { role: "", permissions: ["*"], resources: "all" }) === null) return
    for (const role of yield* roles.leading(groupId)) {
      // One that was deleted just now leads nowhere any more.
      const found = yield* Effect.catchTag(grants.role(role), "RoleNotFound", () => Effect.succeed(null))
      const name = found === null ? null : beyond(who, { role, permissions: found.permissions, resources })
      if (name === null) continue
      const message = `The role ${role} would grant ${name} for more than you hold it yourself`
      return yield* new Forbidden({ message })
    }
  })

type MayGive = ReturnType<typeof giving>

const changing = (store: Store, trust: Trust["Service"], roles: PermissionRoleStore, mayGive: MayGive) => {
  const one = finding(store)
  /** In the lock, then told. */
  const alone = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.tap(store.alone(work), () => trust.changed)

  return {
    create: Effect.fnUntraced(function*(input: ResourceGroupInput, who: UserPrincipal) {
      const parentId = input.parentId ?? null
      if (parentId !== null) yield* mayShape(who)
      const id = ResourceGroupId.make(yield* uuid7)
      return yield* alone(Effect.gen(function*() {
        if ((yield* store.count) >= groupLimits.groups) {
          return yield* new ResourceGroupsExhausted({ limit: groupLimits.groups, of: "groups" })
        }
        yield* checkedParent(store, null, parentId)
        yield* store.insert(id, input, yield* Clock.currentTimeMillis).pipe(named(input.name))
        return yield* Effect.catchTag(one(id), "ResourceGroupNotFound", Effect.die)
      }))
    }, answered),
    update: Effect.fnUntraced(
      function*(id: ResourceGroupId, input: ResourceGroupInput, who: UserPrincipal, ifMatch: number | null) {
        return yield* alone(Effect.gen(function*() {
          const before = yield* Effect.tap(one(id), matching(ifMatch))
          const parentId = input.parentId ?? null
          if (parentId !== null && parentId !== before.parentId) yield* mayShape(who)
          yield* checkedParent(store, id, parentId)
          if (parentId !== null && parentId !== before.parentId) yield* mayGive(who, parentId, yield* roles.held(id))
          yield* store.update(id, input, yield* Clock.currentTimeMillis).pipe(named(input.name))
          return yield* one(id)
        }))
      },
      answered,
    ),
    remove: (id: ResourceGroupId, ifMatch: number | null) =>
      answered(alone(Effect.gen(function*() {
        yield* Effect.flatMap(one(id), matching(ifMatch))
        const names = yield* store.nestedNames(id)
        if (names.length > 0) return yield* new ResourceGroupNested({ groupId: id, names })
        yield* store.remove(id)
      }))),
  }
}

const filling = (store: Store, trust: Trust["Service"], resources: Resources["Service"], mayGive: MayGive) => {
  const one = finding(store)
  const alone = <A, E, R>(work: Effect.Effect<A, E, R>) => Effect.tap(store.alone(work), () => trust.changed)

  const checked = Effect.fnUntraced(function*(wanted: ReadonlyArray<Resource>) {
    const unknown = new Set((yield* resources.unknown(wanted)).map((one) => `${one.kind}:${one.id}`))
    if (unknown.size === 0) return
    const errors = wanted.flatMap((one, index) =>
      unknown.has(`${one.kind}:${one.id}`) ?
        [{ pointer: `/payload/resources/${index}`, message: `there is no ${one.kind} ${one.id}` }] :
        []
    )
    const message = errors.slice(0, 5).map((fault) => fault.message).join("; ")
    return yield* new InvalidInput({ message, errors })
  })

  return {
    add: Effect.fnUntraced(
      function*(id: ResourceGroupId, wanted: ReadonlyArray<Resource>, who: UserPrincipal, ifMatch: number | null) {
        yield* Effect.flatMap(one(id), matching(ifMatch))
        yield* mayAdd(resources, who, wanted)
        yield* checked(wanted)
        return yield* alone(Effect.gen(function*() {
          yield* Effect.flatMap(one(id), matching(ifMatch))
          yield* mayGive(who, id, new Set(wanted.map(resourceKey)))
          const nowMs = yield* Clock.currentTimeMillis
          const added = yield* store.addMembers(id, wanted, nowMs)
          if ((yield* store.memberCount) > groupLimits.members) {
            return yield* new ResourceGroupsExhausted({ limit: groupLimits.members, of: "members" })
          }
          if (added > 0) yield* store.touch(id, nowMs)
          return yield* one(id)
        }))
      },
      answered,
    ),
    take: Effect.fnUntraced(function*(id: ResourceGroupId, wanted: ReadonlyArray<Resource>, ifMatch: number | null) {
      return yield* alone(Effect.gen(function*() {
        yield* Effect.flatMap(one(id), matching(ifMatch))
        const taken = yield* store.removeMembers(id, wanted)
        if (taken > 0) yield* store.touch(id, yield* Clock.currentTimeMillis)
        return yield* one(id)
      }))
    }, answered),
  }
}

export const layer: Layer.Layer<ResourceGroups, never, SqlClient.SqlClient | Trust | Resources | Grants> = Layer.effect(
  ResourceGroups,
  Effect.gen(function*() {
    const [store, trust, resources] = yield* Effect.all([PermissionStore, Trust, Resources])
    const roles = yield* PermissionRoleStore
    const mayGive = giving(roles, yield* Grants)
    return ResourceGroups.of({
      ...listing(store),
      ...changing(store, trust, roles, mayGive),
      ...filling(store, trust, resources, mayGive),
    })
  }),
)
