/**
 * Management of users: what the security settings need to know of them, passwords of before, preferences. Sessions stay when
 * their user is deleted, so that every node hears that they ended.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE auth_user
      ADD must_change_password boolean NOT NULL DEFAULT false,
      ADD last_sign_in_at timestamptz`
  yield* sql`
    CREATE TABLE auth_password_history (
      user_id uuid NOT NULL REFERENCES auth_user (id) ON DELETE CASCADE,
      set_at timestamptz NOT NULL,
      hash text NOT NULL
    )`
  yield* sql`CREATE INDEX auth_password_history_user ON auth_password_history (user_id, set_at)`
  yield* sql`
    INSERT INTO auth_password_history (user_id, set_at, hash) SELECT id, password_changed_at, password_hash FROM auth_user`
  yield* sql`
    CREATE TABLE auth_preference (
      user_id uuid PRIMARY KEY REFERENCES auth_user (id) ON DELETE CASCADE,
      document text NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`
    CREATE TABLE auth_security (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      settings jsonb NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`ALTER TABLE auth_session DROP CONSTRAINT auth_session_user_id_fkey`
  yield* sql`CREATE INDEX auth_session_live ON auth_session (user_id, id) WHERE ended_at IS NULL`
  yield* sql`CREATE INDEX auth_session_expires ON auth_session (expires_at)`
  yield* sql`ALTER TABLE auth_signing_key ADD signs_from timestamptz`
  yield* sql`UPDATE auth_signing_key SET signs_from = created_at`
  yield* sql`ALTER TABLE auth_signing_key ALTER signs_from SET NOT NULL`
})
