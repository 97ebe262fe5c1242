/** In which order people see the nodes. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE federation_node_order (node_id uuid PRIMARY KEY, position integer NOT NULL)`
})
