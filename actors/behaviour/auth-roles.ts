/**
 * {@link Roles}: making, changing and deleting roles.
 *
 * Invariants
 * 1. Built-in roles are those of the release that runs: nobody changes or deletes them.
 * 2. Only somebody who holds a permission puts it into a role.
 */
import { Trust } from "#actors/protocol/auth-trust.ts"
import { Roles, Users } from "#actors/protocol/auth-users.ts"
import { RoleBuiltIn, RoleHeld, RoleNameTaken, RoleNotFound } from "#schema/auth-users.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { defaultPtzPriority } from "#schema/permission.ts"
import { VersionConflict } from "#schema/problem.ts"
import { Effect, Layer, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"
import { mustHold } from "./auth-guard.ts"

const cursor = cursorOf("roles", Schema.String.check(Schema.isPattern(/^\P{Cc}*$/u)))
const notHeld =
  "You cannot put into a role what you do not hold yourself: a permission, or a higher PTZ priority than yours"
const outdated = () => new VersionConflict({ message: "The role was changed by somebody else" })

const make = Effect.gen(function*() {
  const store = yield* AuthRolesStore
  const users = yield* Users
  const trust = yield* Trust
  const known = Effect.fnUntraced(function*(name: string) {
    return (yield* store.get(name)) ?? (yield* new RoleNotFound({ role: name }))
  })

  return Roles.of({
    list: Effect.fnUntraced(function*(page) {
      const rows = yield* store.list(page.limit + 1, yield* cursor.decode(page.cursor))
      return pageFrom({ rows, limit: page.limit, cursor, position: ({ name }) => name, item: (role) => role })
    }, answered),
    get: (name) => answered(known(name)),
    create: Effect.fnUntraced(function*(role, who) {
      const { description = "", name, permissions = [], ...more } = role
      yield* mustHold(who, [{ permissions, ...more }], notHeld)
      const made = { name, description, permissions, ptzPriority: role.ptzPriority ?? defaultPtzPriority }
      if (!(yield* store.insert(made))) return yield* new RoleNameTaken({ role: role.name })
      yield* trust.changed
      return yield* Effect.catchTag(known(role.name), "RoleNotFound", outdatedAtOnce)
    }, answered),
    update: Effect.fnUntraced(function*(name, change, who, expectedVersion) {
      const before = yield* known(name)
      if (before.builtIn) return yield* new RoleBuiltIn({ role: name })
      const added = (change.permissions ?? []).filter((one) => !before.permissions.includes(one))
      const raised = change.ptzPriority !== undefined && change.ptzPriority > before.ptzPriority ?
        { ptzPriority: change.ptzPriority } :
        {}
      yield* mustHold(who, [{ permissions: added, ...raised }], notHeld)
      // What was judged is what is changed, also where nobody asked for a version.
      if (!(yield* store.set(name, change, expectedVersion ?? before.version))) return yield* outdated()
      yield* trust.changed
      return yield* known(name)
    }, answered),
    remove: Effect.fnUntraced(function*(name, expectedVersion) {
      const removal = yield* store.remove(name, expectedVersion)
      if (removal.kind === "unknown") return yield* new RoleNotFound({ role: name })
      if (removal.kind === "builtIn") return yield* new RoleBuiltIn({ role: name })
      if (removal.kind === "otherVersion") return yield* outdated()
      if (removal.kind === "held") {
        return yield* new RoleHeld({ role: name, users: removal.users, count: removal.count })
      }
      yield* trust.changed
    }, answered),
    users: Effect.fnUntraced(function*(name, page) {
      yield* known(name)
      return yield* users.list({ role: name }, page)
    }, answered),
  })
})

/** Deleted by somebody between its making and the answer: as if it had never been. */
const outdatedAtOnce = ({ role }: RoleNotFound) => Effect.fail(new RoleNameTaken({ role }))

export const layer: Layer.Layer<Roles, never, SqlClient.SqlClient | Users | Trust> = Layer.effect(Roles, make)
