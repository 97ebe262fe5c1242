/**
 * Resource groups, what they hold, and which roles they narrow.
 *
 * Whatever changes one of these tables makes `permission_state.version` grow, so that nodes learn by one row whether they must
 * read them again. What is deleted leaves its groups in the same transaction.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE permission_group (
      id uuid PRIMARY KEY,
      parent_id uuid REFERENCES permission_group (id),
      name text NOT NULL,
      name_key text NOT NULL,
      description text NOT NULL,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      version integer NOT NULL,
      CONSTRAINT permission_group_name UNIQUE (name_key)
    )`
  yield* sql`CREATE INDEX permission_group_parent ON permission_group (parent_id)`
  yield* sql`
    CREATE TABLE permission_member (
      group_id uuid NOT NULL REFERENCES permission_group (id) ON DELETE CASCADE,
      kind text NOT NULL,
      resource_id text NOT NULL,
      added_at timestamptz NOT NULL,
      PRIMARY KEY (group_id, kind, resource_id)
    )`
  yield* sql`CREATE INDEX permission_member_resource ON permission_member (kind, resource_id)`
  yield* sql`
    CREATE TABLE permission_role (
      role text PRIMARY KEY REFERENCES auth_role (name) ON UPDATE CASCADE ON DELETE CASCADE,
      all_resources boolean NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`
    CREATE TABLE permission_role_group (
      role text NOT NULL REFERENCES permission_role (role) ON UPDATE CASCADE ON DELETE CASCADE,
      group_id uuid NOT NULL REFERENCES permission_group (id) ON DELETE CASCADE,
      PRIMARY KEY (role, group_id)
    )`
  yield* sql`CREATE INDEX permission_role_group_group ON permission_role_group (group_id)`
  yield* sql`CREATE TABLE permission_state (id boolean PRIMARY KEY DEFAULT true CHECK (id), version bigint NOT NULL)`
  yield* sql`INSERT INTO permission_state (version) VALUES (1)`
  yield* sql`
    CREATE FUNCTION permission_changed() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      UPDATE permission_state SET version = version + 1;
      RETURN NULL;
    END $$`
  for (const table of ["permission_group", "permission_member", "permission_role", "permission_role_group"]) {
    yield* sql`
      CREATE TRIGGER permission_changed AFTER INSERT OR UPDATE OR DELETE ON ${sql(table)}
      FOR EACH STATEMENT EXECUTE FUNCTION permission_changed()`
  }
  yield* sql`
    CREATE FUNCTION permission_leave() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      DELETE FROM permission_member WHERE kind = TG_ARGV[0] AND resource_id = OLD.id::text;
      RETURN NULL;
    END $$`
  yield* sql`
    CREATE TRIGGER permission_leave AFTER DELETE ON camera FOR EACH ROW EXECUTE FUNCTION permission_leave('camera')`
  yield* sql`
    CREATE TRIGGER permission_leave AFTER DELETE ON camera_channel
    FOR EACH ROW EXECUTE FUNCTION permission_leave('channel')`
  yield* sql`
    CREATE TRIGGER permission_leave AFTER DELETE ON recording FOR EACH ROW EXECUTE FUNCTION permission_leave('recording')`
})
