/**
 * Addresses that may administer, the mail server (one row, or none while none was set), and the second factor of users with
 * its recovery codes, which are kept as their SHA-256.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE auth_management_ip (
      id uuid PRIMARY KEY,
      name text NOT NULL,
      cidr text NOT NULL CONSTRAINT auth_management_ip_cidr UNIQUE,
      enabled boolean NOT NULL,
      created_at timestamptz NOT NULL,
      version integer NOT NULL DEFAULT 1
    )`
  yield* sql`
    CREATE TABLE auth_smtp (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      host text NOT NULL,
      port integer NOT NULL,
      security text NOT NULL,
      username text,
      sealed_password text,
      from_address text NOT NULL,
      ca_certificate text,
      allow_unverified boolean NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`
    CREATE TABLE auth_second_factor (
      user_id uuid PRIMARY KEY REFERENCES auth_user (id) ON DELETE CASCADE,
      sealed_secret text NOT NULL,
      created_at timestamptz NOT NULL,
      confirmed_at timestamptz,
      last_step bigint NOT NULL DEFAULT 0
    )`
  yield* sql`
    CREATE TABLE auth_recovery_code (
      user_id uuid NOT NULL REFERENCES auth_second_factor (user_id) ON DELETE CASCADE,
      hash bytea NOT NULL,
      used_at timestamptz,
      PRIMARY KEY (user_id, hash)
    )`
})
