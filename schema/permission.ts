/**
 * Permissions: what can be allowed, the roles that come with the product, and the decision, which is a pure function.
 *
 * Invariants
 * 1. A permission is `resource:action`. The list below is complete: an endpoint cannot ask for one that is not in it.
 * 2. What no role grants is denied. `admin` grants everything, also permissions of later releases.
 * 3. A decision always tells its reason.
 */
import { Schema } from "effect"
import type { UserId } from "./common.ts"

/** Every permission, with what it allows. */
export const permissionDefinitions = {
  "camera:read": "See cameras, channels, streams and their state",
  "camera:write": "Add, change, reorder and delete cameras, channels and streams",
  "camera:live": "Watch live pictures",
  "camera:ptz": "Move cameras and manage presets and tours",
  "camera:configure": "Change settings on the camera itself",
  "recording:read": "See recordings, their state and their storage use",
  "recording:write": "Create, change, start, stop and delete recordings",
  "recording:search": "Search timelines, calendars and events",
  "recording:replay": "Watch recorded pictures",
  "recording:export": "Export clips",
  "user:read": "See users, roles and sessions",
  "user:write": "Manage users, roles and sessions",
  "permission:read": "See permissions and resource groups",
  "permission:write": "Manage permissions and resource groups",
  "audit:read": "Read and export the audit log",
  "notification:read": "See notifications and notification rules",
  "notification:write": "Manage notification rules and channels",
  "file:read": "See and download files",
  "file:write": "Upload, change and delete files",
  "analysis:read": "See analysis tasks, detections and their results",
  "analysis:write": "Manage analysis tasks, detections and actions",
  "dashboard:read": "See dashboards and layouts",
  "dashboard:write": "Manage dashboards and layouts",
  "proxy:use": "Open web pages of devices through the proxy",
  "federation:read": "See nodes, protections and reroutes",
  "federation:write": "Pair nodes, manage protections, take over and fail back",
  "license:read": "See the licence",
  "license:write": "Manage the licence",
  "system:read": "See the health, the disks, the network and the settings of the node",
  "system:write": "Change settings of the node, restart it, update it",
  "system:metrics": "Read metrics",
} as const

export type Permission = keyof typeof permissionDefinitions
export const permissionNames = Object.keys(permissionDefinitions) as ReadonlyArray<Permission>
export const Permission = Schema.Literals(permissionNames)

/** Roles that exist from the first start and cannot be deleted. `*` grants everything. */
export const builtInRoles = {
  admin: { description: "Everything", permissions: ["*"] },
  operator: {
    description: "Works with cameras and recordings, but changes neither users nor the node",
    permissions: [
      "camera:read",
      "camera:write",
      "camera:live",
      "camera:ptz",
      "recording:read",
      "recording:write",
      "recording:search",
      "recording:replay",
      "recording:export",
      "notification:read",
      "file:read",
      "file:write",
      "analysis:read",
      "analysis:write",
      "dashboard:read",
      "dashboard:write",
      "proxy:use",
      "federation:read",
      "system:read",
    ],
  },
  viewer: {
    description: "Watches live and recorded pictures",
    permissions: [
      "camera:read",
      "camera:live",
      "recording:read",
      "recording:search",
      "recording:replay",
      "notification:read",
      "dashboard:read",
    ],
  },
} as const satisfies Record<
  string,
  { readonly description: string; readonly permissions: ReadonlyArray<Permission | "*"> }
>

/** What one role of a user grants: permission names or `*`. Unknown names (of a later release) grant nothing here. */
export interface Grant {
  readonly role: string
  readonly permissions: ReadonlyArray<string>
}

/** A signed-in user: who from the access token, `grants` from the roles as this node last read them. */
export interface UserPrincipal {
  readonly kind: "user"
  readonly userId: UserId
  readonly username: string
  readonly sessionId: string
  readonly grants: ReadonlyArray<Grant>
}

export type Principal = { readonly kind: "anonymous" } | UserPrincipal

export const anonymous: Principal = { kind: "anonymous" }

/** Why a permission is held or not, in words for a person; `via` names the roles that grant it. */
export const Decision = Schema.Struct({
  allowed: Schema.Boolean,
  reason: Schema.String,
  via: Schema.Array(Schema.String),
})
export type Decision = typeof Decision.Type

/** Decides from what the principal holds. */
export const decide = (principal: Principal, permission: Permission): Decision => {
  if (principal.kind === "anonymous") return { allowed: false, reason: "Nobody is signed in", via: [] }
  const via = principal.grants
    .filter((grant) => grant.permissions.includes("*") || grant.permissions.includes(permission))
    .map((grant) => grant.role)
  return via.length === 0 ?
    { allowed: false, reason: `None of the roles grants ${permission}`, via } :
    { allowed: true, reason: `Granted by ${via.join(", ")}`, via }
}
