/** Answers of requests that carried an idempotency key. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE http_idempotency (
      user_id uuid NOT NULL,
      key text NOT NULL,
      fingerprint bytea NOT NULL,
      started_at timestamptz NOT NULL,
      status integer,
      headers jsonb,
      body bytea,
      PRIMARY KEY (user_id, key)
    )`
  yield* sql`CREATE INDEX http_idempotency_started ON http_idempotency (started_at)`
})
