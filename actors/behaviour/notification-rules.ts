/**
 * The service `PopupRules`: keeps the rules and the secrets of their webhooks, tests them, tells what was delivered.
 *
 * Invariants
 * 1. A secret is made or taken once, sealed, and shown only in the answer that made it.
 * 2. A test goes through the same channels as the real thing, one attempt each, and stands in the same log.
 */
import { PopupRules } from "#actors/protocol/notification-rules.ts"
import { ResourceGroups } from "#actors/protocol/permission.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { PageRequest } from "#schema/common.ts"
import { Uuid7 } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import {
  type ChannelInput,
  type PopupRule,
  PopupRuleId,
  type PopupRuleInput,
  PopupRuleNotFound,
  PopupRulesExhausted,
  ruleLimits,
  withDefaults,
} from "#schema/notification-rules.ts"
import { InvalidInput, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import { randomBytes } from "node:crypto"
import { answered } from "../store/answer.ts"
import { NotificationDeliveriesStore } from "../store/notification-deliveries.ts"
import { type KeptChannel, NotificationRulesStore, type WebhookRow } from "../store/notification-rules.ts"
import { webhookPlace } from "./notification-content.ts"
import { NotificationSender } from "./notification-sender.ts"

const listCursor = cursorOf("popup-rules", Schema.Struct({ name: Schema.String, id: Uuid7 }))
const deliveryCursor = cursorOf("popup-deliveries", Uuid7)

const newSecret = () => Redacted.make(`whsec_${randomBytes(32).toString("base64")}`)
const stale = new VersionConflict({ message: "The popup rule was changed by somebody else" })

type Rules = Effect.Success<typeof NotificationRulesStore>

/** The channels of an input as they are kept, with the webhooks' rows and the secrets that are new. */
const makeSealing = Effect.gen(function*() {
  const vault = yield* Vault
  const { nodeId } = yield* NodeIdentity

  const hookOf = Effect.fnUntraced(
    function*(input: ChannelInput & { readonly kind: "webhook" }, before: WebhookRow | undefined) {
      const id = before?.id ?? (yield* uuid7)
      const kept = { id, url: input.url, disabledAt: null }
      if (before !== undefined && input.secret === undefined) {
        const { nodeId, sealedSecret } = before
        return { row: { ...kept, nodeId, sealedSecret }, made: null }
      }
      const secret = input.secret ?? newSecret()
      const sealedSecret = yield* vault.seal(webhookPlace(id), secret)
      return { row: { ...kept, nodeId, sealedSecret }, made: input.secret === undefined ? secret : null }
    },
  )

  return Effect.fnUntraced(function*(inputs: ReadonlyArray<ChannelInput>, before: ReadonlyArray<WebhookRow>) {
    const channels: Array<KeptChannel> = []
    const hooks: Array<Omit<WebhookRow, "ruleId">> = []
    const newSecrets: Array<{ readonly url: string; readonly secret: string }> = []
    for (const input of inputs) {
      if (input.kind !== "webhook") {
        channels.push(input)
        continue
      }
      const { made, row } = yield* hookOf(input, before.find((one) => one.url === input.url))
      channels.push({ kind: "webhook", id: row.id })
      hooks.push(row)
      if (made !== null) newSecrets.push({ url: input.url, secret: Redacted.value(made) })
    }
    return { channels, hooks, newSecrets }
  })
})

const finding = (rules: Rules) => (id: PopupRuleId) =>
  Effect.flatMap(
    rules.get(id),
    (rule) => rule === null ? Effect.fail(new PopupRuleNotFound({ id })) : Effect.succeed(rule),
  )

const make = Effect.gen(function*() {
  const rules = yield* NotificationRulesStore
  const deliveries = yield* NotificationDeliveriesStore
  const groups = yield* ResourceGroups
  const sender = yield* NotificationSender
  const seal = yield* makeSealing
  const one = finding(rules)

  const checked = Effect.fnUntraced(function*(input: PopupRuleInput) {
    for (const id of input.filter?.resourceGroups ?? []) {
      yield* groups.get(id).pipe(
        Effect.catchTag("ResourceGroupNotFound", () =>
          Effect.fail(InvalidInput.at("/payload/filter/resourceGroups", `there is no resource group ${id}`))),
      )
    }
    const personal = input.channels.some(({ kind }) => kind !== "webhook")
    const nobody = (input.recipients?.users ?? []).length === 0 && (input.recipients?.roles ?? []).length === 0
    if (personal && nobody) {
      return yield* InvalidInput.at("/payload/recipients", "in-app, e-mail and Web Push need recipients")
    }
  })
  /** Somebody else was faster, or it is gone. */
  const changed = Effect.fnUntraced(function*(id: PopupRuleId, done: boolean) {
    if (done) return
    yield* one(id)
    return yield* stale
  })

  return PopupRules.of({
    list: Effect.fnUntraced(function*(active: boolean | null, request: PageRequest) {
      const after = yield* listCursor.decode(request.cursor)
      const rows = yield* rules.list(active, request.limit + 1, after)
      const position = ({ id, name }: PopupRule) => ({ id, name })
      return pageFrom({ rows, limit: request.limit, cursor: listCursor, position, item: (rule) => rule })
    }, answered),
    get: (id) => answered(one(id)),
    create: Effect.fnUntraced(function*(input) {
      yield* checked(input)
      const id = PopupRuleId.make(yield* uuid7)
      const nowMs = yield* Clock.currentTimeMillis
      const { channels, hooks, newSecrets } = yield* seal(input.channels, [])
      yield* rules.inTransaction(Effect.gen(function*() {
        if ((yield* rules.count()) >= ruleLimits.rules) {
          return yield* new PopupRulesExhausted({ limit: ruleLimits.rules })
        }
        yield* rules.insert(id, { ...withDefaults(input), channels }, nowMs)
        yield* rules.setWebhooks(id, hooks)
      }))
      const made = yield* Effect.catchTag(one(id), "PopupRuleNotFound", Effect.die)
      return { ...made, newSecrets }
    }, answered),
    update: Effect.fnUntraced(function*(id, input, ifMatch) {
      yield* checked(input)
      yield* one(id)
      const nowMs = yield* Clock.currentTimeMillis
      const { channels, hooks, newSecrets } = yield* seal(input.channels, yield* rules.webhooks(id))
      yield* rules.inTransaction(Effect.gen(function*() {
        yield* changed(id, yield* rules.replace(id, { ...withDefaults(input), channels }, ifMatch, nowMs))
        yield* rules.setWebhooks(id, hooks)
      }))
      return { ...(yield* one(id)), newSecrets }
    }, answered),
    toggle: Effect.fnUntraced(function*(id, active, ifMatch) {
      yield* changed(id, yield* rules.toggle(id, active, ifMatch, yield* Clock.currentTimeMillis))
      return yield* one(id)
    }, answered),
    remove: Effect.fnUntraced(function*(id, ifMatch) {
      yield* changed(id, yield* rules.remove(id, ifMatch))
    }, answered),
    test: (id) => answered(Effect.flatMap(one(id), sender.test)),
    deliveries: Effect.fnUntraced(function*(id, request) {
      yield* one(id)
      const before = yield* deliveryCursor.decode(request.cursor)
      const rows = yield* deliveries.list(id, request.limit + 1, before)
      return pageFrom({
        rows,
        limit: request.limit,
        cursor: deliveryCursor,
        position: (row) => row.id,
        item: (row) => row,
      })
    }, answered),
  })
})

export const layer = Layer.effect(PopupRules, make)
