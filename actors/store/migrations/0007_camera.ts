/**
 * Remembers the ids of deleted cameras and streams. A capture whose camera the database does not know is stopped only where the
 * camera stands here: without it, a lost or older database would look like a deletion of everything.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`CREATE TABLE camera_gone (id uuid PRIMARY KEY)`
  yield* sql`
    CREATE FUNCTION camera_remember_gone() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      INSERT INTO camera_gone (id) VALUES (OLD.id) ON CONFLICT DO NOTHING;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER camera_gone AFTER DELETE ON camera FOR EACH ROW EXECUTE FUNCTION camera_remember_gone()`
  yield* sql`
    CREATE TRIGGER camera_stream_gone AFTER DELETE ON camera_stream
    FOR EACH ROW EXECUTE FUNCTION camera_remember_gone()`
})
