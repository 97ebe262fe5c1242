/** SQL of popup rules and their webhooks. */
import type { EpochMs } from "#schema/common.ts"
import type {
  Channel,
  PopupRule,
  PopupRuleId,
  Recipients,
  RuleFilter,
  RuleSchedule,
} from "#schema/notification-rules.ts"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

interface Row {
  readonly id: PopupRuleId
  readonly name: string
  readonly active: boolean
  readonly filter: RuleFilter
  readonly schedule: RuleSchedule | null
  readonly cooldownSeconds: number
  readonly sound: PopupRule["sound"]
  readonly colour: string | null
  readonly recipients: Recipients
  readonly channels: ReadonlyArray<KeptChannel>
  readonly createdAt: Date
  readonly updatedAt: Date
  readonly version: number
}

/** Webhooks have rows of their own; here stands which. */
export type KeptChannel =
  | { readonly kind: "inApp" | "webPush" }
  | { readonly kind: "email"; readonly attachPicture: boolean }
  | { readonly kind: "webhook"; readonly id: string }

export interface WebhookRow {
  readonly id: string
  readonly ruleId: PopupRuleId
  readonly url: string
  readonly sealedSecret: string
  /** Whose vault opens the secret. */
  readonly nodeId: string
  readonly disabledAt: Date | null
}

export type RuleContent = Omit<PopupRule, "id" | "channels" | "createdAt" | "updatedAt" | "version"> & {
  readonly channels: ReadonlyArray<KeptChannel>
}

const ruleOf = (row: Row, webhooks: ReadonlyArray<WebhookRow>): PopupRule => ({
  ...row,
  createdAt: row.createdAt.getTime(),
  updatedAt: row.updatedAt.getTime(),
  channels: row.channels.map((channel): Channel => {
    if (channel.kind === "email") return channel
    if (channel.kind !== "webhook") return { kind: channel.kind }
    const hook = webhooks.find((one) => one.id === channel.id)
    const { disabledAt, id, url } = hook ?? { disabledAt: null, id: channel.id, url: "" }
    return { kind: "webhook", id, url, hasSecret: true, disabledAt: disabledAt === null ? null : disabledAt.getTime() }
  }),
})

const json = (value: unknown) => JSON.stringify(value)

