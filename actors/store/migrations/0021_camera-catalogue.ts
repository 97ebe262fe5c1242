/**
 * What cameras are found by (tags, maker and model, one text that is searched), phones that publish, and work on many cameras at once.
 *
 * Where PostgreSQL has trigrams (`pg_trgm`, which a database's owner may create) the search uses an index of them; where it has not,
 * one narrow column of each camera is read, which is slower and gives the same.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE camera
      ADD COLUMN tags text[] NOT NULL DEFAULT '{}',
      ADD COLUMN manufacturer text,
      ADD COLUMN model text,
      ADD COLUMN firmware text,
      ADD COLUMN serial text,
      ADD COLUMN search_text text NOT NULL DEFAULT ''`
  // Lines, so that nothing is found across two of them.
  yield* sql`
    CREATE FUNCTION camera_search_text(camera_id uuid) RETURNS text LANGUAGE sql STABLE AS $$
      SELECT lower(concat_ws(E'\n', c.name, c.description, c.host || ':' || c.port, c.manufacturer, c.model, c.serial,
        nullif(array_to_string(c.tags, E'\n'), ''),
        (SELECT string_agg(DISTINCT split_part(s.source_url, '/', 3), E'\n') FROM camera_stream s WHERE s.camera_id = c.id)))
      FROM camera c WHERE c.id = $1
    $$`
  yield* sql`UPDATE camera SET search_text = camera_search_text(id)`
  yield* sql`CREATE INDEX camera_tags ON camera USING gin (tags)`
  yield* sql`CREATE INDEX camera_status ON camera (status, position, id)`
  yield* sql`
    DO $$
    BEGIN
      CREATE EXTENSION IF NOT EXISTS pg_trgm;
      CREATE INDEX camera_search ON camera USING gin (search_text gin_trgm_ops);
    EXCEPTION WHEN OTHERS THEN
      RAISE NOTICE 'Cameras are searched without an index of trigrams: %', SQLERRM;
    END $$`
  // A row is a ticket until it has a camera. Hashes only: SHA-256 of what cannot be guessed.
  yield* sql`
    CREATE TABLE camera_mobile (
      device_uuid uuid PRIMARY KEY,
      name text NOT NULL,
      description text NOT NULL,
      tags text[] NOT NULL,
      code_hash bytea UNIQUE,
      code_expires_at timestamptz NOT NULL,
      claimed_at timestamptz,
      camera_id uuid UNIQUE REFERENCES camera (id) ON DELETE CASCADE,
      stream_id uuid,
      secret_hash bytea UNIQUE,
      CONSTRAINT camera_mobile_claimed CHECK ((camera_id IS NULL) = (secret_hash IS NULL) AND (camera_id IS NULL) = (stream_id IS NULL))
    )`
  yield* sql`
    CREATE TABLE camera_job (
      id uuid PRIMARY KEY,
      kind text NOT NULL,
      node_id uuid NOT NULL,
      created_at timestamptz NOT NULL,
      finished_at timestamptz
    )`
  yield* sql`
    CREATE TABLE camera_job_item (
      id uuid PRIMARY KEY,
      job_id uuid NOT NULL REFERENCES camera_job (id) ON DELETE CASCADE,
      number integer NOT NULL,
      name text NOT NULL,
      host text,
      outcome text NOT NULL,
      detail text NOT NULL,
      camera_id uuid NOT NULL,
      sealed_input text,
      CONSTRAINT camera_job_item_number UNIQUE (job_id, number)
    )`
})
