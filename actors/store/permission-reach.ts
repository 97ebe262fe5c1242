/**
 * Reading what roles are narrowed to, whole.
 *
 * Invariants
 * 1. `version` tells by one row whether anything has changed since it was read.
 */
import type { ResourceKey } from "#schema/permission.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface GroupRow {
  readonly id: string
  readonly parentId: string | null
}

export const PermissionReachStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  version: Effect.map(
    sql<{ readonly version: bigint }>`SELECT version FROM permission_state`,
    ([row]) => row?.version ?? 0n,
  ),
  groups: sql<GroupRow>`SELECT id, parent_id AS "parentId" FROM permission_group`,
  members: sql<{ readonly groupId: string; readonly key: ResourceKey }>`
    SELECT group_id AS "groupId", kind || ':' || resource_id AS key FROM permission_member ORDER BY group_id`,
  /** Roles that are narrowed, each with the groups it was given. */
  roles: sql<{ readonly role: string; readonly groupIds: ReadonlyArray<string> }>`
    SELECT r.role, coalesce(array_agg(g.group_id::text) FILTER (WHERE g.group_id IS NOT NULL), '{}') AS "groupIds"
    FROM permission_role r LEFT JOIN permission_role_group g ON g.role = r.role
    WHERE NOT r.all_resources GROUP BY r.role`,
}))
