/**
 * What was changed of another node's cameras while they were served here; and, on the home node, what of it was merged already and what
 * contradicts a change of its own.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE federation_journal (
      id text PRIMARY KEY,
      seq bigint GENERATED ALWAYS AS IDENTITY,
      home_node_id uuid NOT NULL,
      epoch bigint NOT NULL,
      at timestamptz NOT NULL,
      made_by text NOT NULL,
      kind text NOT NULL,
      thing_id uuid NOT NULL,
      camera_id uuid NOT NULL,
      channel_id uuid,
      before jsonb,
      after jsonb,
      sealed_before text,
      sealed_after text
    )`
  yield* sql`CREATE INDEX federation_journal_order ON federation_journal (home_node_id, seq)`
  yield* sql`
    CREATE TABLE federation_journal_merged (
      node_id uuid NOT NULL,
      id text NOT NULL,
      guardian_node_id uuid NOT NULL,
      merged_at timestamptz NOT NULL,
      PRIMARY KEY (node_id, id)
    )`
  yield* sql`
    CREATE TABLE federation_conflict (
      id uuid PRIMARY KEY,
      node_id uuid NOT NULL,
      guardian_node_id uuid NOT NULL,
      kind text NOT NULL,
      thing_id uuid NOT NULL,
      camera_id uuid NOT NULL,
      channel_id uuid,
      field text NOT NULL,
      base jsonb NOT NULL,
      here jsonb NOT NULL,
      there jsonb NOT NULL,
      sealed_base text,
      sealed_here text,
      sealed_there text,
      there_by text NOT NULL,
      there_at timestamptz NOT NULL,
      here_at timestamptz,
      in_force text NOT NULL,
      CONSTRAINT federation_conflict_once UNIQUE (node_id, kind, thing_id, field)
    )`
})
