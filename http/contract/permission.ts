/**
 * The permission service: what can be allowed, what roles grant, which resource groups narrow them, and whether somebody may.
 */
import { RoleBuiltIn, RoleName, RoleNotFound, UserNotFound } from "#schema/auth-users.ts"
import { Page } from "#schema/common.ts"
import {
  CheckMany,
  CheckOne,
  Decisions,
  GroupMember,
  PermissionList,
  ResourceGroup,
  ResourceGroupId,
  ResourceGroupInput,
  ResourceGroupNameTaken,
  ResourceGroupNested,
  ResourceGroupNotAssigned,
  ResourceGroupNotFound,
  ResourceGroupsExhausted,
  Resources,
  RolePermissions,
  RoleResourceGroups,
  RoleResourceGroupsInput,
  UserResourceGroups,
} from "#schema/permission-groups.ts"
import { Decision, Permission, ResourceKind } from "#schema/permission.ts"
import { Forbidden, InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/permission/api/v1"
const groupParams = { id: ResourceGroupId }
const roleParams = { name: RoleName }

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

export const PermissionDefinition = Schema.Struct({
  permission: Permission,
  resource: Schema.String,
  action: Schema.String,
  description: Schema.String,
  /** Asked for from a listed management address only, where such addresses are listed. */
  administrative: Schema.Boolean,
  /** What resource groups narrow it to; null: it is never narrowed. */
  scope: Schema.NullOr(Schema.Literals(["camera", "layout", "file"])),
}).annotate({ identifier: "PermissionDefinition" })

const decisions = [
  HttpApiEndpoint.get("list", `${base}/permissions`, { success: Page(PermissionDefinition) })
    .annotateMerge(access("permission:read"))
    .annotateMerge(doc("List all permission definitions", "Always one page.")),
  HttpApiEndpoint.post("check", `${base}/permissions/check`, {
    payload: Schema.Union([CheckOne, CheckMany]),
    success: [Decision, Decisions],
    error: problems(UserNotFound, Forbidden),
  }).annotateMerge(access("signedIn")).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Check a permission",
      "Whether the caller holds it, why, and by which roles; with `resource` for one thing, without it whether for any. With " +
        "`items` many questions at once, answered in their order. `username` asks about somebody else, which takes " +
        "`permission:read`. Of a thing that the caller may not see the answer is that of one that does not exist.",
    ),
  ),
] as const

const groups = [
  HttpApiEndpoint.get("resourceGroups", `${base}/resource-groups`, {
    query: {
      ...pageQuery,
      text: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^\P{Cc}{1,200}$/u))),
      parentId: Schema.optionalKey(ResourceGroupId),
    },
    success: Page(ResourceGroup),
    error: problems(InvalidCursor),
  }).annotateMerge(access("permission:read")).annotateMerge(
    doc(
      "List resource groups",
      "By name. `text`: a part of the name, in any case of letters. `parentId`: those nested in it directly.",
    ),
  ),
  HttpApiEndpoint.post("createResourceGroup", `${base}/resource-groups`, {
    headers: idempotencyKey,
    payload: ResourceGroupInput,
    success: created(ResourceGroup),
    error: problems(InvalidInput, ResourceGroupNameTaken, ResourceGroupsExhausted),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Create a resource group",
      "With `parentId` nested in another, which then holds what this one holds. Eight levels, 1,000 groups.",
    ),
  ),
  HttpApiEndpoint.get("resourceGroup", `${base}/resource-groups/:id`, {
    params: groupParams,
    success: versioned(ResourceGroup),
    error: problems(ResourceGroupNotFound),
  }).annotateMerge(access("permission:read")).annotateMerge(doc("Get a resource group")),
  HttpApiEndpoint.put("updateResourceGroup", `${base}/resource-groups/:id`, {
    params: groupParams,
    headers: ifMatch,
    payload: ResourceGroupInput,
    success: versioned(ResourceGroup),
    error: problems(ResourceGroupNotFound, InvalidInput, ResourceGroupNameTaken, VersionConflict),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Update a resource group",
      "Replaces; without `parentId` it is nested in none. It cannot be nested in itself (422).",
    ),
  ),
  HttpApiEndpoint.delete("deleteResourceGroup", `${base}/resource-groups/:id`, {
    params: groupParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(ResourceGroupNotFound, ResourceGroupNested, VersionConflict),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Delete a resource group",
      "409 while groups are nested in it. Roles that were given it stay narrowed, if need be to nothing.",
    ),
  ),
] as const

