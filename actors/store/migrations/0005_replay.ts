/** Replay sessions, named by the SHA-256 of their ids, and the configuration of replay: one row, or none while it is untouched. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE replay_session (
      digest text PRIMARY KEY CHECK (length(digest) = 43),
      slot text NOT NULL,
      node_id uuid NOT NULL,
      recording_id uuid NOT NULL,
      recording_token uuid NOT NULL,
      user_id uuid NOT NULL,
      login_session_id text NOT NULL,
      start_at timestamptz NOT NULL,
      end_at timestamptz,
      speed double precision NOT NULL,
      created_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      revoked_at timestamptz
    )`
  yield* sql`CREATE INDEX replay_session_user ON replay_session (user_id, created_at)`
  yield* sql`CREATE INDEX replay_session_expires ON replay_session (expires_at)`
  yield* sql`
    CREATE TABLE replay_config (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      session_seconds integer NOT NULL,
      sessions_per_user integer NOT NULL,
      max_interval_hours integer NOT NULL,
      version integer NOT NULL
    )`
})
