/** The nodes of the cluster, and who serves which slot with which epoch. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE node (
      node_id uuid PRIMARY KEY,
      slot text NOT NULL UNIQUE CHECK (slot ~ '^n([0-5][0-9]|6[0-3])$'),
      name text NOT NULL,
      address text NOT NULL,
      signing_key text NOT NULL,
      transfer_key text NOT NULL,
      created_at timestamptz NOT NULL,
      started_at timestamptz NOT NULL
    )`
  yield* sql`
    CREATE TABLE group_owner (
      slot text PRIMARY KEY REFERENCES node (slot),
      node_id uuid NOT NULL REFERENCES node (node_id),
      epoch bigint NOT NULL CHECK (epoch >= 1),
      changed_at timestamptz NOT NULL
    )`
})