const members = [
  HttpApiEndpoint.get("resources", `${base}/resource-groups/:id/resources`, {
    params: groupParams,
    query: { ...pageQuery, kind: Schema.optionalKey(ResourceKind) },
    success: Page(GroupMember),
    error: problems(ResourceGroupNotFound, InvalidCursor),
  }).annotateMerge(access("permission:read")).annotateMerge(
    doc("List resources of a group", "Those that it was given itself, by kind and id."),
  ),
  HttpApiEndpoint.post("addResources", `${base}/resource-groups/:id/resources`, {
    params: groupParams,
    headers: { ...ifMatch, ...idempotencyKey },
    payload: Resources,
    success: versioned(ResourceGroup),
    error: problems(ResourceGroupNotFound, InvalidInput, ResourceGroupsExhausted, VersionConflict),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Add resources to a group",
      "1,000 at once. A camera stands for its channels and their recordings, a channel for its recordings. What does not exist " +
        "is refused (422), and nothing is added then; what the group holds already stays.",
    ),
  ),
  HttpApiEndpoint.delete("removeResources", `${base}/resource-groups/:id/resources`, {
    params: groupParams,
    headers: ifMatch,
    payload: Resources,
    success: versioned(ResourceGroup),
    error: problems(ResourceGroupNotFound, VersionConflict),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc("Remove resources from a group", "The body names them. What the group does not hold is passed over."),
  ),
] as const

const changes = {
  params: roleParams,
  headers: ifMatch,
  payload: PermissionList,
  success: versioned(RolePermissions),
  error: problems(RoleNotFound, RoleBuiltIn, VersionConflict),
} as const
const giving =
  "Nobody gives what they do not hold themselves (403). Built-in roles cannot be changed (409): make one of your own."

const rolePermissions = [
  HttpApiEndpoint.get("rolePermissions", `${base}/roles/:name/permissions`, {
    params: roleParams,
    success: versioned(RolePermissions),
    error: problems(RoleNotFound),
  }).annotateMerge(access("permission:read")).annotateMerge(doc("Get permissions of a role")),
  HttpApiEndpoint.post("addPermissions", `${base}/roles/:name/permissions`, changes)
    .annotateMerge(access("permission:write")).annotateMerge(doc("Add permissions to a role", giving)),
  HttpApiEndpoint.put("assignPermissions", `${base}/roles/:name/permissions`, changes)
    .annotateMerge(access("permission:write")).annotateMerge(
      doc("Assign permissions to a role", `The role then grants these and no others. ${giving}`),
    ),
  HttpApiEndpoint.delete("removePermissions", `${base}/roles/:name/permissions`, changes)
    .annotateMerge(access("permission:write")).annotateMerge(
      doc("Remove permissions from a role", "The body names them. What the role does not grant is passed over."),
    ),
] as const

const assignments = [
  HttpApiEndpoint.get("roleResourceGroups", `${base}/roles/:name/resource-groups`, {
    params: roleParams,
    success: RoleResourceGroups,
    error: problems(RoleNotFound),
  }).annotateMerge(access("permission:read")).annotateMerge(
    doc("List resource groups of a role", "Those that narrow it. `allResources`: the role is not narrowed."),
  ),
  HttpApiEndpoint.put("assignResourceGroups", `${base}/roles/:name/resource-groups`, {
    params: roleParams,
    payload: RoleResourceGroupsInput,
    success: RoleResourceGroups,
    error: problems(RoleNotFound, RoleBuiltIn, InvalidInput),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Assign resource groups to a role",
      "The role is then narrowed to these, to nothing without any; `allResources: true` ends the narrowing, and is the only thing " +
        `that does. ${giving}`,
    ),
  ),
  HttpApiEndpoint.post("addResourceGroup", `${base}/roles/:name/resource-groups/:groupId`, {
    params: { ...roleParams, groupId: ResourceGroupId },
    success: RoleResourceGroups,
    error: problems(RoleNotFound, RoleBuiltIn, ResourceGroupNotFound),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc("Assign one resource group to a role", `Narrows a role that was not narrowed before. ${giving}`),
  ),
  HttpApiEndpoint.delete("removeResourceGroup", `${base}/roles/:name/resource-groups/:groupId`, {
    params: { ...roleParams, groupId: ResourceGroupId },
    success: HttpApiSchema.NoContent,
    error: problems(RoleNotFound, RoleBuiltIn, ResourceGroupNotAssigned),
  }).annotateMerge(access("permission:write")).annotateMerge(
    doc(
      "Remove a resource group assignment from a role",
      "The role stays narrowed: without its last group it reaches nothing.",
    ),
  ),
  HttpApiEndpoint.get("userResourceGroups", `${base}/users/:username/resource-groups`, {
    params: { username: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256)) },
    success: UserResourceGroups,
    error: problems(UserNotFound, Forbidden),
  }).annotateMerge(access("signedIn")).annotateMerge(
    doc(
      "List resource groups accessible to a user",
      "Those that the user's roles were given and those nested in them, with the roles that lead there. About somebody else this " +
        "takes `permission:read`. `allResources`: a role of the user is not narrowed.",
    ),
  ),
] as const

export class PermissionGroup extends HttpApiGroup.make("permission")
  .add(...decisions)
  .add(...groups)
  .add(...members)
  .add(...rolePermissions)
  .add(...assignments)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Permission", description: "What can be allowed, and to whom." }))
{}
