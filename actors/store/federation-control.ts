/**
 * The store of control: promises of this node as a voter, and the lists of voters it knows.
 *
 * Invariants
 * 1. What `keep` was answered for survives a loss of power, whatever the server's own settings say.
 */
import type { NodeId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

/** About one home node. */
export interface KeptControl {
  /** As `cluster/lease.ts` encodes it; null: nothing was promised. */
  readonly promise: unknown
  /** As `#schema/federation-control.ts` encodes it. */
  readonly roll: unknown
  /** Of the home node itself: voters of the last list that was confirmed. */
  readonly confirmed: ReadonlyArray<NodeId>
}

export class ControlStore extends Context.Service<ControlStore, {
  readonly all: (
    nodeId: NodeId,
  ) => Effect.Effect<ReadonlyArray<KeptControl & { readonly homeNodeId: NodeId }>, DependencyUnavailable>
  readonly keep: (nodeId: NodeId, homeNodeId: NodeId, kept: KeptControl) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/ControlStore") {
  static readonly layer = Layer.effect(
    ControlStore,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const json = (value: unknown) => sql`${JSON.stringify(value)}::text::jsonb`
      return ControlStore.of({
        all: (nodeId) =>
          answered(sql<KeptControl & { readonly homeNodeId: NodeId }>`
            SELECT home_node_id AS "homeNodeId", promise, roll, confirmed
            FROM federation_control WHERE node_id = ${nodeId} ORDER BY home_node_id`),
        keep: (nodeId, homeNodeId, { confirmed, promise, roll }) =>
          answered(sql.withTransaction(Effect.gen(function*() {
            yield* sql`SET LOCAL synchronous_commit TO on`
            yield* sql`
              INSERT INTO federation_control (node_id, home_node_id, promise, roll, confirmed)
              VALUES (${nodeId}::text::uuid, ${homeNodeId}::text::uuid, nullif(${json(promise)}, 'null'::jsonb), ${
              json(roll)
            }, ${json(confirmed)})
              ON CONFLICT (node_id, home_node_id) DO UPDATE SET promise = excluded.promise, roll = excluded.roll,
                confirmed = excluded.confirmed`
          }))),
      })
    }),
  )
}
