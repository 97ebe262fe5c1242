/**
 * Recordings, the index of their files, the gap ledger, the events of recordings, and how far each node's journal was read.
 *
 * A recording holds on to its stream (`recording_source`): what is recorded cannot be deleted from under it. One that is being
 * deleted lets go of it and stays until its footage is gone.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE recording (
      id uuid PRIMARY KEY,
      token uuid NOT NULL UNIQUE,
      slot text NOT NULL,
      camera_id uuid NOT NULL,
      channel_id uuid,
      role text NOT NULL,
      mode text NOT NULL,
      enabled boolean NOT NULL,
      state text NOT NULL,
      reason text NOT NULL,
      retention_days integer NOT NULL,
      max_bytes bigint NOT NULL,
      pre_event_seconds integer NOT NULL,
      post_event_seconds integer NOT NULL,
      schedule jsonb,
      kept_from timestamptz,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      deleted_at timestamptz,
      version integer NOT NULL,
      CONSTRAINT recording_source FOREIGN KEY (channel_id, role) REFERENCES camera_stream (channel_id, role),
      CHECK (deleted_at IS NOT NULL OR channel_id IS NOT NULL)
    )`
  yield* sql`CREATE UNIQUE INDEX recording_stream ON recording (channel_id, role)`
  yield* sql`CREATE INDEX recording_camera ON recording (camera_id)`
  yield* sql`CREATE INDEX recording_slot ON recording (slot)`
  yield* sql`
    CREATE TABLE segment_file (
      id text PRIMARY KEY,
      recording_id uuid NOT NULL REFERENCES recording (id) ON DELETE CASCADE,
      stream_id uuid NOT NULL,
      channel_id uuid NOT NULL,
      node_id uuid NOT NULL,
      epoch bigint NOT NULL,
      sequence bigint NOT NULL,
      folder text NOT NULL,
      start_at timestamptz NOT NULL,
      end_at timestamptz NOT NULL,
      bytes bigint NOT NULL,
      fragments integer NOT NULL,
      frames bigint NOT NULL,
      sealed boolean NOT NULL
    )`
  yield* sql`CREATE INDEX segment_file_time ON segment_file (recording_id, start_at)`
  yield* sql`
    CREATE TABLE recording_gap (
      id text PRIMARY KEY,
      recording_id uuid NOT NULL REFERENCES recording (id) ON DELETE CASCADE,
      node_id uuid NOT NULL,
      epoch bigint NOT NULL,
      start_at timestamptz NOT NULL,
      end_at timestamptz,
      cause text NOT NULL,
      detail text NOT NULL
    )`
  yield* sql`CREATE INDEX recording_gap_time ON recording_gap (recording_id, start_at)`
  yield* sql`
    CREATE TABLE recording_event (
      id text PRIMARY KEY,
      recording_id uuid NOT NULL REFERENCES recording (id) ON DELETE CASCADE,
      node_id uuid NOT NULL,
      type text NOT NULL,
      at timestamptz NOT NULL,
      data jsonb NOT NULL
    )`
  yield* sql`CREATE INDEX recording_event_time ON recording_event (recording_id, at, id)`
  yield* sql`
    CREATE TABLE recording_journal (
      node_id uuid PRIMARY KEY,
      position bigint NOT NULL,
      updated_at timestamptz NOT NULL
    )`
  yield* sql`
    CREATE TABLE recording_settings (
      id boolean PRIMARY KEY DEFAULT true CHECK (id),
      default_retention_days integer NOT NULL,
      default_max_bytes bigint NOT NULL,
      event_history_days integer NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`
    INSERT INTO recording_settings (default_retention_days, default_max_bytes, event_history_days, version)
    VALUES (30, 0, 30, 1)`
})
