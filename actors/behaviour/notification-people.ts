/**
 * Who a popup rule reaches, and what its cameras and resource groups hold, looked up once for a page of events.
 *
 * Invariants
 * 1. Nobody is told of what he may not see: what he may is decided by his roles as they are now.
 * 2. Users who may not sign in are told nothing. At most `ruleLimits.people` are told by one rule.
 */
import { Grants } from "#actors/protocol/auth-grants.ts"
import { Roles, Users } from "#actors/protocol/auth-users.ts"
import { ResourceGroups } from "#actors/protocol/permission.ts"
import type { User } from "#schema/auth-users.ts"
import type { UserId } from "#schema/common.ts"
import { eventTypeOf, type StoredEvent } from "#schema/event.ts"
import { type PopupRule, ruleLimits } from "#schema/notification-rules.ts"
import type { Within } from "#schema/notification-schedule.ts"
import { groupLimits, ResourceGroupId } from "#schema/permission-groups.ts"
import { decide, resourceKey, type UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Effect } from "effect"

type Lookup<A> = Effect.Effect<A, DependencyUnavailable>

/** A recipient with what he holds. */
export interface Person {
  readonly user: User
  readonly principal: UserPrincipal
}

const pageOf = 500

/** The same answer for the same key, until it is thrown away. */
const once = <A>(look: (key: string) => Lookup<A>) => {
  const known = new Map<string, A>()
  return Effect.fnUntraced(function*(key: string) {
    const before = known.get(key)
    if (before !== undefined) return before
    const found = yield* look(key)
    known.set(key, found)
    return found
  })
}

/** Every page of a list, until there are `most`. A cursor of ours is good. */
const all = <A, E>(
  page: (cursor: string | null) => Effect.Effect<{
    readonly items: ReadonlyArray<A>
    readonly nextCursor: string | null
  }, E>,
  most: number,
) =>
  Effect.gen(function*() {
    const found: Array<A> = []
    let cursor: string | null = null
    do {
      const { items, nextCursor }: { readonly items: ReadonlyArray<A>; readonly nextCursor: string | null } =
        yield* page(cursor)
      found.push(...items)
      cursor = nextCursor
    } while (cursor !== null && found.length < most)
    return found
  })

/** Makes a fresh set of answers; throw it away after a page of events. */
export const makePeople = Effect.gen(function*() {
  const [users, roles, groups, grants] = yield* Effect.all([Users, Roles, ResourceGroups, Grants])

  const readHeld = (id: ResourceGroupId, depth: number): Lookup<ReadonlyArray<string>> =>
    Effect.gen(function*() {
      const members = yield* all((cursor) => groups.members(id, null, { limit: pageOf, cursor }), groupLimits.members)
      const nested = depth === 0 ?
        [] :
        yield* all((cursor) => groups.list({ parentId: id }, { limit: pageOf, cursor }), groupLimits.groups)
      const below = yield* Effect.forEach(nested, (group) => readHeld(group.id, depth - 1))
      return [...members.map(resourceKey), ...below.flat()]
    }).pipe(
      Effect.catchTag("ResourceGroupNotFound", () => Effect.succeed([])),
      Effect.catchTag("InvalidCursor", Effect.die),
    )

  const readPerson = (user: User): Lookup<ReadonlyArray<Person>> =>
    grants.holder(user.username).pipe(
      Effect.map((holder) =>
        holder.enabled ?
          [{
            user,
            principal: {
              kind: "user" as const,
              userId: user.id,
              username: user.username,
              sessionId: "",
              grants: holder.grants,
            },
          }] :
          []
      ),
      Effect.catchTag("UserNotFound", () => Effect.succeed([])),
    )

  return Effect.sync(() => {
    const held = once((id) =>
      Effect.map(readHeld(ResourceGroupId.make(id), groupLimits.depth), (keys) => new Set(keys))
    )
    const ofRole = once((name) =>
      all((cursor) => roles.users(name, { limit: pageOf, cursor }), ruleLimits.people).pipe(
        Effect.catchTag("RoleNotFound", () => Effect.succeed<ReadonlyArray<User>>([])),
        Effect.catchTag("InvalidCursor", Effect.die),
      )
    )
    const ofId = once((id) =>
      users.get(id as UserId).pipe(
        Effect.map((user): ReadonlyArray<User> => [user]),
        Effect.catchTag("UserNotFound", () => Effect.succeed<ReadonlyArray<User>>([])),
      )
    )
    const byRule = new Map<string, ReadonlyArray<Person>>()
    const people = Effect.fnUntraced(function*(rule: PopupRule) {
      const known = byRule.get(rule.id)
      if (known !== undefined) return known
      const named = yield* Effect.forEach(rule.recipients.users, ofId)
      const holding = yield* Effect.forEach(rule.recipients.roles, ofRole)
      const each = new Map([...named, ...holding].flat().map((user) => [user.id, user] as const))
      const enabled = [...each.values()].filter((user) => user.enabled).slice(0, ruleLimits.people)
      const found = (yield* Effect.forEach(enabled, readPerson)).flat()
      byRule.set(rule.id, found)
      return found
    })
    return {
      people,
      /** Recipients who may see the event. */
      mayHear: Effect.fnUntraced(function*(rule: PopupRule, { audience, event, resource }: StoredEvent) {
        const type = eventTypeOf(event.type)
        if (type === null) return []
        return (yield* people(rule)).filter(({ principal }) =>
          (audience === null || audience.includes(principal.userId)) &&
          decide(principal, type.permission, resource).allowed
        )
      }),
      within: Effect.fnUntraced(function*({ filter }: PopupRule): Effect.fn.Return<Within, DependencyUnavailable> {
        if (filter.cameras.length === 0 && filter.resourceGroups.length === 0) return null
        const sets = yield* Effect.forEach(filter.resourceGroups, held)
        return new Set([...filter.cameras.map((id) => `camera:${id}`), ...sets.flatMap((set) => [...set])])
      }),
    }
  })
})
export type People = Effect.Success<Effect.Success<typeof makePeople>>
