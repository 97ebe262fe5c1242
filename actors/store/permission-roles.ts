/**
 * SQL of what narrows roles: which groups they were given, and by which of them somebody reaches something.
 *
 * Invariants
 * 1. A role without a row is not narrowed. Giving it a group narrows it; only `assign` with `allResources` ends that.
 */
import type { ResourceGroup, ResourceGroupId } from "#schema/permission-groups.ts"
import type { ResourceKey } from "#schema/permission.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { groupOf } from "./permission.ts"

type GroupRow = Parameters<typeof groupOf>[0]

const columns = `
  g.id, g.name, g.description, g.parent_id AS "parentId", g.created_at AS "createdAt", g.updated_at AS "updatedAt", g.version,
  (SELECT count(*)::int FROM permission_member m WHERE m.group_id = g.id) AS "resourceCount",
  (SELECT count(*)::int FROM permission_group n WHERE n.parent_id = g.id) AS "groupCount"`

const reading = (sql: SqlClient.SqlClient) => ({
  allResources: (role: string) =>
    Effect.map(
      sql<{ readonly all: boolean }>`SELECT all_resources AS "all" FROM permission_role WHERE role = ${role}`,
      ([row]) => row?.all ?? true,
    ),
  groups: (role: string) =>
    Effect.map(
      sql<GroupRow>`
        SELECT ${sql.literal(columns)} FROM permission_group g JOIN permission_role_group r ON r.group_id = g.id
        WHERE r.role = ${role} ORDER BY g.name_key`,
      (rows): ReadonlyArray<ResourceGroup> => rows.map(groupOf),
    ),
  /** The groups that these roles lead to with those nested in them, and by which roles. */
  accessible: (roles: ReadonlyArray<string>) =>
    Effect.map(
      sql<GroupRow & { readonly via: ReadonlyArray<string> }>`
        WITH RECURSIVE own AS (
          SELECT r.role, r.group_id AS id FROM permission_role_group r JOIN permission_role p ON p.role = r.role
          WHERE NOT p.all_resources AND r.role = ANY (${roles as Array<string>}::text[])
          UNION
          SELECT own.role, n.id FROM own JOIN permission_group n ON n.parent_id = own.id
        )
        SELECT ${sql.literal(columns)}, v.via
        FROM permission_group g JOIN (SELECT id, array_agg(DISTINCT role ORDER BY role) AS via FROM own GROUP BY id) v
          ON v.id = g.id
        ORDER BY g.name_key`,
      (rows) => rows.map(({ via, ...row }) => ({ ...groupOf(row), via })),
    ),
  /** Names of the groups, given to one of these roles or nested in one that was, that hold one of these. */
  holding: (keys: ReadonlyArray<ResourceKey>, roles: ReadonlyArray<string>) =>
    sql<{ readonly key: ResourceKey; readonly role: string; readonly name: string }>`
      WITH RECURSIVE up AS (
        SELECT m.kind || ':' || m.resource_id AS key, g.id, g.parent_id, g.name
        FROM permission_member m JOIN permission_group g ON g.id = m.group_id
        WHERE (m.kind, m.resource_id) IN (
          SELECT split_part(k, ':', 1), split_part(k, ':', 2) FROM unnest(${keys as Array<string>}::text[]) AS k
        )
        UNION
        SELECT up.key, p.id, p.parent_id, up.name FROM up JOIN permission_group p ON p.id = up.parent_id
      )
      SELECT DISTINCT up.key, r.role, up.name FROM up JOIN permission_role_group r ON r.group_id = up.id
      WHERE r.role = ANY (${roles as Array<string>}::text[]) ORDER BY up.name`,
  /** What a role is narrowed to, as the transaction at hand sees it. */
  reaches: (role: string) =>
    Effect.map(
      sql<{ readonly all: boolean; readonly keys: ReadonlyArray<ResourceKey> }>`
        WITH RECURSIVE own AS (
          SELECT group_id AS id FROM permission_role_group WHERE role = ${role}
          UNION
          SELECT n.id FROM own JOIN permission_group n ON n.parent_id = own.id
        )
        SELECT coalesce((SELECT all_resources FROM permission_role WHERE role = ${role}), true) AS "all", ARRAY(
          SELECT DISTINCT m.kind || ':' || m.resource_id FROM permission_member m JOIN own ON own.id = m.group_id
        ) AS keys`,
      ([row]): "all" | ReadonlySet<ResourceKey> => row === undefined || row.all ? "all" : new Set(row.keys),
    ),
  /** Roles that reach what this group holds: they were given it or one that it is nested in. */
  leading: (groupId: ResourceGroupId) =>
    Effect.map(
      sql<{ readonly role: string }>`
        WITH RECURSIVE up AS (
          SELECT id, parent_id FROM permission_group WHERE id = ${groupId}
          UNION
          SELECT p.id, p.parent_id FROM up JOIN permission_group p ON p.id = up.parent_id
        )
        SELECT DISTINCT r.role FROM up JOIN permission_role_group r ON r.group_id = up.id
          JOIN permission_role p ON p.role = r.role
        WHERE NOT p.all_resources`,
      (rows) => rows.map((row) => row.role),
    ),
  /** Everything that this group and those nested in it hold. */
  held: (groupId: ResourceGroupId) =>
    Effect.map(
      sql<{ readonly key: ResourceKey }>`
        WITH RECURSIVE own AS (
          SELECT id FROM permission_group WHERE id = ${groupId}
          UNION
          SELECT n.id FROM own JOIN permission_group n ON n.parent_id = own.id
        )
        SELECT DISTINCT m.kind || ':' || m.resource_id AS key FROM permission_member m JOIN own ON own.id = m.group_id`,
      (rows): ReadonlySet<ResourceKey> => new Set(rows.map((row) => row.key)),
    ),
  /** Of these groups, those there are. */
  existing: (ids: ReadonlyArray<ResourceGroupId>) =>
    Effect.map(
      sql<{ readonly id: ResourceGroupId }>`
        SELECT id FROM permission_group WHERE id = ANY (${[...ids]}::uuid[])`,
      (rows): ReadonlySet<string> => new Set(rows.map((row) => row.id)),
    ),
})

