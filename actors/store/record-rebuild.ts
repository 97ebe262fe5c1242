/**
 * The store of rebuilds of the index.
 *
 * Invariants
 * 1. Of each node the newest {@link kept} are kept.
 */
import type { NodeId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import type { IndexRebuild } from "#schema/record-index.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

const kept = 50

interface Row {
  readonly id: string
  readonly node_id: NodeId
  readonly state: IndexRebuild["state"]
  readonly progress: number
  readonly error: string | null
  readonly report: IndexRebuild["report"]
  readonly started_at: Date
  readonly ended_at: Date | null
}

const rebuildOf = (row: Row): IndexRebuild => ({
  id: row.id,
  nodeId: row.node_id,
  state: row.state,
  progress: row.progress,
  error: row.error,
  report: row.report,
  startedAt: row.started_at.getTime(),
  endedAt: row.ended_at?.getTime() ?? null,
})

export class RecordRebuildStore extends Context.Service<RecordRebuildStore, {
  readonly put: (rebuild: IndexRebuild) => Effect.Effect<void, DependencyUnavailable>
  readonly get: (id: string) => Effect.Effect<IndexRebuild | null, DependencyUnavailable>
  /** The rebuild of a node that has not ended, its process perhaps has. */
  readonly running: (nodeId: NodeId) => Effect.Effect<IndexRebuild | null, DependencyUnavailable>
}>()("nightjar/actors/RecordRebuildStore") {
  static readonly layer = Layer.effect(
    RecordRebuildStore,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const one = (rows: ReadonlyArray<Row>) => rows[0] === undefined ? null : rebuildOf(rows[0])
      return RecordRebuildStore.of({
        put: (rebuild) =>
          answered(sql.withTransaction(Effect.gen(function*() {
            const report = rebuild.report === null ? null : JSON.stringify(rebuild.report)
            const ended = rebuild.endedAt === null ? null : new Date(rebuild.endedAt)
            yield* sql`
              INSERT INTO recording_rebuild (id, node_id, state, progress, error, report, started_at, ended_at)
              VALUES (${rebuild.id}, ${rebuild.nodeId}, ${rebuild.state}, ${rebuild.progress}, ${rebuild.error},
                ${report}::text::jsonb, ${new Date(rebuild.startedAt)}, ${ended})
              ON CONFLICT (id) DO UPDATE SET state = excluded.state, progress = excluded.progress, error = excluded.error,
                report = excluded.report, ended_at = excluded.ended_at`
            yield* sql`
              DELETE FROM recording_rebuild WHERE node_id = ${rebuild.nodeId} AND id NOT IN (
                SELECT id FROM recording_rebuild WHERE node_id = ${rebuild.nodeId} ORDER BY started_at DESC LIMIT ${kept})`
          }))),
        get: (id) => answered(Effect.map(sql<Row>`SELECT * FROM recording_rebuild WHERE id = ${id}`, one)),
        running: (nodeId) =>
          answered(Effect.map(
            sql<Row>`
              SELECT * FROM recording_rebuild WHERE node_id = ${nodeId} AND state = 'running'
              ORDER BY started_at DESC LIMIT 1`,
            one,
          )),
      })
    }),
  )
}
