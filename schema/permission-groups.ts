/**
 * Words of resource groups: what they hold, how they nest, and which roles they narrow.
 *
 * Invariants
 * 1. A group holds what it was given and everything that the groups nested in it hold. Groups form trees: no group lies in
 *    itself, and none deeper than {@link groupLimits} says.
 * 2. A role that was given a group is narrowed until somebody says in so many words that it is not: taking its last group away
 *    leaves it with nothing.
 * 3. All counts are bounded by {@link groupLimits}: what is decided by them is kept in the memory of every node.
 */
import { Schema } from "effect"
import { Instant, Uuid7 } from "./common.ts"
import { Decision, Permission, ResourceKind } from "./permission.ts"

export const groupLimits = {
  /** In all. Each is some hundred bytes in the memory of every node. */
  groups: 1_000,
  /** A site, a building, a floor, a room, and as many again. */
  depth: 8,
  /** Of all groups together: about 20 MiB in the memory of every node. */
  members: 100_000,
  /** Of one request; a camera is some 80 bytes of JSON, far below the limit of a body. */
  request: 1_000,
  /** Questions of one check. */
  checks: 200,
} as const

export const ResourceGroupId = Uuid7.pipe(Schema.brand("ResourceGroupId"))
export type ResourceGroupId = typeof ResourceGroupId.Type

/** No control characters: PostgreSQL takes no NUL, and no list shows the others. */
const text = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\P{Cc}*$/u), Schema.isMinLength(minimum), Schema.isMaxLength(maximum))

export const ResourceGroup = Schema.Struct({
  id: ResourceGroupId,
  name: Schema.String,
  description: Schema.String,
  /** The group that this one is nested in. */
  parentId: Schema.NullOr(ResourceGroupId),
  /** Resources that it was given itself. */
  resourceCount: Schema.Int,
  /** Groups nested in it directly. */
  groupCount: Schema.Int,
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "ResourceGroup" })
export type ResourceGroup = typeof ResourceGroup.Type

/** Replaces; what is left out is empty, and without `parentId` the group is nested in none. */
export const ResourceGroupInput = Schema.Struct({
  name: text(1, 128).check(Schema.isPattern(/^\S(.*\S)?$/u)),
  description: Schema.optionalKey(text(0, 512)),
  parentId: Schema.optionalKey(Schema.NullOr(ResourceGroupId)),
})
export type ResourceGroupInput = typeof ResourceGroupInput.Type

/** A thing by kind and id. */
export const Resource = Schema.Struct({
  kind: ResourceKind,
  id: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9._-]{1,64}$/)),
}).annotate({ identifier: "Resource" })
export type Resource = typeof Resource.Type

export const Resources = Schema.Struct({
  resources: Schema.Array(Resource).check(Schema.isMinLength(1), Schema.isMaxLength(groupLimits.request)),
})

export const GroupMember = Schema.Struct({ ...Resource.fields, addedAt: Instant }).annotate({
  identifier: "GroupMember",
})
export type GroupMember = typeof GroupMember.Type

export interface ResourceGroupFilter {
  /** Part of the name, in any case of letters. */
  readonly text?: string
  readonly parentId?: ResourceGroupId
}

/** What a role grants. */
export const RolePermissions = Schema.Struct({
  role: Schema.String,
  /** Follows the release that runs and cannot be changed. */
  builtIn: Schema.Boolean,
  /** Grants everything, also permissions of later releases. */
  everything: Schema.Boolean,
  permissions: Schema.Array(Permission),
  version: Schema.Int,
}).annotate({ identifier: "RolePermissions" })
export type RolePermissions = typeof RolePermissions.Type

export const PermissionList = Schema.Struct({
  permissions: Schema.Array(Permission).check(Schema.isMaxLength(200)),
})

/** What a role is narrowed to. */
export const RoleResourceGroups = Schema.Struct({
  role: Schema.String,
  /** The role is not narrowed: its permissions hold for everything. */
  allResources: Schema.Boolean,
  items: Schema.Array(ResourceGroup),
  /** Always null: there are at most as many groups as one page shows. */
  nextCursor: Schema.Null,
}).annotate({ identifier: "RoleResourceGroups" })
export type RoleResourceGroups = typeof RoleResourceGroups.Type

export const RoleResourceGroupsInput = Schema.Struct({
  groupIds: Schema.Array(ResourceGroupId).check(Schema.isMaxLength(groupLimits.groups)),
  /** `false` if left out: without groups the role then reaches nothing. `true` goes with no groups only. */
  allResources: Schema.optionalKey(Schema.Boolean),
})
export type RoleResourceGroupsInput = typeof RoleResourceGroupsInput.Type

/** The groups that a user's roles lead to, those nested in them included. */
export const UserResourceGroups = Schema.Struct({
  username: Schema.String,
  /** A role of the user is not narrowed. */
  allResources: Schema.Boolean,
  items: Schema.Array(Schema.Struct({ ...ResourceGroup.fields, via: Schema.Array(Schema.String) })),
  nextCursor: Schema.Null,
}).annotate({ identifier: "UserResourceGroups" })
export type UserResourceGroups = typeof UserResourceGroups.Type

/** May somebody do this, and with what? */
export const Check = Schema.Struct({ permission: Permission, resource: Schema.optionalKey(Resource) })
export type Check = typeof Check.Type

/** Of another user; that takes `permission:read`. */
const username = Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256)))
export const CheckOne = Schema.Struct({ ...Check.fields, username })
export const CheckMany = Schema.Struct({
  items: Schema.Array(Check).check(Schema.isMinLength(1), Schema.isMaxLength(groupLimits.checks)),
  username,
})
/** In the order of the questions. */
export const Decisions = Schema.Struct({ items: Schema.Array(Decision) }).annotate({ identifier: "Decisions" })

export class ResourceGroupNotFound extends Schema.TaggedError<ResourceGroupNotFound>()("ResourceGroupNotFound", {
  groupId: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no resource group ${this.groupId}`
  }
}

export class ResourceGroupNotAssigned
  extends Schema.TaggedError<ResourceGroupNotAssigned>()("ResourceGroupNotAssigned", {
    role: Schema.String,
    groupId: Schema.String,
  }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `The role ${this.role} was not given the resource group ${this.groupId}`
  }
}

export class ResourceGroupNameTaken extends Schema.TaggedError<ResourceGroupNameTaken>()("ResourceGroupNameTaken", {
  name: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `There is a resource group ${this.name} already`
  }
}

/** Groups are nested in it; 20 names at most. */
export class ResourceGroupNested extends Schema.TaggedError<ResourceGroupNested>()("ResourceGroupNested", {
  groupId: Schema.String,
  names: Schema.Array(Schema.String),
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `Groups are nested in it: ${this.names.join(", ")}; move or delete them first`
  }
}

/** One of {@link groupLimits} is reached. */
export class ResourceGroupsExhausted extends Schema.TaggedError<ResourceGroupsExhausted>()("ResourceGroupsExhausted", {
  limit: Schema.Int,
  of: Schema.Literals(["groups", "members"]),
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.of === "groups" ?
      `There are ${this.limit} resource groups already, the most there can be` :
      `All resource groups together can hold ${this.limit} resources`
  }
}
