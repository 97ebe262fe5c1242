/**
 * What happened, in the order in which it became visible.
 *
 * `event_keep` is one statement, so that a client which hangs half-way never holds its lock: under the lock a position is
 * given and committed before the next one is, hence a reader at position n has missed nothing below n.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE event (
      position bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
      id text NOT NULL CONSTRAINT event_id UNIQUE,
      node_id uuid NOT NULL,
      source text NOT NULL,
      type text NOT NULL,
      severity text NOT NULL,
      subject text NOT NULL,
      at timestamptz NOT NULL,
      kept_at timestamptz NOT NULL,
      data jsonb NOT NULL,
      resource text[] NOT NULL,
      audience uuid[],
      notify boolean NOT NULL
    )`
  yield* sql`CREATE INDEX event_notify ON event (position) WHERE notify`
  yield* sql`CREATE TABLE event_pruned (one boolean PRIMARY KEY CHECK (one), up_to bigint NOT NULL)`
  yield* sql`INSERT INTO event_pruned (one, up_to) VALUES (true, 0)`
  yield* sql`
    CREATE FUNCTION event_keep(entries jsonb, kept timestamptz) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      added bigint;
    BEGIN
      PERFORM pg_advisory_xact_lock(hashtext('nightjar.event'));
      INSERT INTO event (id, node_id, source, type, severity, subject, at, kept_at, data, resource, audience, notify)
      SELECT e->>'id', (e->>'nodeId')::uuid, e->>'source', e->>'type', e->>'severity', e->>'subject',
        (e->>'time')::timestamptz, kept, e->'data',
        ARRAY(SELECT jsonb_array_elements_text(e->'resource')),
        CASE WHEN jsonb_typeof(e->'audience') = 'array'
          THEN ARRAY(SELECT jsonb_array_elements_text(e->'audience')::uuid) END,
        (e->>'notify')::boolean
      FROM jsonb_array_elements(entries) WITH ORDINALITY AS told (e, n) ORDER BY n
      ON CONFLICT (id) DO NOTHING;
      GET DIAGNOSTICS added = ROW_COUNT;
      IF added > 0 THEN PERFORM pg_notify('nightjar_event', ''); END IF;
      RETURN added;
    END $$`
})
