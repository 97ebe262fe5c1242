/**
 * SQL of deliveries: a durable queue, and the log of what became of each.
 *
 * Invariants
 * 1. A delivery is claimed by one node for {@link claimMs}; one that died with it is free again afterwards.
 * 2. The same rule, event, channel and target make one delivery, however often it is asked for.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { EventEnvelope, EventResource } from "#schema/event.ts"
import type { Attempt, ChannelKind, Delivery, Popup, PopupRuleId } from "#schema/notification-rules.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Longer than any channel takes (a mail: two minutes). */
export const claimMs = 180_000

/** What is told, as it was when the rule matched. */
export interface DeliveryContent {
  readonly event: Omit<EventEnvelope, "time"> & { readonly time: string }
  readonly resource: ReadonlyArray<EventResource>
  readonly popup: Popup
  /** E-mail: with a picture. */
  readonly attachPicture: boolean
  /** In-app: for whom. */
  readonly audience: ReadonlyArray<string>
}

export interface NewDelivery {
  readonly id: string
  readonly ruleId: PopupRuleId
  readonly eventId: string
  readonly eventType: string
  readonly channel: ChannelKind
  /** A user's, a webhook's or a subscription's id; empty for all in one. */
  readonly targetId: string
  /** The same for a person. */
  readonly target: string
  readonly content: DeliveryContent
  /** Only this node can: its vault opens the secret. */
  readonly nodeId: string | null
  readonly state: Delivery["state"]
}

export interface DueDelivery extends Omit<NewDelivery, "state"> {
  readonly createdAt: Date
  readonly attempts: ReadonlyArray<KeptAttempt>
}

interface KeptAttempt extends Omit<Attempt, "at"> {
  readonly atMs: EpochMs
}

interface Row extends Omit<Delivery, "createdAt" | "nextAttemptAt" | "attempts"> {
  readonly createdAt: Date
  readonly nextAt: Date | null
  readonly attempts: ReadonlyArray<KeptAttempt>
}

const deliveryOf = ({ attempts, createdAt, nextAt, ...row }: Row): Delivery => ({
  ...row,
  createdAt: createdAt.getTime(),
  nextAttemptAt: nextAt === null ? null : nextAt.getTime(),
  attempts: attempts.map(({ atMs, ...attempt }) => ({ at: atMs, ...attempt })),
})

/** Rows that one statement deletes. */
const pruneRows = 5_000

const evaluating = (sql: SqlClient.SqlClient) => ({
  /** Where the log was held against the rules up to, locked until the transaction ends; `null`: somebody else holds it. */
  lockPosition: (beginning: number) =>
    Effect.gen(function*() {
      yield* sql`
        INSERT INTO notification_evaluator (one, position) VALUES (true, ${beginning}) ON CONFLICT (one) DO NOTHING`
      const [row] = yield* sql<{ readonly position: bigint }>`
        SELECT position FROM notification_evaluator FOR UPDATE SKIP LOCKED`
      return row === undefined ? null : Number(row.position)
    }),
  setPosition: (position: number) => sql`UPDATE notification_evaluator SET position = ${position}`,
  waiting: () =>
    Effect.map(
      sql<{ readonly count: number }>`
        SELECT count(*)::integer AS count FROM notification_delivery WHERE state = 'waiting'`,
      ([row]) => row?.count ?? 0,
    ),
  /** Notes that the subject is told of at `atMs`, unless it was within the cooldown; answers whether it is to be told. */
  warm: (ruleId: PopupRuleId, subject: string, atMs: EpochMs, cooldownSeconds: number) =>
    Effect.map(
      sql`
        INSERT INTO notification_cooldown AS kept (rule_id, subject, told_at) VALUES (${ruleId}, ${subject}, ${new Date(
        atMs,
      )})
        ON CONFLICT (rule_id, subject) DO UPDATE SET told_at = excluded.told_at
        WHERE kept.told_at <= ${new Date(atMs - cooldownSeconds * 1000)} RETURNING 1`,
      (rows) => rows.length > 0,
    ),
  add: (deliveries: ReadonlyArray<NewDelivery>, nowMs: EpochMs) =>
    Effect.forEach(deliveries, (one) =>
      sql`
      INSERT INTO notification_delivery (id, rule_id, event_id, event_type, channel, target_id, target, content, node_id, state,
        created_at, next_at)
      VALUES (${one.id}, ${one.ruleId}, ${one.eventId}, ${one.eventType}, ${one.channel}, ${one.targetId},
        ${one.target.slice(0, 300)}, ${JSON.stringify(one.content)}::text::jsonb, ${one.nodeId},
        ${one.state}, ${new Date(nowMs)}, ${one.state === "waiting" ? new Date(nowMs) : null})
      ON CONFLICT (rule_id, event_id, channel, target_id) DO NOTHING`, { discard: true }),
})

