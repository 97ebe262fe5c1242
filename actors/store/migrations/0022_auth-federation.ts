/** Nodes with databases of their own that a node of this database is paired with. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE auth_peer (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL REFERENCES node (node_id) ON DELETE CASCADE,
      peer_id uuid NOT NULL,
      name text NOT NULL,
      address text NOT NULL,
      tls_pin text,
      signing_key text NOT NULL,
      transfer_key text NOT NULL,
      roles text[] NOT NULL,
      media_read_enforcement boolean NOT NULL,
      guardian_granted boolean NOT NULL,
      sealed_token text NOT NULL,
      token_expires_at timestamptz NOT NULL,
      paired_at timestamptz NOT NULL,
      CONSTRAINT auth_peer_once UNIQUE (node_id, peer_id)
    )`
})
