/**
 * SQL of resource groups and what they hold.
 *
 * Invariants
 * 1. Whatever may change the shape of the trees or the counts takes one lock first: two changes that are each allowed cannot
 *    make a circle, or more than the limits, together.
 * 2. A name is taken whatever its case of letters and Unicode form.
 */
import type { EpochMs } from "#schema/common.ts"
import {
  groupLimits,
  type GroupMember,
  type Resource,
  type ResourceGroup,
  type ResourceGroupFilter,
  type ResourceGroupId,
  type ResourceGroupInput,
} from "#schema/permission-groups.ts"
import type { ResourceKind } from "#schema/permission.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

interface GroupRow {
  readonly id: ResourceGroupId
  readonly name: string
  readonly description: string
  readonly parentId: ResourceGroupId | null
  readonly resourceCount: number
  readonly groupCount: number
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly version: number
}

export const groupOf = (row: GroupRow): ResourceGroup => ({
  ...row,
  createdAt: row.createdAt.getTime(),
  updatedAt: row.updatedAt.getTime(),
})

const nameKey = (name: string) => name.normalize("NFKC").toLowerCase()

const columns = (sql: SqlClient.SqlClient) =>
  sql.literal(`
    g.id, g.name, g.description, g.parent_id AS "parentId", g.created_at AS "createdAt", g.updated_at AS "updatedAt", g.version,
    (SELECT count(*)::int FROM permission_member m WHERE m.group_id = g.id) AS "resourceCount",
    (SELECT count(*)::int FROM permission_group n WHERE n.parent_id = g.id) AS "groupCount"`)

/** Where a list goes on: behind this name and id. */
export interface GroupPosition {
  readonly name: string
  readonly id: string
}

