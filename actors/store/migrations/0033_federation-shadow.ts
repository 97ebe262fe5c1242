/** Memory among what a protection needs: those of before hold nothing in it. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE federation_protection SET need = need || '{"memoryBytes": 0}'::jsonb WHERE need -> 'memoryBytes' IS NULL`
})
