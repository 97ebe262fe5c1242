/** SQL of the order in which nodes are shown: one for the whole cluster. */
import type { NodeId } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export const FederationNodeStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  order: Effect.map(
    sql<{ readonly nodeId: string; readonly position: number }>`
      SELECT node_id AS "nodeId", position FROM federation_node_order`,
    (rows): ReadonlyMap<string, number> => new Map(rows.map(({ nodeId, position }) => [nodeId, position])),
  ),
  /** Whole: what is not named has no place of its own any more. */
  setOrder: (nodeIds: ReadonlyArray<NodeId>) =>
    sql.withTransaction(Effect.gen(function*() {
      yield* sql`LOCK TABLE federation_node_order IN SHARE ROW EXCLUSIVE MODE`
      yield* sql`DELETE FROM federation_node_order`
      yield* sql`
        INSERT INTO federation_node_order (node_id, position)
        SELECT node_id::uuid, (place - 1)::int
        FROM unnest(${nodeIds as Array<NodeId>}::text[]) WITH ORDINALITY AS given (node_id, place)`
    })),
}))
