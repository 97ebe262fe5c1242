/**
 * Who belongs to the cluster: what a node tells of itself, signed; its admission by the cluster's key; and the key, in an envelope for
 * each member.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE node
      ADD COLUMN transport_pin text,
      ADD COLUMN told_signature text,
      ADD COLUMN admission text`
  // One row. `burned_secrets`: ids of secrets that a former member knows.
  yield* sql`
    CREATE TABLE cluster_key (
      single boolean PRIMARY KEY DEFAULT true CHECK (single),
      cluster_id uuid NOT NULL,
      generation integer NOT NULL CHECK (generation >= 1),
      key_id text NOT NULL,
      burned_secrets text[] NOT NULL DEFAULT '{}',
      changed_at timestamptz NOT NULL
    )`
  // The holder is a node, or a secret that the operator gave to several nodes.
  yield* sql`
    CREATE TABLE cluster_key_share (
      holder text PRIMARY KEY,
      envelope text NOT NULL
    )`
})
