/**
 * The audit log: entries, where the chain ends and where it begins, what is recorded.
 *
 * Texts are kept byte by byte as they were hashed: times as integers of milliseconds and details as the text of their
 * canonical JSON, so that no change of a column is invisible to the hash.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE auth_audit (
      sequence bigint PRIMARY KEY,
      id uuid NOT NULL CONSTRAINT auth_audit_id UNIQUE,
      time_ms bigint NOT NULL CHECK (time_ms BETWEEN 0 AND 253402300799999),
      node_id uuid NOT NULL,
      action text NOT NULL,
      outcome text NOT NULL CHECK (outcome IN ('success', 'failure', 'refused')),
      actor_kind text NOT NULL CHECK (actor_kind IN ('user', 'peer', 'system', 'anonymous')),
      actor_id text,
      actor_name text,
      session_id text,
      address text NOT NULL,
      user_agent text NOT NULL,
      resource_kind text,
      resource_id text,
      status integer,
      trace_id text,
      origin text NOT NULL CHECK (origin IN ('server', 'claim')),
      detail text NOT NULL,
      previous_hash bytea NOT NULL,
      hash bytea NOT NULL,
      mac bytea NOT NULL,
      CHECK ((resource_kind IS NULL) = (resource_id IS NULL))
    )`
  yield* sql`CREATE INDEX auth_audit_time ON auth_audit (time_ms)`
  yield* sql`CREATE INDEX auth_audit_actor ON auth_audit (actor_id, sequence)`
  yield* sql`CREATE INDEX auth_audit_resource ON auth_audit (resource_id, sequence)`
  // The newest entry; its row is the lock of whoever appends.
  yield* sql`
    CREATE TABLE auth_audit_head (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      sequence bigint NOT NULL,
      hash bytea NOT NULL
    )`
  // The last entry that retention took; no row while it took none.
  yield* sql`
    CREATE TABLE auth_audit_anchor (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      sequence bigint NOT NULL,
      hash bytea NOT NULL,
      node_id uuid NOT NULL,
      mac bytea NOT NULL
    )`
  yield* sql`
    CREATE TABLE auth_audit_settings (
      "only" boolean PRIMARY KEY DEFAULT true CHECK ("only"),
      retention_days integer NOT NULL,
      record_sign_ins boolean NOT NULL,
      record_views boolean NOT NULL,
      record_refusals boolean NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`INSERT INTO auth_audit_head (sequence, hash) VALUES (0, decode(repeat('00', 32), 'hex'))`
  yield* sql`
    INSERT INTO auth_audit_settings (retention_days, record_sign_ins, record_views, record_refusals, version)
    VALUES (365, true, true, true, 1)`
})
