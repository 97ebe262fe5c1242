/** Streams that are connected while somebody watches. Sub streams are, from now on, unless somebody says otherwise. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE camera_stream ADD COLUMN on_demand boolean NOT NULL DEFAULT false`
  yield* sql`UPDATE camera_stream SET on_demand = role = 'sub'`
})
