/** Where the HTTP of each member of the cluster is, with which certificate, and what it runs. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE node
      ADD COLUMN http_address text,
      ADD COLUMN tls_pin text,
      ADD COLUMN version text`
})
