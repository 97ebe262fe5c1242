/**
 * What roles grant, and what a user holds, for the slice that decides: as the database has it now.
 */
import type { RoleBuiltIn, RoleNotFound, UserNotFound } from "#schema/auth-users.ts"
import type { Grant } from "#schema/permission.ts"
import type { DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export interface RoleGrant {
  readonly name: string
  readonly builtIn: boolean
  /** Names, or `*`. */
  readonly permissions: ReadonlyArray<string>
  readonly version: number
}

export interface Holder {
  readonly username: string
  /** May sign in. */
  readonly enabled: boolean
  readonly roles: ReadonlyArray<string>
  readonly grants: ReadonlyArray<Grant>
}

export class Grants extends Context.Service<Grants, {
  readonly role: (name: string) => Answer<RoleGrant, RoleNotFound>
  readonly setPermissions: (
    name: string,
    permissions: ReadonlyArray<string>,
    expectedVersion: number,
  ) => Answer<void, RoleNotFound | RoleBuiltIn | VersionConflict>
  readonly holder: (username: string) => Answer<Holder, UserNotFound>
}>()("nightjar/actors/Grants") {}
