/** Control: what this node promised as a voter about a home node, and who votes about it. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE federation_control (
      node_id uuid NOT NULL,
      home_node_id uuid NOT NULL,
      promise jsonb,
      roll jsonb NOT NULL,
      confirmed jsonb NOT NULL,
      PRIMARY KEY (node_id, home_node_id)
    )`
})
