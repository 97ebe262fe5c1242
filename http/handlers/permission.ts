/** Handlers of the permission group: the list is pure, the rest goes to {@link Permissions} and {@link ResourceGroups}. */
import { type PermissionChange, Permissions, ResourceGroups } from "#actors/protocol/permission.ts"
import { decide, permissionDefinitions, permissionNames } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { createdAt, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { PermissionGroup } from "../contract/permission.ts"

const items = permissionNames.map((permission) => {
  const [resource = "", action = ""] = permission.split(":")
  return { permission, resource, action, ...permissionDefinitions[permission] }
})

const doors = Effect.gen(function*() {
  const permissions = yield* Permissions
  const groups = yield* ResourceGroups
  return { permissions, groups }
})

type Headers = Parameters<typeof expectedVersion>[0]

export const PermissionHandlers = HttpApiBuilder.group(
  nightjar.add(PermissionGroup),
  "permission",
  Effect.fnUntraced(function*(handlers) {
    const { groups, permissions } = yield* doors
    const change = (name: string, headers: Headers, how: PermissionChange) =>
      Effect.gen(function*() {
        return withVersion(yield* permissions.change(name, how, yield* currentUser, yield* expectedVersion(headers)))
      })
    return handlers
      .handle("list", () => Effect.succeed({ items, nextCursor: null }))
      .handle(
        "check",
        Effect.fnUntraced(function*({ payload }) {
          const who = yield* currentUser
          const questions = "items" in payload ? payload.items : [payload]
          const own = payload.username === undefined && questions.every(({ resource }) => resource === undefined)
          // What the caller holds at all is known without the database.
          const answers = own ?
            questions.map(({ permission }) => decide(who, permission)) :
            yield* permissions.check(questions, payload.username ?? null, who)
          return "items" in payload ? { items: answers } : answers[0]!
        }),
      )
      .handle("resourceGroups", ({ query }) => {
        const { cursor: _cursor, limit: _limit, ...filter } = query
        return groups.list(filter, pageRequest(query))
      })
      .handle(
        "createResourceGroup",
        Effect.fnUntraced(function*({ payload }) {
          const made = yield* groups.create(payload, yield* currentUser)
          return createdAt(`/permission/api/v1/resource-groups/${made.id}`, made)
        }),
      )
      .handle("resourceGroup", ({ params }) => Effect.map(groups.get(params.id), withVersion))
      .handle(
        "updateResourceGroup",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          const version = yield* expectedVersion(headers)
          return withVersion(yield* groups.update(params.id, payload, yield* currentUser, version))
        }),
      )
      .handle("deleteResourceGroup", ({ headers, params }) =>
        Effect.flatMap(expectedVersion(headers), (version) => groups.remove(params.id, version)))
      .handle("resources", ({ params, query }) =>
        groups.members(params.id, query.kind ?? null, pageRequest(query)))
      .handle(
        "addResources",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          const version = yield* expectedVersion(headers)
          return withVersion(yield* groups.add(params.id, payload.resources, yield* currentUser, version))
        }),
      )
      .handle(
        "removeResources",
        ({ headers, params, payload }) =>
          Effect.flatMap(expectedVersion(headers), (version) =>
            Effect.map(groups.take(params.id, payload.resources, version), withVersion)),
      )
      .handle("rolePermissions", ({ params }) => Effect.map(permissions.ofRole(params.name), withVersion))
      .handle(
        "addPermissions",
        ({ headers, params, payload }) => change(params.name, headers, { add: payload.permissions }),
      )
      .handle(
        "assignPermissions",
        ({ headers, params, payload }) => change(params.name, headers, { assign: payload.permissions }),
      )
      .handle(
        "removePermissions",
        ({ headers, params, payload }) => change(params.name, headers, { take: payload.permissions }),
      )
      .handle("roleResourceGroups", ({ params }) => permissions.groupsOfRole(params.name))
      .handle(
        "assignResourceGroups",
        ({ params, payload }) =>
          Effect.flatMap(currentUser, (who) => permissions.assignGroups(params.name, payload, who)),
      )
      .handle(
        "addResourceGroup",
        ({ params }) => Effect.flatMap(currentUser, (who) => permissions.addGroup(params.name, params.groupId, who)),
      )
      .handle("removeResourceGroup", ({ params }) => permissions.takeGroup(params.name, params.groupId))
      .handle(
        "userResourceGroups",
        ({ params }) => Effect.flatMap(currentUser, (who) => permissions.groupsOfUser(params.username, who)),
      )
  }),
)
