/** Where a protection comes from: those of before were set by people. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE federation_protection
      ADD COLUMN sources jsonb NOT NULL DEFAULT '{"protection": "set", "class": "set", "rank": "set"}'`
})
