/** Where a camera's own protocol is spoken; null for families that have none. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE camera ADD COLUMN host text, ADD COLUMN port integer CHECK (port BETWEEN 1 AND 65535)`
  yield* sql`ALTER TABLE camera ADD CONSTRAINT camera_endpoint CHECK ((host IS NULL) = (port IS NULL))`
})
