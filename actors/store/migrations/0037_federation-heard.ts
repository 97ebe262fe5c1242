/** When a guardian last heard the node it guards: known after a restart of the guardian too, so that a gap is measured from there. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE federation_protection ADD COLUMN heard_at timestamptz`
})