const reading = (sql: SqlClient.SqlClient) => ({
  list: (filter: ResourceGroupFilter, limit: number, after: GroupPosition | null) =>
    Effect.map(
      sql<GroupRow>`
        SELECT ${columns(sql)} FROM permission_group g WHERE ${
        sql.and([
          sql`TRUE`,
          ...(filter.text === undefined ? [] : [sql`strpos(g.name_key, ${nameKey(filter.text)}) > 0`]),
          ...(filter.parentId === undefined ? [] : [sql`g.parent_id = ${filter.parentId}`]),
          ...(after === null ? [] : [sql`(g.name_key, g.id) > (${nameKey(after.name)}, ${after.id}::text::uuid)`]),
        ])
      } ORDER BY g.name_key, g.id LIMIT ${limit}`,
      (rows) => rows.map(groupOf),
    ),
  get: (id: ResourceGroupId) =>
    Effect.map(
      sql<GroupRow>`SELECT ${columns(sql)} FROM permission_group g WHERE g.id = ${id}`,
      ([row]) => row === undefined ? null : groupOf(row),
    ),
  count: Effect.map(
    sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM permission_group`,
    ([row]) => row?.count ?? 0,
  ),
  /** The group and those it is nested in, up to the root; the nearest first. */
  ancestors: (id: ResourceGroupId) =>
    Effect.map(
      sql<{ readonly id: ResourceGroupId }>`
        WITH RECURSIVE up AS (
          SELECT id, parent_id, 1 AS level FROM permission_group WHERE id = ${id}
          UNION ALL
          SELECT p.id, p.parent_id, up.level + 1 FROM permission_group p JOIN up ON p.id = up.parent_id
          WHERE up.level <= ${groupLimits.depth}
        ) SELECT id FROM up ORDER BY level`,
      (rows) => rows.map((row) => row.id),
    ),
  /** Levels of the tree below and with this group; 1: nothing is nested in it. */
  height: (id: ResourceGroupId) =>
    Effect.map(
      sql<{ readonly height: number }>`
        WITH RECURSIVE down AS (
          SELECT id, 1 AS level FROM permission_group WHERE id = ${id}
          UNION ALL
          SELECT n.id, down.level + 1 FROM permission_group n JOIN down ON n.parent_id = down.id
          WHERE down.level <= ${groupLimits.depth}
        ) SELECT coalesce(max(level), 0)::int AS height FROM down`,
      ([row]) => row?.height ?? 0,
    ),
  nestedNames: (id: ResourceGroupId) =>
    Effect.map(
      sql<
        { readonly name: string }
      >`SELECT name FROM permission_group WHERE parent_id = ${id} ORDER BY name_key LIMIT 20`,
      (rows) => rows.map((row) => row.name),
    ),
})

const writing = (sql: SqlClient.SqlClient) => ({
  /** Runs in a transaction that nobody who changes groups shares. */
  alone: <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
    sql.withTransaction(Effect.andThen(sql`LOCK TABLE permission_group IN SHARE ROW EXCLUSIVE MODE`, work)),
  /** Fails with a unique violation of `permission_group_name`. */
  insert: (id: string, input: ResourceGroupInput, nowMs: EpochMs) => {
    const now = new Date(nowMs)
    return sql`
      INSERT INTO permission_group (id, parent_id, name, name_key, description, created_at, updated_at, version)
      VALUES (${id}, ${input.parentId ?? null}, ${input.name}, ${nameKey(input.name)}, ${
      input.description ?? ""
    }, ${now},
        ${now}, 1)`
  },
  update: (id: ResourceGroupId, input: ResourceGroupInput, nowMs: EpochMs) =>
    sql`
      UPDATE permission_group SET name = ${input.name}, name_key = ${nameKey(input.name)},
        description = ${input.description ?? ""}, parent_id = ${input.parentId ?? null}, updated_at = ${new Date(
      nowMs,
    )},
        version = version + 1
      WHERE id = ${id}`,
  touch: (id: ResourceGroupId, nowMs: EpochMs) =>
    sql`UPDATE permission_group SET updated_at = ${new Date(nowMs)}, version = version + 1 WHERE id = ${id}`,
  remove: (id: ResourceGroupId) => sql`DELETE FROM permission_group WHERE id = ${id}`,
})

const members = (sql: SqlClient.SqlClient) => {
  const told = (resources: ReadonlyArray<Resource>) =>
    sql`jsonb_to_recordset(${JSON.stringify(resources)}::text::jsonb) AS told (kind text, id text)`
  return {
    members: (id: ResourceGroupId, kind: ResourceKind | null, limit: number, after: Resource | null) =>
      Effect.map(
        sql<Resource & { readonly addedAt: Date }>`
          SELECT kind, resource_id AS id, added_at AS "addedAt" FROM permission_member WHERE ${
          sql.and([
            sql`group_id = ${id}`,
            ...(kind === null ? [] : [sql`kind = ${kind}`]),
            ...(after === null ? [] : [sql`(kind, resource_id) > (${after.kind}, ${after.id})`]),
          ])
        } ORDER BY kind, resource_id LIMIT ${limit}`,
        (rows): ReadonlyArray<GroupMember> => rows.map((row) => ({ ...row, addedAt: row.addedAt.getTime() })),
      ),
    memberCount: Effect.map(
      sql<{ readonly count: number }>`SELECT count(*)::int AS count FROM permission_member`,
      ([row]) => row?.count ?? 0,
    ),
    /** Answers how many were not there before. */
    addMembers: (id: ResourceGroupId, resources: ReadonlyArray<Resource>, nowMs: EpochMs) =>
      Effect.map(
        sql`
          INSERT INTO permission_member (group_id, kind, resource_id, added_at)
          SELECT DISTINCT ${id}::text::uuid, told.kind, told.id, ${new Date(nowMs)}::timestamptz FROM ${told(resources)}
          ON CONFLICT DO NOTHING RETURNING 1`,
        (rows) => rows.length,
      ),
    /** Answers how many were there. */
    removeMembers: (id: ResourceGroupId, resources: ReadonlyArray<Resource>) =>
      Effect.map(
        sql`
          DELETE FROM permission_member m USING ${told(resources)}
          WHERE m.group_id = ${id} AND m.kind = told.kind AND m.resource_id = told.id RETURNING 1`,
        (rows) => rows.length,
      ),
  }
}

export const PermissionStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...reading(sql),
  ...writing(sql),
  ...members(sql),
}))
export type PermissionStore = Effect.Success<typeof PermissionStore>
