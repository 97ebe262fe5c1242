/** Who moves a camera when two want to; and what administrators know better of a camera than the camera does. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    ALTER TABLE auth_role ADD ptz_priority integer NOT NULL DEFAULT 50 CHECK (ptz_priority BETWEEN 0 AND 100)`
  yield* sql`
    CREATE TABLE camera_capability (
      camera_id uuid NOT NULL REFERENCES camera (id) ON DELETE CASCADE,
      channel_id uuid REFERENCES camera_channel (id) ON DELETE CASCADE,
      name text NOT NULL,
      supported text NOT NULL CHECK (supported IN ('yes', 'no')),
      set_by text NOT NULL,
      set_at timestamptz NOT NULL
    )`
  // One of a camera, one of each of its channels.
  yield* sql`CREATE UNIQUE INDEX camera_capability_camera ON camera_capability (camera_id, name) WHERE channel_id IS NULL`
  yield* sql`
    CREATE UNIQUE INDEX camera_capability_channel ON camera_capability (channel_id, name) WHERE channel_id IS NOT NULL`
})