export const NotificationRulesStore = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns = sql.literal(`id, name, active, filter, schedule, cooldown_seconds AS "cooldownSeconds", sound, colour,
    recipients, channels, created_at AS "createdAt", updated_at AS "updatedAt", version`)
  const hookColumns = sql.literal(
    `id, rule_id AS "ruleId", url, sealed_secret AS "sealedSecret", node_id AS "nodeId", disabled_at AS "disabledAt"`,
  )
  const webhooksOf = (ids: ReadonlyArray<string>) =>
    ids.length === 0 ?
      Effect.succeed([]) :
      sql<WebhookRow>`SELECT ${hookColumns} FROM notification_webhook WHERE rule_id IN ${sql.in(ids)} LIMIT 5000`
  const complete = Effect.fnUntraced(function*(rows: ReadonlyArray<Row>) {
    const webhooks = yield* webhooksOf(rows.map((row) => row.id))
    return rows.map((row) => ruleOf(row, webhooks.filter((hook) => hook.ruleId === row.id)))
  })
  return {
    inTransaction: sql.withTransaction,
    /** By name. */
    list: (active: boolean | null, limit: number, after: { readonly name: string; readonly id: string } | null) =>
      Effect.flatMap(
        sql<Row>`
          SELECT ${columns} FROM notification_rule
          WHERE ${active === null ? sql`TRUE` : sql`active = ${active}`}
            AND ${after === null ? sql`TRUE` : sql`(name, id) > (${after.name}, ${after.id}::text::uuid)`}
          ORDER BY name, id LIMIT ${limit}`,
        complete,
      ),
    get: (id: PopupRuleId) =>
      sql<Row>`SELECT ${columns} FROM notification_rule WHERE id = ${id}`.pipe(
        Effect.flatMap(complete),
        Effect.map(([rule]) => rule ?? null),
      ),
    count: () =>
      Effect.map(
        sql<{ readonly count: number }>`SELECT count(*)::integer AS count FROM notification_rule`,
        ([row]) => row?.count ?? 0,
      ),
    insert: (id: PopupRuleId, rule: RuleContent, nowMs: EpochMs) => {
      const now = new Date(nowMs)
      return sql`
        INSERT INTO notification_rule (id, name, active, filter, schedule, cooldown_seconds, sound, colour, recipients,
          channels, created_at, updated_at, version)
        VALUES (${id}, ${rule.name}, ${rule.active}, ${json(rule.filter)}::text::jsonb,
          ${rule.schedule === null ? null : json(rule.schedule)}::text::jsonb, ${rule.cooldownSeconds}, ${rule.sound},
          ${rule.colour}, ${json(rule.recipients)}::text::jsonb, ${
        json(rule.channels)
      }::text::jsonb, ${now}, ${now}, 1)`
    },
    /** Answers whether the row was there with this version. */
    replace: (id: PopupRuleId, rule: RuleContent, ifMatch: number | null, nowMs: EpochMs) =>
      Effect.map(
        sql`
          UPDATE notification_rule SET name = ${rule.name}, active = ${rule.active}, filter = ${
          json(rule.filter)
        }::text::jsonb,
            schedule = ${rule.schedule === null ? null : json(rule.schedule)}::text::jsonb,
            cooldown_seconds = ${rule.cooldownSeconds}, sound = ${rule.sound}, colour = ${rule.colour},
            recipients = ${json(rule.recipients)}::text::jsonb, channels = ${json(rule.channels)}::text::jsonb,
            updated_at = ${new Date(nowMs)}, version = version + 1
          WHERE id = ${id} AND ${ifMatch === null ? sql`TRUE` : sql`version = ${ifMatch}`} RETURNING 1`,
        (rows) => rows.length > 0,
      ),
    toggle: (id: PopupRuleId, active: boolean, ifMatch: number | null, nowMs: EpochMs) =>
      Effect.map(
        sql`
          UPDATE notification_rule SET active = ${active}, updated_at = ${new Date(nowMs)}, version = version + 1
          WHERE id = ${id} AND ${ifMatch === null ? sql`TRUE` : sql`version = ${ifMatch}`} RETURNING 1`,
        (rows) => rows.length > 0,
      ),
    remove: (id: PopupRuleId, ifMatch: number | null) =>
      Effect.map(
        sql`
          DELETE FROM notification_rule
          WHERE id = ${id} AND ${ifMatch === null ? sql`TRUE` : sql`version = ${ifMatch}`} RETURNING 1`,
        (rows) => rows.length > 0,
      ),
    webhooks: (ruleId: PopupRuleId) => webhooksOf([ruleId]),
    webhook: (id: string) =>
      Effect.map(
        sql<WebhookRow>`SELECT ${hookColumns} FROM notification_webhook WHERE id = ${id}::text::uuid`,
        ([row]) => row ?? null,
      ),
    /** Those of the rule that stand here, and no others. */
    setWebhooks: Effect.fnUntraced(function*(ruleId: PopupRuleId, hooks: ReadonlyArray<Omit<WebhookRow, "ruleId">>) {
      const ids = hooks.map((hook) => hook.id)
      yield* ids.length === 0 ?
        sql`DELETE FROM notification_webhook WHERE rule_id = ${ruleId}` :
        sql`DELETE FROM notification_webhook WHERE rule_id = ${ruleId} AND id NOT IN ${sql.in(ids)}`
      yield* Effect.forEach(hooks, (hook) =>
        sql`
        INSERT INTO notification_webhook (id, rule_id, url, sealed_secret, node_id, disabled_at)
        VALUES (${hook.id}, ${ruleId}, ${hook.url}, ${hook.sealedSecret}, ${hook.nodeId}, ${hook.disabledAt})
        ON CONFLICT (id) DO UPDATE SET sealed_secret = excluded.sealed_secret, node_id = excluded.node_id,
          disabled_at = excluded.disabled_at`, { discard: true })
    }),
    disableWebhook: (id: string, nowMs: EpochMs) =>
      sql`UPDATE notification_webhook SET disabled_at = ${new Date(nowMs)} WHERE id = ${id}::text::uuid`,
  }
})