const writing = (sql: SqlClient.SqlClient) => {
  /** Locks the row of the role against others who change the same. */
  const put = (role: string, allResources: boolean) =>
    sql`
      INSERT INTO permission_role (role, all_resources, version) VALUES (${role}, ${allResources}, 1)
      ON CONFLICT (role) DO UPDATE SET all_resources = excluded.all_resources, version = permission_role.version + 1`
  return {
    /** Fails with a foreign key violation where the role or a group has gone. */
    assign: (role: string, allResources: boolean, groupIds: ReadonlyArray<ResourceGroupId>) =>
      sql.withTransaction(Effect.all([
        put(role, allResources),
        sql`DELETE FROM permission_role_group WHERE role = ${role}`,
        sql`
          INSERT INTO permission_role_group (role, group_id)
          SELECT ${role}, id FROM unnest(${[...groupIds]}::uuid[]) AS id ON CONFLICT DO NOTHING`,
      ], { discard: true })),
    add: (role: string, groupId: ResourceGroupId) =>
      sql.withTransaction(Effect.all([
        put(role, false),
        sql`INSERT INTO permission_role_group (role, group_id) VALUES (${role}, ${groupId}) ON CONFLICT DO NOTHING`,
      ], { discard: true })),
    /** Whether the role had it. */
    take: (role: string, groupId: ResourceGroupId) =>
      Effect.map(
        sql`DELETE FROM permission_role_group WHERE role = ${role} AND group_id = ${groupId} RETURNING 1`,
        (rows) => rows.length === 1,
      ),
    inTransaction: sql.withTransaction,
  }
}

export const PermissionRoleStore = Effect.map(SqlClient.SqlClient, (sql) => ({ ...reading(sql), ...writing(sql) }))
export type PermissionRoleStore = Effect.Success<typeof PermissionRoleStore>
