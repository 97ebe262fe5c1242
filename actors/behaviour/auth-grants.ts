/**
 * {@link Grants}: roles and their holders for the slice that decides.
 *
 * Invariants
 * 1. What was changed holds on this node before the call answers.
 */
import { Grants } from "#actors/protocol/auth-grants.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import { RoleReach } from "#actors/protocol/permission.ts"
import { RoleBuiltIn, RoleNotFound, UserNotFound } from "#schema/auth-users.ts"
import { VersionConflict } from "#schema/problem.ts"
import { Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthGrantsStore } from "../store/auth-grants.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"

const make = Effect.gen(function*() {
  const [roles, holders, reach, trust] = yield* Effect.all([AuthRolesStore, AuthGrantsStore, RoleReach, Trust])

  const role = Effect.fnUntraced(function*(name: string) {
    return (yield* roles.get(name)) ?? (yield* new RoleNotFound({ role: name }))
  })

  return Grants.of({
    role: (name) => answered(role(name)),
    setPermissions: Effect.fnUntraced(function*(name, permissions, expectedVersion) {
      const before = yield* role(name)
      if (before.builtIn) return yield* new RoleBuiltIn({ role: name })
      if (!(yield* roles.set(name, { permissions }, expectedVersion))) {
        return yield* new VersionConflict({ message: "The role was changed by somebody else" })
      }
      yield* trust.changed
    }, answered),
    holder: Effect.fnUntraced(function*(username) {
      const found = yield* holders.holder(username)
      if (found === null) return yield* new UserNotFound({ userId: username })
      const narrowed = yield* reach.read
      const granted = (yield* roles.permissions()).filter((one) => found.roles.includes(one.role))
      const grants = granted.map((one) => ({ ...one, resources: narrowed.get(one.role) ?? ("all" as const) }))
      return { ...found, grants }
    }, answered),
  })
})

export const layer: Layer.Layer<Grants, never, SqlClient.SqlClient | RoleReach | Trust> = Layer.effect(Grants, make)
