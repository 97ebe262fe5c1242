/**
 * Permissions: what can be allowed, the roles that come with the product, and the decision, which is a pure function.
 *
 * Invariants
 * 1. A permission is `resource:action`. The list below is complete, and each of it is asked for by an endpoint.
 * 2. What no role grants is denied. `admin` grants everything, also permissions of later releases.
 * 3. A decision always tells its reason.
 * 4. Resource groups only ever narrow: a role that was narrowed and has no group left reaches nothing.
 */
import { Schema } from "effect"
import type { NodeId, UserId } from "./common.ts"

/** What resource groups hold. A channel lies in its camera, a recording in its channel. */
export const resourceKinds = ["camera", "channel", "recording", "layout", "file"] as const
export const ResourceKind = Schema.Literals(resourceKinds)
export type ResourceKind = typeof ResourceKind.Type

/** A thing that may be in a resource group. */
export interface ResourceRef {
  readonly kind: ResourceKind
  readonly id: string
}

/** `camera:<id>`: how sets of resources name one. */
export type ResourceKey = `${ResourceKind}:${string}`
export const resourceKey = ({ id, kind }: ResourceRef): ResourceKey => `${kind}:${id}`

/** What resource groups narrow a permission to: cameras with their channels and recordings, layouts, files; `null`: nothing. */
export type PermissionScope = "camera" | "layout" | "file" | null

interface Definition<Scope extends PermissionScope> {
  readonly description: string
  /** Manages the product itself: asked for from a listed management address only, where such addresses are listed. */
  readonly administrative: boolean
  readonly scope: Scope
}
const general = (description: string): Definition<null> => ({ description, administrative: false, scope: null })
const administrative = (description: string): Definition<null> => ({ description, administrative: true, scope: null })
const of = <Scope extends "camera" | "layout" | "file">(scope: Scope, description: string): Definition<Scope> => ({
  description,
  administrative: false,
  scope,
})

/** Every permission, with what it allows. */
export const permissionDefinitions = {
  "camera:read": of("camera", "See cameras, channels, streams and their state"),
  "camera:write": of("camera", "Add, change, reorder and delete cameras, channels and streams"),
  "camera:ptz": of("camera", "Move cameras, and set their presets and home positions"),
  "camera:live": of("camera", "Watch live pictures"),
  "camera:talk": of("camera", "Talk to cameras by their loudspeakers"),
  "camera:backup": of("camera", "Export cameras with their passwords, sealed under a passphrase, and import them"),
  "recording:read": of("camera", "See recordings, their state and their storage use"),
  "recording:write": of("camera", "Create, change, start, stop and delete recordings"),
  "recording:search": of("camera", "Search timelines, calendars and events"),
  "recording:replay": of("camera", "Watch recorded pictures"),
  "user:read": general("See users, roles and sessions"),
  "user:write": administrative("Manage users, roles and sessions"),
  "permission:read": general("See permissions and resource groups"),
  "permission:write": administrative("Manage permissions and resource groups"),
  "audit:read": general("Read and export the audit log"),
  "audit:write": administrative("Change what is audited, and for how long it is kept"),
  "notification:read": general("See notifications and notification rules"),
  "notification:write": general("Manage notification rules and channels"),
  "license:read": general("See the licence"),
  "license:write": administrative("Manage the licence"),
  "federation:read": general("See other nodes, who stands in for whom, and how footage comes home"),
  "federation:write": administrative("Pair nodes, let them stand in for each other, and steer footage on its way home"),
  "system:read": general("See the health, the disks, the network and the settings of the node"),
  "system:write": administrative("Change settings of the node, restart it, update it"),
  "system:metrics": general("Read metrics"),
} as const

export type Permission = keyof typeof permissionDefinitions
export const permissionNames = Object.keys(permissionDefinitions) as ReadonlyArray<Permission>
export const Permission = Schema.Literals(permissionNames)
const isPermission = Schema.is(Permission)

/** Permissions that resource groups narrow. */
export type ScopedPermission = {
  readonly [P in Permission]: (typeof permissionDefinitions)[P]["scope"] extends null ? never : P
}[Permission]

