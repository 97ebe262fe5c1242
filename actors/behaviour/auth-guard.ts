/**
 * Nobody gives away what they do not hold.
 *
 * Invariants
 * 1. Who may manage users but is no administrator cannot make one, nor take over the account of somebody who holds more.
 * 2. Nor can he make one that comes before him at a camera.
 * 3. What a role is narrowed to may change at any time: it is judged as if nothing narrowed it.
 */
import { beyond, ptzPriorities, ptzPriorityOf, type UserPrincipal } from "#schema/permission.ts"
import { Forbidden } from "#schema/problem.ts"
import { Effect } from "effect"

/** Fails unless the user holds what all these roles grant. */
export const mustHold = (
  who: UserPrincipal,
  roles: ReadonlyArray<{ readonly permissions: ReadonlyArray<string>; readonly ptzPriority?: number }>,
  message: string,
): Effect.Effect<void, Forbidden> =>
  roles.every(({ permissions, ptzPriority = ptzPriorities.least }) =>
      beyond(who, { role: "", permissions, resources: "all" }) === null && ptzPriority <= ptzPriorityOf(who.grants)
    ) ?
    Effect.void :
    Effect.fail(new Forbidden({ message }))
