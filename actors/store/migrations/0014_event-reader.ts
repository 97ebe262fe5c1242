/**
 * What each user did with his notifications: how far he has read and seen, and what differs from that one by one. Marks go with
 * their events; what is left of a user who was deleted are some numbers under an id that is never given again.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE event_reader (
      user_id uuid PRIMARY KEY,
      read_to bigint NOT NULL DEFAULT 0,
      seen_to bigint NOT NULL DEFAULT 0,
      seen_at timestamptz,
      missed_from bigint NOT NULL DEFAULT 0,
      missed_to bigint NOT NULL DEFAULT 0
    )`
  yield* sql`
    CREATE TABLE event_mark (
      user_id uuid NOT NULL,
      position bigint NOT NULL REFERENCES event (position) ON DELETE CASCADE,
      read boolean NOT NULL,
      deleted boolean NOT NULL,
      PRIMARY KEY (user_id, position)
    )`
  yield* sql`CREATE INDEX event_mark_position ON event_mark (position)`
})
