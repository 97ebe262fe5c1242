/** Channels of other nodes, under the ids that they have here. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE federation_channel (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL,
      remote_channel_id uuid NOT NULL,
      remote_camera_id uuid NOT NULL,
      channel_name text NOT NULL,
      camera_name text NOT NULL,
      active boolean NOT NULL,
      recordings jsonb NOT NULL,
      present boolean NOT NULL,
      updated_at timestamptz NOT NULL,
      UNIQUE (node_id, remote_channel_id)
    )`
  yield* sql`CREATE INDEX federation_channel_recordings ON federation_channel USING gin (recordings jsonb_path_ops)`
})