/** Roles that exist from the first start and cannot be deleted. `*` grants everything. */
export const builtInRoles = {
  admin: { description: "Everything", permissions: ["*"], ptzPriority: 100 },
  operator: {
    description: "Works with cameras and recordings, but changes neither users nor the node",
    permissions: [
      "camera:read",
      "camera:write",
      "camera:ptz",
      "camera:live",
      "camera:talk",
      "recording:read",
      "recording:write",
      "recording:search",
      "recording:replay",
      "notification:read",
      "system:read",
    ],
    ptzPriority: 50,
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
    ],
    ptzPriority: 0,
  },
} as const satisfies Record<
  string,
  { readonly description: string; readonly permissions: ReadonlyArray<Permission | "*">; readonly ptzPriority: number }
>

/** Some resources: to ask for one, and to go through all. */
export interface ResourceSet extends Iterable<ResourceKey> {
  readonly has: (key: ResourceKey) => boolean
}

/** What one role of a user grants. */
export interface Grant {
  readonly role: string
  /** Permission names or `*`. Unknown names (of another release) grant nothing here. */
  readonly permissions: ReadonlyArray<string>
  /** What the role is narrowed to: the members of its resource groups and of all groups nested in them. */
  readonly resources: "all" | ResourceSet
  /** Who moves a camera when two want to; {@link defaultPtzPriority} if left out. */
  readonly ptzPriority?: number
}

/** Of a role that was given none. */
export const defaultPtzPriority = 50
/** The least and the greatest that a role may have. */
export const ptzPriorities = { least: 0, most: 100 } as const

/** That of the role which has the most; the least without any role. */
export const ptzPriorityOf = (grants: ReadonlyArray<Grant>): number =>
  Math.max(ptzPriorities.least, ...grants.map(({ ptzPriority = defaultPtzPriority }) => ptzPriority))

/** A signed-in user: who from the access token, `grants` from the roles as this node last read them. */
export interface UserPrincipal {
  readonly kind: "user"
  readonly userId: UserId
  readonly username: string
  readonly sessionId: string
  readonly grants: ReadonlyArray<Grant>
  /** Signed in to change the password and for nothing else; `grants` is empty then. */
  readonly mustChangePassword?: boolean
}

/** Another node: who from the key that it proved to hold, `grants` from what was given to it here. */
export interface PeerPrincipal {
  readonly kind: "peer"
  readonly nodeId: NodeId
  readonly name: string
  /** Of this cluster, or paired with a database of its own. */
  readonly relation: "member" | "peer"
  readonly grants: ReadonlyArray<Grant>
  /** Name of the user over there who asked for it: for the audit log, never for a decision. */
  readonly onBehalfOf: string | null
}

export type Principal = { readonly kind: "anonymous" } | UserPrincipal | PeerPrincipal

export const anonymous: Principal = { kind: "anonymous" }

/** Why a permission is held or not, in words for a person; `via` names the roles that grant it. */
export const Decision = Schema.Struct({
  allowed: Schema.Boolean,
  reason: Schema.String,
  via: Schema.Array(Schema.String),
}).annotate({ identifier: "Decision" })
export type Decision = typeof Decision.Type

const grants = (grant: Grant, permission: Permission) =>
  grant.permissions.includes("*") || grant.permissions.includes(permission)

const contains = ({ resources }: Grant, keys: ReadonlyArray<ResourceKey>) =>
  resources === "all" || keys.some((key) => resources.has(key))

const rolesOf = (held: ReadonlyArray<Grant>) => held.map((grant) => grant.role)

/**
 * Decides from what the principal holds, in memory.
 *
 * `resource` is the thing and what contains it, in that order (a recording, its channel, its camera): a group with any of
 * them covers the thing. An empty one is a thing that no group can contain. Without `resource` the question is whether any
 * role grants the permission at all, whatever it is narrowed to. Permissions without a scope are never narrowed.
 */
export const decide = (
  principal: Principal,
  permission: Permission,
  resource?: ReadonlyArray<ResourceRef>,
): Decision => {
  if (principal.kind === "anonymous") return { allowed: false, reason: "Nobody is signed in", via: [] }
  const held = principal.grants.filter((grant) => grants(grant, permission))
  if (held.length === 0) return { allowed: false, reason: `None of the roles grants ${permission}`, via: [] }
  if (resource === undefined || permissionDefinitions[permission].scope === null) {
    return { allowed: true, reason: `Granted by ${rolesOf(held).join(", ")}`, via: rolesOf(held) }
  }
  const keys = resource.map(resourceKey)
  const via = rolesOf(held.filter((grant) => contains(grant, keys)))
  if (via.length > 0) return { allowed: true, reason: `Granted by ${via.join(", ")}`, via }
  const thing = resource[0]?.kind ?? "thing"
  return {
    allowed: false,
    reason: `${rolesOf(held).join(", ")} ${
      held.length === 1 ? "grants" : "grant"
    } ${permission}, but no resource group of ${held.length === 1 ? "it" : "them"} contains this ${thing}`,
    via: [],
  }
}