const working = (sql: SqlClient.SqlClient) => ({
  /** Takes what is due, oldest first. */
  claim: (nodeId: NodeId, nowMs: EpochMs, limit: number) =>
    sql<DueDelivery>`
      UPDATE notification_delivery SET claimed_until = ${new Date(nowMs + claimMs)}
      WHERE id IN (
        SELECT id FROM notification_delivery
        WHERE state = 'waiting' AND next_at <= ${new Date(nowMs)}
          AND (claimed_until IS NULL OR claimed_until < ${new Date(nowMs)}) AND (node_id IS NULL OR node_id = ${nodeId})
        ORDER BY next_at LIMIT ${limit} FOR UPDATE SKIP LOCKED
      )
      RETURNING id, rule_id AS "ruleId", event_id AS "eventId", event_type AS "eventType", channel, target_id AS "targetId",
        target, content, node_id AS "nodeId", created_at AS "createdAt", attempts`,
  /** Writes an attempt down. `nextMs`: when it is tried again, `null` for never. */
  attempted: (id: string, attempt: Attempt, state: Delivery["state"], nextMs: EpochMs | null) => {
    const { at, ...rest } = attempt
    const kept = JSON.stringify([{ ...rest, atMs: at }])
    return sql`
      UPDATE notification_delivery SET attempts = attempts || ${kept}::text::jsonb, state = ${state},
        next_at = ${nextMs === null ? null : new Date(nextMs)}, claimed_until = NULL
      WHERE id = ${id}::text::uuid`
  },
  /** Whoever claimed it did not come to an end with it: it is free again at once. */
  release: (id: string) => sql`UPDATE notification_delivery SET claimed_until = NULL WHERE id = ${id}::text::uuid`,
  /** Ends what waits for a target that is gone. */
  abandon: (channel: ChannelKind, targetId: string) =>
    sql`
      UPDATE notification_delivery SET state = 'failed', next_at = NULL
      WHERE channel = ${channel} AND target_id = ${targetId} AND state = 'waiting'`,
  /** Answers whether there may be more. */
  prune: (limits: { readonly beforeMs: EpochMs; readonly kept: number }) =>
    Effect.gen(function*() {
      yield* sql`DELETE FROM notification_cooldown WHERE told_at < ${new Date(limits.beforeMs)}`
      const gone = yield* sql`
        DELETE FROM notification_delivery WHERE id IN (
          SELECT id FROM notification_delivery WHERE state <> 'waiting' AND (created_at < ${new Date(limits.beforeMs)}
            OR created_at < (SELECT created_at FROM notification_delivery ORDER BY created_at DESC OFFSET ${limits.kept} LIMIT 1))
          ORDER BY created_at LIMIT ${pruneRows}
        ) RETURNING 1`
      return gone.length >= pruneRows
    }),
})

export const NotificationDeliveriesStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...evaluating(sql),
  ...working(sql),
  inTransaction: sql.withTransaction,
  /** Newest first. */
  list: (ruleId: PopupRuleId, limit: number, before: string | null) =>
    Effect.map(
      sql<Row>`
        SELECT id, rule_id AS "ruleId", event_id AS "eventId", event_type AS "eventType", channel, target, state,
          created_at AS "createdAt", next_at AS "nextAt", attempts
        FROM notification_delivery
        WHERE rule_id = ${ruleId} AND ${before === null ? sql`TRUE` : sql`id < ${before}::text::uuid`}
        ORDER BY id DESC LIMIT ${limit}`,
      (rows) => rows.map(deliveryOf),
    ),
}))
