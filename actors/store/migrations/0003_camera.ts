/** Cameras, their channels and streams: what people set, and what was last observed of them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE camera (
      id uuid PRIMARY KEY,
      slot text NOT NULL,
      home_node_id uuid NOT NULL,
      name text NOT NULL,
      description text NOT NULL,
      driver text NOT NULL,
      enabled boolean NOT NULL,
      username text,
      sealed_password text,
      position integer NOT NULL,
      status text NOT NULL,
      reason text NOT NULL,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`CREATE INDEX camera_order ON camera (position, id)`
  yield* sql`CREATE INDEX camera_slot ON camera (slot)`
  yield* sql`
    CREATE TABLE camera_channel (
      id uuid PRIMARY KEY,
      camera_id uuid NOT NULL REFERENCES camera (id) ON DELETE CASCADE,
      number integer NOT NULL,
      name text NOT NULL,
      active boolean NOT NULL,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      version integer NOT NULL,
      CONSTRAINT camera_channel_number UNIQUE (camera_id, number)
    )`
  yield* sql`
    CREATE TABLE camera_stream (
      id uuid PRIMARY KEY,
      camera_id uuid NOT NULL REFERENCES camera (id) ON DELETE CASCADE,
      channel_id uuid NOT NULL REFERENCES camera_channel (id) ON DELETE CASCADE,
      role text NOT NULL,
      source_url text NOT NULL,
      transport text NOT NULL,
      enabled boolean NOT NULL,
      username text,
      sealed_password text,
      codec text,
      width integer,
      height integer,
      audio_codec text,
      status text NOT NULL,
      reason text NOT NULL,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      version integer NOT NULL,
      CONSTRAINT camera_stream_role UNIQUE (channel_id, role)
    )`
  yield* sql`CREATE INDEX camera_stream_camera ON camera_stream (camera_id)`
})
