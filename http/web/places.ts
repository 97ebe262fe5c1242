/**
 * The pages of the navigation, and what one must hold to open each.
 *
 * Invariant
 * 1. A page stands in the navigation only for those who hold one of its permissions; the server decides all the same.
 */
import type { Permission } from "#schema/permission.ts"

export interface Place {
  readonly id:
    | "live"
    | "cameras"
    | "recordings"
    | "rules"
    | "users"
    | "security"
    | "audit"
    | "licence"
    | "nodes"
    | "reroutes"
    | "system"
  readonly name: string
  readonly group: "watch" | "manage"
  /** Any of these opens it. */
  readonly needs: ReadonlyArray<Permission>
}

export const places: ReadonlyArray<Place> = [
  { id: "live", name: "Live", group: "watch", needs: ["camera:read"] },
  { id: "cameras", name: "Cameras", group: "watch", needs: ["camera:read"] },
  { id: "recordings", name: "Recordings", group: "watch", needs: ["recording:read"] },
  { id: "rules", name: "Alert rules", group: "manage", needs: ["notification:read"] },
  { id: "users", name: "Users and access", group: "manage", needs: ["user:read", "permission:read"] },
  { id: "security", name: "Security", group: "manage", needs: ["user:read", "system:read"] },
  { id: "audit", name: "Audit log", group: "manage", needs: ["audit:read"] },
  { id: "licence", name: "Licence", group: "manage", needs: ["license:read"] },
  { id: "nodes", name: "Nodes", group: "manage", needs: ["federation:read"] },
  { id: "reroutes", name: "Failover", group: "manage", needs: ["federation:read"] },
  { id: "system", name: "System", group: "manage", needs: ["system:read"] },
]

/** The place that a page belongs to. */
const within: Readonly<Record<string, Place["id"]>> = {
  play: "recordings",
  roles: "users",
  matrix: "users",
  groups: "users",
}

export const placeOf = (page: string): string => within[page] ?? page
