/** The licence of the cluster, the machines it may run on, and the latest time that was seen. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE license (
      id smallint PRIMARY KEY CHECK (id = 1),
      license_text text,
      license_id text,
      mode text CHECK (mode IN ('offline', 'online', 'key')),
      activated_at timestamptz,
      confirmed_at timestamptz,
      vendor_state text NOT NULL DEFAULT 'active' CHECK (vendor_state IN ('active', 'suspended', 'revoked')),
      sealed_key text,
      key_hint text,
      failure_at timestamptz,
      failure text,
      released boolean NOT NULL DEFAULT false,
      high_water timestamptz NOT NULL
    )`
  yield* sql`
    CREATE TABLE license_history (
      license_id text PRIMARY KEY,
      first_activated_at timestamptz NOT NULL,
      released_at timestamptz
    )`
  yield* sql`
    CREATE TABLE license_hardware (
      node_id uuid PRIMARY KEY,
      hardware_id text NOT NULL,
      seen_at timestamptz NOT NULL
    )`
})