/** Holds it for everything: some role grants it that is not narrowed, or it cannot be narrowed. */
export const unnarrowed = (principal: Principal, permission: Permission): boolean =>
  principal.kind !== "anonymous" &&
  principal.grants.some((grant) =>
    grants(grant, permission) && (grant.resources === "all" || permissionDefinitions[permission].scope === null)
  )

const scopes: Readonly<Record<ResourceKind, Exclude<PermissionScope, null>>> = {
  camera: "camera",
  channel: "camera",
  recording: "camera",
  layout: "layout",
  file: "file",
}

/** Whether the principal may know that the thing exists: some role grants something of its kind for it. Takes what {@link decide} takes. */
export const sees = (principal: Principal, resource: ReadonlyArray<ResourceRef>): boolean => {
  const [thing] = resource
  if (thing === undefined || principal.kind === "anonymous") return false
  const keys = resource.map(resourceKey)
  // Whoever may only look at a camera is not told what is recorded of it.
  const names = permissionNames.filter((name) =>
    permissionDefinitions[name].scope === scopes[thing.kind] &&
    (thing.kind !== "recording" || name.startsWith("recording:"))
  )
  return principal.grants.some((grant) => contains(grant, keys) && names.some((name) => grants(grant, name)))
}

/** Everything that a permission reaches, by kind of resource: what lists are filtered by. */
export type Reach = "all" | { readonly [Kind in ResourceKind]: ReadonlySet<string> }

const nowhere = () => ({
  camera: new Set<string>(),
  channel: new Set<string>(),
  recording: new Set<string>(),
  layout: new Set<string>(),
  file: new Set<string>(),
})

/** Of the grants of a principal, which stay the same objects until what they say changes. */
const reached = new WeakMap<ReadonlyArray<Grant>, Map<Permission, Reach>>()

const reachOf = (held: ReadonlyArray<Grant>): Reach => {
  const union = nowhere()
  for (const { resources } of held) {
    if (resources === "all") return "all"
    for (const key of resources) {
      const colon = key.indexOf(":")
      union[key.slice(0, colon) as ResourceKind].add(key.slice(colon + 1))
    }
  }
  return union
}

/**
 * What the principal's roles let the permission reach: a thing is reached if it, or what contains it, is in the answer. Agrees
 * with {@link decide}: `decide(p, x, [ref]).allowed` exactly where the answer is `all` or names `ref`.
 */
export const reach = (principal: Principal, permission: Permission): Reach => {
  if (principal.kind === "anonymous") return nowhere()
  const known = reached.get(principal.grants) ?? new Map<Permission, Reach>()
  const before = known.get(permission)
  if (before !== undefined) return before
  const held = principal.grants.filter((grant) => grants(grant, permission))
  const unscoped = permissionDefinitions[permission].scope === null
  const made = unscoped && held.length > 0 ? "all" : reachOf(held)
  reached.set(principal.grants, known.set(permission, made))
  return made
}

/**
 * What a grant gives that the principal does not hold himself, as the name of a permission; null: nothing. Whoever gives away
 * may give this only where it is null.
 */
export const beyond = (principal: Principal, grant: Grant): string | null => {
  const own = principal.kind === "user" ? principal.grants : []
  const whole = own.some((held) => held.resources === "all" && held.permissions.includes("*"))
  if (whole) return null
  const within = (permission: Permission) => {
    const held = reach(principal, permission)
    if (held === "all") return true
    if (permissionDefinitions[permission].scope === null || grant.resources === "all") return false
    return [...grant.resources].every((key) =>
      own.some((one) => grants(one, permission) && one.resources !== "all" && one.resources.has(key))
    )
  }
  return grant.permissions.find((name) => name === "*" || (isPermission(name) && !within(name))) ?? null
}
