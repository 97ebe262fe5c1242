/** Where a peer is reached besides the address that it tells of itself: given by an administrator, tried first. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE auth_peer ADD COLUMN addresses text[] NOT NULL DEFAULT '{}'`
})
