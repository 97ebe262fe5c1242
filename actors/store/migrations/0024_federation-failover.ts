/**
 * Failover: nodes with a database of their own that have a slot here, protections with their state, reroutes, who guards this node, and
 * what is set of all this.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`ALTER TABLE node ADD COLUMN adopted boolean NOT NULL DEFAULT false`
  yield* sql`
    CREATE TABLE federation_failover_settings (
      node_id uuid PRIMARY KEY,
      settings jsonb NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`
    CREATE TABLE federation_protection (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL,
      home_node_id uuid NOT NULL,
      name text NOT NULL,
      class text NOT NULL,
      automatic boolean NOT NULL,
      rank integer NOT NULL,
      slot text,
      state jsonb NOT NULL,
      need jsonb NOT NULL,
      snapshot jsonb,
      sessions jsonb NOT NULL,
      drill jsonb,
      created_at timestamptz NOT NULL,
      version integer NOT NULL,
      CONSTRAINT federation_protection_once UNIQUE (node_id, home_node_id)
    )`
  yield* sql`
    CREATE TABLE federation_reroute (
      id uuid PRIMARY KEY,
      protection_id uuid NOT NULL,
      home_node_id uuid NOT NULL,
      serving_node_id uuid NOT NULL,
      slot text NOT NULL,
      epoch bigint NOT NULL,
      state text NOT NULL,
      drill boolean NOT NULL,
      since timestamptz NOT NULL,
      ended_at timestamptz,
      lost_at timestamptz NOT NULL,
      gaps jsonb NOT NULL,
      CONSTRAINT federation_reroute_once UNIQUE (serving_node_id, home_node_id, epoch)
    )`
  yield* sql`CREATE INDEX federation_reroute_order ON federation_reroute (since, id)`
  yield* sql`
    CREATE TABLE federation_guardian (
      node_id uuid NOT NULL,
      guardian_node_id uuid NOT NULL,
      asked_at timestamptz NOT NULL,
      bundle_at timestamptz,
      bundle_digest text,
      camera_names jsonb NOT NULL,
      PRIMARY KEY (node_id, guardian_node_id)
    )`
  yield* sql`CREATE TABLE federation_homecoming (node_id uuid PRIMARY KEY, state jsonb NOT NULL)`
})
