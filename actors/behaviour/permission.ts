/**
 * {@link Permissions}: what roles grant and what narrows them, and the answer to whether somebody may, with its reason.
 *
 * Invariants
 * 1. Built-in roles follow the release and are neither changed nor narrowed: nobody loses the way back in.
 * 2. Nobody gives away what they do not hold: a role as it would be after the change must be within what the caller holds.
 * 3. Of a thing that the caller may not see, a check answers what it answers of one that does not exist.
 */
import { Grants } from "#actors/protocol/auth-grants.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import { type PermissionChange, Permissions, Resources, RoleReach } from "#actors/protocol/permission.ts"
import { RoleBuiltIn, RoleNotFound } from "#schema/auth-users.ts"
import {
  type Check,
  type ResourceGroupId,
  ResourceGroupNotAssigned,
  ResourceGroupNotFound,
  type RoleResourceGroupsInput,
} from "#schema/permission-groups.ts"
import {
  beyond,
  decide,
  type Decision,
  type Grant,
  type Permission,
  permissionDefinitions,
  permissionNames,
  resourceKey,
  type ResourceRef,
  sees,
  type UserPrincipal,
} from "#schema/permission.ts"
import { Forbidden, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Effect, Layer } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered, violates } from "../store/answer.ts"
import { PermissionRoleStore } from "../store/permission-roles.ts"

const changed = (before: ReadonlyArray<string>, change: PermissionChange): ReadonlyArray<string> => {
  if ("assign" in change) return [...new Set(change.assign)]
  if ("add" in change) return [...new Set([...before, ...change.add])]
  const taken: ReadonlySet<string> = new Set(change.take)
  return before.filter((name) => !taken.has(name))
}

/** Only what is new is judged: whoever takes away gives nothing. */
const mayGive = (who: UserPrincipal, grant: Grant) => {
  const name = beyond(who, grant)
  return name === null ?
    Effect.void :
    Effect.fail(
      new Forbidden({ message: `You cannot give ${name} as far as the role would reach: you do not hold it` }),
    )
}

interface Doors {
  readonly store: PermissionRoleStore
  readonly grants: Grants["Service"]
  readonly reach: RoleReach["Service"]
  readonly trust: Trust["Service"]
}

const granting = ({ grants, reach }: Doors) => {
  const ofRole = Effect.fnUntraced(function*(name: string) {
    const role = yield* grants.role(name)
    const everything = role.permissions.includes("*")
    return {
      role: name,
      builtIn: role.builtIn,
      everything,
      permissions: everything ? permissionNames : permissionNames.filter((one) => role.permissions.includes(one)),
      version: role.version,
    }
  })

  const once = Effect.fnUntraced(
    function*(name: string, change: PermissionChange, who: UserPrincipal, ifMatch: number | null) {
      const role = yield* grants.role(name)
      if (role.builtIn) return yield* new RoleBuiltIn({ role: name })
      if (ifMatch !== null && ifMatch !== role.version) {
        const message = `It has changed in the meantime and is at version ${role.version} now.`
        return yield* new VersionConflict({ message })
      }
      const after = changed(role.permissions, change)
      const given = after.filter((one) => !role.permissions.includes(one))
      const resources = (yield* reach.read).get(name) ?? "all"
      yield* mayGive(who, { role: name, permissions: given, resources })
      if (given.length > 0 || after.length < role.permissions.length) {
        yield* grants.setPermissions(name, after, role.version)
      }
      return yield* ofRole(name)
    },
  )

  return {
    ofRole: (name: string) => answered(ofRole(name)),
    change: (name: string, change: PermissionChange, who: UserPrincipal, ifMatch: number | null) =>
      // Without If-Match a change in between is none of the caller's business; thrice in a row is somebody's loop.
      answered(Effect.retry(once(name, change, who, ifMatch), {
        times: ifMatch === null ? 3 : 0,
        while: (error) => error._tag === "VersionConflict",
      })),
  }
}

