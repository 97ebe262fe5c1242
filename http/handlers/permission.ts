/** Handlers of the permission group: the list and the decision are pure. */
import { decide, permissionDefinitions, permissionNames } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../contract/access.ts"
import { nightjar } from "../contract/conventions.ts"
import { PermissionGroup } from "../contract/permission.ts"

const items = permissionNames.map((permission) => {
  const [resource = "", action = ""] = permission.split(":")
  return { permission, resource, action, ...permissionDefinitions[permission] }
})

export const PermissionHandlers = HttpApiBuilder.group(
  nightjar.add(PermissionGroup),
  "permission",
  (handlers) =>
    handlers
      .handle("list", () => Effect.succeed({ items, nextCursor: null }))
      .handle(
        "check",
        ({ payload }) => Effect.map(CurrentPrincipal, (principal) => decide(principal, payload.permission)),
      ),
)
