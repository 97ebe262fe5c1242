/**
 * Footage on its way home: jobs and their segments on the node that recorded, segments that came in on the home node.
 *
 * A segment that came home keeps its row with its receipt: what was taken once is never asked for again.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE recordback_job (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL,
      home_node_id uuid NOT NULL,
      slot text NOT NULL,
      first_epoch bigint NOT NULL,
      last_epoch bigint NOT NULL,
      state text NOT NULL,
      attempt integer NOT NULL,
      refusals integer NOT NULL,
      due_at timestamptz,
      reason text NOT NULL,
      created_at timestamptz NOT NULL,
      ended_at timestamptz
    )`
  yield* sql`CREATE INDEX recordback_job_node ON recordback_job (node_id, id)`
  yield* sql`
    CREATE TABLE recordback_segment (
      job_id uuid NOT NULL REFERENCES recordback_job (id) ON DELETE CASCADE,
      recording_id uuid NOT NULL,
      epoch bigint NOT NULL,
      sequence bigint NOT NULL,
      channel_id uuid NOT NULL,
      file_id text NOT NULL,
      folder text NOT NULL,
      first_row integer NOT NULL,
      end_row integer NOT NULL,
      at bigint NOT NULL,
      bytes integer NOT NULL,
      start_at timestamptz NOT NULL,
      end_at timestamptz NOT NULL,
      exact boolean NOT NULL,
      state text NOT NULL,
      sha256 text,
      tries integer NOT NULL,
      receipt text,
      PRIMARY KEY (job_id, recording_id, epoch, sequence)
    )`
  yield* sql`CREATE INDEX recordback_segment_file ON recordback_segment (job_id, file_id)`
  yield* sql`CREATE INDEX recordback_segment_left ON recordback_segment (job_id, start_at) WHERE state = 'left'`
  yield* sql`
    CREATE TABLE recordback_incoming (
      serving_node_id uuid NOT NULL,
      recording_id uuid NOT NULL,
      epoch bigint NOT NULL,
      sequence bigint NOT NULL,
      reroute_id uuid NOT NULL,
      source_file text NOT NULL,
      file_id text NOT NULL,
      at bigint NOT NULL,
      bytes integer NOT NULL,
      sha256 text NOT NULL,
      front_sha256 text NOT NULL,
      state text NOT NULL,
      receipt text,
      updated_at timestamptz NOT NULL,
      PRIMARY KEY (serving_node_id, recording_id, epoch, sequence)
    )`
  yield* sql`CREATE INDEX recordback_incoming_file ON recordback_incoming (file_id)`
})