/** A role or a group that went while it was being changed. */
const gone = (role: string, groupId: string) =>
  Effect.mapError((error: SqlError.SqlError) => {
    if (violates(error, "permission_role_role_fkey")) return new RoleNotFound({ role })
    if (violates(error, "permission_role_group_group_id_fkey")) return new ResourceGroupNotFound({ groupId })
    return error
  })

const narrowing = ({ grants, store, trust }: Doors) => {
  const groupsOfRole = Effect.fnUntraced(function*(role: string) {
    yield* grants.role(role)
    return {
      role,
      allResources: yield* store.allResources(role),
      items: yield* store.groups(role),
      nextCursor: null,
    }
  })

  const own = Effect.fnUntraced(function*(name: string) {
    const role = yield* grants.role(name)
    if (role.builtIn) return yield* new RoleBuiltIn({ role: name })
    return role
  })

  /** Makes the change, and takes it back where the role would then reach beyond the caller. */
  const within = <E>(name: string, who: UserPrincipal, write: Effect.Effect<void, E>) =>
    Effect.gen(function*() {
      const role = yield* own(name)
      yield* store.inTransaction(Effect.gen(function*() {
        const before = yield* store.reaches(name)
        yield* write
        const after = yield* store.reaches(name)
        // Narrower than it was: nothing is given.
        if (after !== "all" && (before === "all" || [...after].every((key) => before.has(key)))) return
        yield* mayGive(who, { role: name, permissions: role.permissions, resources: after })
      }))
      yield* trust.changed
    })

  return {
    groupsOfRole: (role: string) => answered(groupsOfRole(role)),
    assignGroups: Effect.fnUntraced(function*(role: string, input: RoleResourceGroupsInput, who: UserPrincipal) {
      const allResources = input.allResources ?? false
      if (allResources && input.groupIds.length > 0) {
        return yield* InvalidInput.at("/payload/allResources", "a role that reaches everything needs no groups")
      }
      yield* own(role)
      const there = yield* store.existing(input.groupIds)
      const errors = input.groupIds.flatMap((id, index) =>
        there.has(id) ? [] : [{ pointer: `/payload/groupIds/${index}`, message: `there is no resource group ${id}` }]
      )
      if (errors.length > 0) {
        return yield* new InvalidInput({ message: errors.map((fault) => fault.message).join("; "), errors })
      }
      const write = store.assign(role, allResources, input.groupIds).pipe(gone(role, input.groupIds.join()))
      yield* Effect.catchTag(
        within(role, who, write),
        "ResourceGroupNotFound",
        () => Effect.fail(InvalidInput.at("/payload/groupIds", "one of the resource groups was deleted just now")),
      )
      return yield* groupsOfRole(role)
    }, answered),
    addGroup: Effect.fnUntraced(function*(role: string, groupId: ResourceGroupId, who: UserPrincipal) {
      yield* own(role)
      if (!(yield* store.existing([groupId])).has(groupId)) return yield* new ResourceGroupNotFound({ groupId })
      yield* within(role, who, store.add(role, groupId).pipe(gone(role, groupId)))
      return yield* groupsOfRole(role)
    }, answered),
    takeGroup: Effect.fnUntraced(function*(role: string, groupId: ResourceGroupId) {
      yield* own(role)
      if (!(yield* store.take(role, groupId))) return yield* new ResourceGroupNotAssigned({ role, groupId })
      yield* trust.changed
    }, answered),
  }
}

const mayAskOf = (who: UserPrincipal, username: string | null) => {
  if (username === null || username.toLowerCase() === who.username.toLowerCase()) return Effect.void
  const decision = decide(who, "permission:read")
  return decision.allowed ?
    Effect.void :
    Effect.fail(new Forbidden({ message: `About somebody else: ${decision.reason}` }))
}

/** One question with what is known of its thing. */
interface Asked {
  readonly permission: Permission
  readonly refs: ReadonlyArray<ResourceRef> | null | undefined
  readonly kind: string
}

