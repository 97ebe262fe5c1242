/**
 * Nobody gives away what they do not hold.
 *
 * Invariants
 * 1. Who may manage users but is no administrator cannot make one, nor take over the account of somebody who holds more.
 * 2. What a role is narrowed to may change at any time: it is judged as if nothing narrowed it.
 */
import { beyond, type UserPrincipal } from "#schema/permission.ts"
import { Forbidden } from "#schema/problem.ts"
import { Effect } from "effect"

/** Fails unless the user holds what all these roles grant. */
export const mustHold = (
  who: UserPrincipal,
  roles: ReadonlyArray<{ readonly permissions: ReadonlyArray<string> }>,
  message: string,
): Effect.Effect<void, Forbidden> =>
  roles.every(({ permissions }) => beyond(who, { role: "", permissions, resources: "all" }) === null) ?
    Effect.void :
    Effect.fail(new Forbidden({ message }))
