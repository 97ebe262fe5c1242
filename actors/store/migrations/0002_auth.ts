/** Users, roles, sessions with their refresh tokens, signing keys, and the memory of failed sign-ins. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE auth_role (
      name text PRIMARY KEY,
      description text NOT NULL,
      built_in boolean NOT NULL,
      permissions text[] NOT NULL,
      version integer NOT NULL DEFAULT 1
    )`
  yield* sql`
    CREATE TABLE auth_user (
      id uuid PRIMARY KEY,
      username text NOT NULL,
      username_key text NOT NULL UNIQUE,
      password_hash text NOT NULL,
      display_name text NOT NULL DEFAULT '',
      email text,
      locale text,
      time_zone text,
      enabled boolean NOT NULL DEFAULT true,
      created_at timestamptz NOT NULL,
      password_changed_at timestamptz NOT NULL,
      version integer NOT NULL DEFAULT 1
    )`
  yield* sql`
    CREATE TABLE auth_user_role (
      user_id uuid NOT NULL REFERENCES auth_user (id) ON DELETE CASCADE,
      role text NOT NULL REFERENCES auth_role (name) ON DELETE CASCADE,
      PRIMARY KEY (user_id, role)
    )`
  yield* sql`
    CREATE TABLE auth_session (
      id uuid PRIMARY KEY,
      user_id uuid NOT NULL REFERENCES auth_user (id) ON DELETE CASCADE,
      created_at timestamptz NOT NULL,
      last_seen_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      ended_at timestamptz,
      end_reason text,
      address text NOT NULL,
      user_agent text NOT NULL
    )`
  yield* sql`CREATE INDEX auth_session_user ON auth_session (user_id)`
  yield* sql`CREATE INDEX auth_session_ended ON auth_session (ended_at) WHERE ended_at IS NOT NULL`
  yield* sql`
    CREATE TABLE auth_refresh_token (
      hash bytea PRIMARY KEY,
      session_id uuid NOT NULL REFERENCES auth_session (id) ON DELETE CASCADE,
      created_at timestamptz NOT NULL,
      used_at timestamptz
    )`
  yield* sql`CREATE INDEX auth_refresh_token_session ON auth_refresh_token (session_id)`
  yield* sql`
    CREATE TABLE auth_signing_key (
      kid text PRIMARY KEY,
      public_x text NOT NULL,
      sealed_private text NOT NULL,
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL
    )`
  yield* sql`
    CREATE TABLE auth_throttle (
      subject text PRIMARY KEY,
      failures integer NOT NULL,
      locked_until timestamptz NOT NULL,
      updated_at timestamptz NOT NULL
    )`
})
