/**
 * Remembers the ids of deleted recordings, so that footage of one is told from footage that a lost or older database does not
 * know; and the rebuilds of the index of footage.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE recording_gone (id uuid PRIMARY KEY)`
  yield* sql`
    CREATE FUNCTION recording_remember_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO recording_gone (id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER recording_gone AFTER DELETE ON recording FOR EACH ROW EXECUTE FUNCTION recording_remember_gone()`
  yield* sql`
    CREATE TABLE recording_rebuild (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL,
      state text NOT NULL,
      progress double precision NOT NULL,
      error text,
      report jsonb,
      started_at timestamptz NOT NULL,
      ended_at timestamptz
    )`
  yield* sql`CREATE INDEX recording_rebuild_node ON recording_rebuild (node_id, started_at)`
})
