/**
 * The permission slice: what roles are narrowed to, resource groups, and the answer to whether somebody may.
 */
import type { ResourceSet } from "#schema/permission.ts"
import { Context, type Effect } from "effect"
import type { SqlError } from "effect/sql"

/** What the resource groups of roles hold, for those who decide in memory. */
export class RoleReach extends Context.Service<RoleReach, {
  /**
   * The roles that are narrowed, by name, with everything that their groups and the groups nested in them hold. The same object
   * as long as nothing of it has changed. Takes part in the transaction at hand.
   */
  readonly read: Effect.Effect<ReadonlyMap<string, ResourceSet>, SqlError.SqlError>
}>()("nightjar/actors/RoleReach") {}
