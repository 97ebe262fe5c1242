/**
 * Nobody gives away what they do not hold.
 *
 * Invariants
 * 1. Who may manage users but is no administrator cannot make one, nor take over the account of somebody who holds more.
 * 2. A permission counts as held only where no resource group narrows it: what is given away is not narrowed.
 */
import type { UserPrincipal } from "#schema/permission.ts"
import { Forbidden } from "#schema/problem.ts"
import { Effect } from "effect"

/** Whether the user holds each of these permissions everywhere. */
const holds = (who: UserPrincipal, permissions: ReadonlyArray<string>): boolean => {
  const whole = who.grants.filter(({ resources }) => resources === "all")
  const held = new Set(whole.flatMap((grant) => grant.permissions))
  return held.has("*") || permissions.every((permission) => held.has(permission))
}

/** Fails unless the user holds what all these roles grant. */
export const mustHold = (
  who: UserPrincipal,
  roles: ReadonlyArray<{ readonly permissions: ReadonlyArray<string> }>,
  message: string,
): Effect.Effect<void, Forbidden> =>
  holds(who, roles.flatMap(({ permissions }) => permissions)) ? Effect.void : Effect.fail(new Forbidden({ message }))
