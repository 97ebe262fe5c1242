/**
 * The permission slice: what roles are narrowed to, resource groups, the things that they hold, and whether somebody may.
 *
 * Invariants
 * 1. Nobody gives away what they do not hold themselves: `Forbidden`.
 * 2. What changed holds on this node before the call answers, on the others within moments.
 */
import type { RoleBuiltIn, RoleNotFound, UserNotFound } from "#schema/auth-users.ts"
import type { PageOf, PageRequest } from "#schema/common.ts"
import type {
  Check,
  GroupMember,
  Resource,
  ResourceGroup,
  ResourceGroupFilter,
  ResourceGroupId,
  ResourceGroupInput,
  ResourceGroupNameTaken,
  ResourceGroupNested,
  ResourceGroupNotAssigned,
  ResourceGroupNotFound,
  ResourceGroupsExhausted,
  RolePermissions,
  RoleResourceGroups,
  RoleResourceGroupsInput,
  UserResourceGroups,
} from "#schema/permission-groups.ts"
import type { Decision, Permission, ResourceKind, ResourceRef, ResourceSet, UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, Forbidden, InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"
import type { SqlError } from "effect/sql"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

/** What the resource groups of roles hold, for those who decide in memory. */
export class RoleReach extends Context.Service<RoleReach, {
  /**
   * The roles that are narrowed, by name, with everything that their groups and the groups nested in them hold. The same object
   * as long as nothing of it has changed. Takes part in the transaction at hand.
   */
  readonly read: Effect.Effect<ReadonlyMap<string, ResourceSet>, SqlError.SqlError>
}>()("nightjar/actors/RoleReach") {}

/** What a path or a body may name of a resource, beside its own id. */
export type Named = ResourceRef | { readonly kind: "stream" | "recordingToken" | "replaySession"; readonly id: string }

/** The things that decisions are about. */
export class Resources extends Context.Service<Resources, {
  /** The thing and what contains it, for `decide`; null: there is no such thing. */
  readonly containing: (named: Named) => Answer<ReadonlyArray<ResourceRef> | null>
  /** The channels of a camera, within it; none where there is no such camera. */
  readonly channelsOf: (cameraId: string) => Answer<ReadonlyArray<ReadonlyArray<ResourceRef>>>
  /** Of these, those that do not exist. */
  readonly unknown: (resources: ReadonlyArray<ResourceRef>) => Answer<ReadonlyArray<ResourceRef>>
}>()("nightjar/actors/Resources") {}

type OfGroup<A, E = never> = Answer<A, E | ResourceGroupNotFound>

export class ResourceGroups extends Context.Service<ResourceGroups, {
  /** By name. */
  readonly list: (filter: ResourceGroupFilter, page: PageRequest) => Answer<PageOf<ResourceGroup>, InvalidCursor>
  readonly get: (id: ResourceGroupId) => OfGroup<ResourceGroup>
  readonly create: (
    input: ResourceGroupInput,
    who: UserPrincipal,
  ) => Answer<ResourceGroup, InvalidInput | ResourceGroupNameTaken | ResourceGroupsExhausted | Forbidden>
  readonly update: (
    id: ResourceGroupId,
    input: ResourceGroupInput,
    who: UserPrincipal,
    ifMatch: number | null,
  ) => OfGroup<ResourceGroup, InvalidInput | ResourceGroupNameTaken | VersionConflict | Forbidden>
  readonly remove: (id: ResourceGroupId, ifMatch: number | null) => OfGroup<void, ResourceGroupNested | VersionConflict>
  /** Those that it was given itself, by kind and id. */
  readonly members: (
    id: ResourceGroupId,
    kind: ResourceKind | null,
    page: PageRequest,
  ) => OfGroup<PageOf<GroupMember>, InvalidCursor>
  /** What is there already stays. */
  readonly add: (
    id: ResourceGroupId,
    resources: ReadonlyArray<Resource>,
    who: UserPrincipal,
    ifMatch: number | null,
  ) => OfGroup<ResourceGroup, InvalidInput | ResourceGroupsExhausted | VersionConflict | Forbidden>
  /** What is not there is passed over. */
  readonly take: (
    id: ResourceGroupId,
    resources: ReadonlyArray<Resource>,
    ifMatch: number | null,
  ) => OfGroup<ResourceGroup, VersionConflict>
}>()("nightjar/actors/ResourceGroups") {}

type OfRole<A, E = never> = Answer<A, E | RoleNotFound>
type Narrowing = RoleBuiltIn | Forbidden

/** How the permissions of a role are changed. */
export type PermissionChange =
  | { readonly add: ReadonlyArray<Permission> }
  | { readonly take: ReadonlyArray<Permission> }
  | { readonly assign: ReadonlyArray<Permission> }

export class Permissions extends Context.Service<Permissions, {
  readonly ofRole: (role: string) => OfRole<RolePermissions>
  readonly change: (
    role: string,
    change: PermissionChange,
    who: UserPrincipal,
    ifMatch: number | null,
  ) => OfRole<RolePermissions, Narrowing | VersionConflict>
  readonly groupsOfRole: (role: string) => OfRole<RoleResourceGroups>
  readonly assignGroups: (
    role: string,
    input: RoleResourceGroupsInput,
    who: UserPrincipal,
  ) => OfRole<RoleResourceGroups, Narrowing | InvalidInput>
  readonly addGroup: (
    role: string,
    groupId: ResourceGroupId,
    who: UserPrincipal,
  ) => OfRole<RoleResourceGroups, Narrowing | ResourceGroupNotFound>
  readonly takeGroup: (role: string, groupId: ResourceGroupId) => OfRole<void, RoleBuiltIn | ResourceGroupNotAssigned>
  readonly groupsOfUser: (username: string, who: UserPrincipal) => Answer<UserResourceGroups, UserNotFound | Forbidden>
  /** In the order of the questions. `username` null: about the caller. */
  readonly check: (
    questions: ReadonlyArray<Check>,
    username: string | null,
    who: UserPrincipal,
  ) => Answer<ReadonlyArray<Decision>, UserNotFound | Forbidden>
}>()("nightjar/actors/Permissions") {}
