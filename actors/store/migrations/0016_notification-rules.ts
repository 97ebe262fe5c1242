/**
 * Popup rules and what they deliver. `notification_evaluator` is where the log of events was held against them up to; its row is
 * locked by whoever does so, and moves on in the transaction that writes the deliveries.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE notification_rule (
      id uuid PRIMARY KEY,
      name text NOT NULL,
      active boolean NOT NULL,
      filter jsonb NOT NULL,
      schedule jsonb,
      cooldown_seconds integer NOT NULL,
      sound text,
      colour text,
      recipients jsonb NOT NULL,
      channels jsonb NOT NULL,
      created_at timestamptz NOT NULL,
      updated_at timestamptz NOT NULL,
      version integer NOT NULL
    )`
  yield* sql`CREATE INDEX notification_rule_name ON notification_rule (name, id)`
  yield* sql`
    CREATE TABLE notification_webhook (
      id uuid PRIMARY KEY,
      rule_id uuid NOT NULL REFERENCES notification_rule (id) ON DELETE CASCADE,
      url text NOT NULL,
      sealed_secret text NOT NULL,
      node_id uuid NOT NULL,
      disabled_at timestamptz,
      UNIQUE (rule_id, url)
    )`
  yield* sql`
    CREATE TABLE notification_cooldown (
      rule_id uuid NOT NULL REFERENCES notification_rule (id) ON DELETE CASCADE,
      subject text NOT NULL,
      told_at timestamptz NOT NULL,
      PRIMARY KEY (rule_id, subject)
    )`
  yield* sql`CREATE INDEX notification_cooldown_told ON notification_cooldown (told_at)`
  yield* sql`
    CREATE TABLE notification_evaluator (one boolean PRIMARY KEY CHECK (one), position bigint NOT NULL)`
  yield* sql`
    CREATE TABLE notification_delivery (
      id uuid PRIMARY KEY,
      rule_id uuid NOT NULL REFERENCES notification_rule (id) ON DELETE CASCADE,
      event_id text NOT NULL,
      event_type text NOT NULL,
      channel text NOT NULL CHECK (channel IN ('inApp', 'email', 'webhook', 'webPush')),
      target_id text NOT NULL,
      target text NOT NULL,
      content jsonb NOT NULL,
      node_id uuid,
      state text NOT NULL CHECK (state IN ('waiting', 'delivered', 'failed', 'dropped')),
      created_at timestamptz NOT NULL,
      next_at timestamptz,
      claimed_until timestamptz,
      attempts jsonb NOT NULL DEFAULT '[]',
      UNIQUE (rule_id, event_id, channel, target_id)
    )`
  yield* sql`CREATE INDEX notification_delivery_due ON notification_delivery (next_at) WHERE state = 'waiting'`
  yield* sql`CREATE INDEX notification_delivery_rule ON notification_delivery (rule_id, id DESC)`
  yield* sql`CREATE INDEX notification_delivery_created ON notification_delivery (created_at) WHERE state <> 'waiting'`
  yield* sql`
    CREATE TABLE notification_push_key (
      node_id uuid PRIMARY KEY,
      public_key text NOT NULL,
      sealed_private text NOT NULL,
      created_at timestamptz NOT NULL
    )`
  yield* sql`
    CREATE TABLE notification_push (
      id uuid PRIMARY KEY,
      user_id uuid NOT NULL REFERENCES auth_user (id) ON DELETE CASCADE,
      endpoint_hash bytea NOT NULL,
      service text NOT NULL,
      sealed text NOT NULL,
      node_id uuid NOT NULL,
      user_agent text NOT NULL,
      created_at timestamptz NOT NULL,
      delivered_at timestamptz,
      UNIQUE (user_id, endpoint_hash)
    )`
})