const answering = ({ grants, store }: Doors, resources: Resources["Service"]) => {
  const find = Effect.fnUntraced(function*(questions: ReadonlyArray<Check>) {
    const keys = new Map(
      questions.flatMap(({ resource }) => resource === undefined ? [] : [[resourceKey(resource), resource] as const]),
    )
    const found = new Map(
      yield* Effect.forEach(
        keys,
        ([key, ref]) => Effect.map(resources.containing(ref), (refs) => [key, refs] as const),
        // A question is one row by its key; more at once would only wait for connections.
        { concurrency: 4 },
      ),
    )
    return questions.map(({ permission, resource }): Asked => ({
      permission,
      kind: resource?.kind ?? "",
      refs: resource === undefined ? undefined : found.get(resourceKey(resource)) ?? null,
    }))
  })

  /** By which groups narrowed roles reach the things, for the reasons. */
  const explained = Effect.fnUntraced(function*(asked: ReadonlyArray<Asked>, decisions: ReadonlyArray<Decision>) {
    const allowed = asked.flatMap(({ refs }, index) => decisions[index]?.allowed === true ? refs ?? [] : [])
    const roles = [...new Set(decisions.flatMap((decision) => decision.via))]
    if (allowed.length === 0 || roles.length === 0) return decisions
    const rows = yield* store.holding([...new Set(allowed.map(resourceKey))], roles)
    return decisions.map((decision, index) => {
      const keys: ReadonlySet<string> = new Set((asked[index]?.refs ?? []).map(resourceKey))
      const names = new Set(
        rows.filter((row) => keys.has(row.key) && decision.via.includes(row.role)).map((row) => row.name),
      )
      const scoped = permissionDefinitions[asked[index]!.permission].scope !== null
      if (!decision.allowed || !scoped || names.size === 0) return decision
      return { ...decision, reason: `${decision.reason}, through the resource groups ${[...names].join(", ")}` }
    })
  })

  const check = Effect.fnUntraced(
    function*(questions: ReadonlyArray<Check>, username: string | null, who: UserPrincipal) {
      yield* mayAskOf(who, username)
      const holder = username === null ? null : yield* grants.holder(username)
      const asked = yield* find(questions)
      const subject = holder === null ? who : { ...who, grants: holder.grants }
      const decisions = asked.map(({ kind, permission, refs }): Decision => {
        if (holder?.enabled === false) return { allowed: false, reason: "The account is switched off", via: [] }
        // The caller learns of things that he sees himself; of others it is as if they did not exist.
        const hidden = refs === null || (refs !== undefined && !sees(who, refs))
        if (hidden) return { allowed: false, reason: `There is no such ${kind}, or you may not see it`, via: [] }
        return decide(subject, permission, refs)
      })
      return yield* explained(asked, decisions)
    },
  )

  return {
    check: (questions: ReadonlyArray<Check>, username: string | null, who: UserPrincipal) =>
      answered(check(questions, username, who)),
    groupsOfUser: Effect.fnUntraced(function*(username: string, who: UserPrincipal) {
      yield* mayAskOf(who, username)
      const holder = yield* grants.holder(username)
      return {
        username: holder.username,
        allResources: holder.grants.some((grant) => grant.resources === "all"),
        items: yield* store.accessible(holder.roles),
        nextCursor: null,
      }
    }, answered),
  }
}

export const layer: Layer.Layer<
  Permissions,
  never,
  SqlClient.SqlClient | Grants | Trust | RoleReach | Resources
> = Layer.effect(
  Permissions,
  Effect.gen(function*() {
    const doors = {
      store: yield* PermissionRoleStore,
      grants: yield* Grants,
      reach: yield* RoleReach,
      trust: yield* Trust,
    }
    const resources = yield* Resources
    return Permissions.of({ ...granting(doors), ...narrowing(doors), ...answering(doors, resources) })
  }),
)
