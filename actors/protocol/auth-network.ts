/**
 * The addresses that may administer: their management, and the check that every administrative call passes.
 *
 * Invariants
 * 1. {@link ManagementAccess} lives as long as HTTP and asks no database: what it was told last holds while PostgreSQL is away.
 * 2. A change through {@link ManagementIps} holds on this node before its call answers.
 */
import type {
  CallOrigin,
  IpCheck,
  ListedNetwork,
  ManagementIp,
  ManagementIpId,
  ManagementIpNotFound,
  ManagementIpsFull,
  ManagementIpTaken,
  ManagementIpUpdate,
  NewManagementIp,
  WouldLockOut,
} from "#schema/auth-network.ts"
import type { PageOf, PageRequest } from "#schema/common.ts"
import type { DependencyUnavailable, InvalidCursor, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export class ManagementAccess extends Context.Service<ManagementAccess, {
  /**
   * Whether a call from there may administer. `DependencyUnavailable` while the list was never read: then nobody but the machine
   * itself gets in.
   */
  readonly check: (origin: CallOrigin) => Effect.Effect<IpCheck, DependencyUnavailable>
  /** The enabled entries; whole, they replace what was known before. */
  readonly know: (listed: ReadonlyArray<ListedNetwork>) => Effect.Effect<void>
}>()("nightjar/actors/ManagementAccess") {}

export class ManagementIps extends Context.Service<ManagementIps, {
  /** In the order they were added. */
  readonly list: (page: PageRequest) => Effect.Effect<PageOf<ManagementIp>, InvalidCursor | DependencyUnavailable>
  readonly get: (id: ManagementIpId) => Effect.Effect<ManagementIp, ManagementIpNotFound | DependencyUnavailable>
  readonly add: (
    entry: NewManagementIp,
    author: CallOrigin,
  ) => Effect.Effect<ManagementIp, ManagementIpTaken | ManagementIpsFull | WouldLockOut | DependencyUnavailable>
  readonly update: (
    id: ManagementIpId,
    entry: ManagementIpUpdate,
    author: CallOrigin,
    expectedVersion: number | null,
  ) => Effect.Effect<
    ManagementIp,
    ManagementIpNotFound | ManagementIpTaken | WouldLockOut | VersionConflict | DependencyUnavailable
  >
  readonly remove: (
    id: ManagementIpId,
    force: boolean,
    author: CallOrigin,
    expectedVersion: number | null,
  ) => Effect.Effect<void, ManagementIpNotFound | WouldLockOut | VersionConflict | DependencyUnavailable>
}>()("nightjar/actors/ManagementIps") {}
