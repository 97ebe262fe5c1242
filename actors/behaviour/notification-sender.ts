/**
 * Sends what waits in the queue of deliveries, and tests of rules.
 *
 * Invariants
 * 1. A delivery is claimed before it is attempted, and each attempt is written down with its outcome. One that a crash cut off is
 *    attempted again: at least once, and receivers know a repetition by its id.
 * 2. Waits between attempts are those of the channel, 10% more or less, and as long as the other side asks, up to a day.
 * 3. At most {@link atOnce} attempts run at once on a node, each {@link longestMs} at most.
 */
import type { ChannelDoors, ChannelMessage, Sent } from "#actors/channels/channel.ts"
import type { Network } from "#actors/channels/outbound.ts"
import { channels } from "#actors/channels/registry.ts"
import { Mailer } from "#actors/protocol/auth-smtp.ts"
import { Users } from "#actors/protocol/auth-users.ts"
import { Events } from "#actors/protocol/event.ts"
import { Snapshots } from "#actors/protocol/notification-rules.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { UserId } from "#schema/common.ts"
import { type ChannelKind, type PopupRule, ruleLimits, type RuleTest } from "#schema/notification-rules.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Cause, Clock, Context, Effect, Latch, Layer, Random, Schedule } from "effect"
import { answered } from "../store/answer.ts"
import { type DueDelivery, type NewDelivery, NotificationDeliveriesStore } from "../store/notification-deliveries.ts"
import { NotificationRulesStore } from "../store/notification-rules.ts"
import { chore } from "./chore.ts"
import { type Addressed, deliveriesOf, testEvent, webhookPlace } from "./notification-content.ts"
import { makePeople } from "./notification-people.ts"
import { makePushKeys } from "./notification-push.ts"

export interface SenderOptions {
  /** Where push services may be: users name them. */
  readonly pushNetwork: Network
  /** Contact in what is signed for push services (RFC 8292): `mailto:` or `https:`. */
  readonly pushContact: string
  /** Waits between attempts, in place of each channel's own; for tests. */
  readonly retriesMs?: ReadonlyArray<number>
}

const atOnce = 8
const claimed = 32
/** A mail may take two minutes. */
const longestMs = 150_000
/** A webhook that answers later than this has not answered. */
const postMs = 15_000
/** Without being woken, what is due is looked for this often. */
const lookEvery = "1 second"
const retryEvery = "2 seconds"
const longestDetail = 500

const unattempted: Sent = { outcome: "failed", detail: "it could not be attempted; the log knows more" }

/** What channels ask for, over the stores and the services. Outages are defects here: the attempt counts as failed. */
const makeDoors = Effect.fnUntraced(function*(options: SenderOptions) {
  const [mailer, events, users, vault] = yield* Effect.all([Mailer, Events, Users, Vault])
  const snapshots = yield* Snapshots
  const rules = yield* NotificationRulesStore
  const push = yield* makePushKeys
  const doors: ChannelDoors = {
    mail: mailer.send,
    publish: events.publish,
    reader: (id) =>
      users.get(id as UserId).pipe(
        Effect.map(({ email, enabled, locale, timeZone }) =>
          enabled && email !== null ? { address: email, locale, timeZone } : null
        ),
        Effect.catchTag("UserNotFound", () => Effect.succeed(null)),
        Effect.orDie,
      ),
    picture: snapshots.newest,
    webhook: Effect.fnUntraced(function*(id) {
      const row = yield* rules.webhook(id)
      if (row === null) return null
      const secret = yield* vault.open(webhookPlace(id), row.sealedSecret)
      return { url: row.url, secret, disabled: row.disabledAt !== null }
    }, Effect.orDie),
    subscription: (id) => Effect.orDie(push.target(id, options.pushContact)),
    pushNetwork: options.pushNetwork,
    timeoutMs: postMs,
  }
  return { doors, rules, push: push.store }
})

const messageOf = (delivery: NewDelivery | DueDelivery): ChannelMessage => ({
  deliveryId: delivery.id,
  targetId: delivery.targetId,
  ...delivery.content,
})

const make = Effect.fnUntraced(function*(options: SenderOptions) {
  const store = yield* NotificationDeliveriesStore
  const { nodeId } = yield* NodeIdentity
  const { doors, push, rules } = yield* makeDoors(options)
  const fresh = yield* makePeople
  const wake = Latch.makeUnsafe(false)

  /** One attempt; never fails. */
  const attempt = Effect.fnUntraced(function*(delivery: NewDelivery | DueDelivery) {
    const at = yield* Clock.currentTimeMillis
    const sent = yield* channels[delivery.channel].send(messageOf(delivery), doors).pipe(
      Effect.timeoutOrElse({
        duration: longestMs,
        orElse: () => Effect.succeed<Sent>({ outcome: "failed", detail: "it took too long" }),
      }),
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause) ?
          Effect.interrupt :
          Effect.as(Effect.logWarning(`A delivery by ${delivery.channel} could not be attempted`, cause), unattempted)
      ),
    )
    const tookMs = (yield* Clock.currentTimeMillis) - at
    return { sent, record: { at, tookMs, outcome: sent.outcome, detail: sent.detail.slice(0, longestDetail) } }
  })

  /** A target that does not exist any more is not asked again. */
  const forget = Effect.fnUntraced(
    function*({ channel, targetId }: { readonly channel: ChannelKind; readonly targetId: string }) {
      if (channel === "webhook") yield* rules.disableWebhook(targetId, yield* Clock.currentTimeMillis)
      if (channel === "webPush") yield* push.remove(targetId, null)
      yield* store.abandon(channel, targetId)
    },
  )

  const record = Effect.fnUntraced(function*(delivery: DueDelivery, done: Effect.Success<ReturnType<typeof attempt>>) {
    const { record, sent } = done
    const waits = options.retriesMs ?? channels[delivery.channel].retriesMs
    const wait = sent.outcome === "failed" ? waits[delivery.attempts.length] : undefined
    const jitter = 0.9 + 0.2 * (yield* Random.next)
    const nowMs = yield* Clock.currentTimeMillis
    const nextMs = wait === undefined ? null : Math.round(nowMs + Math.max(wait * jitter, sent.retryAfterMs ?? 0))
    const state = sent.outcome === "delivered" ?
      "delivered" as const :
      nextMs === null ?
      "failed" as const :
      "waiting" as const
    yield* store.attempted(delivery.id, record, state, nextMs)
    if (sent.outcome === "gone") yield* forget(delivery)
    if (sent.outcome === "delivered" && delivery.channel === "webPush") yield* push.delivered(delivery.targetId, nowMs)
  })

  const round = Effect.gen(function*() {
    wake.closeUnsafe()
    const due = yield* store.claim(nodeId, yield* Clock.currentTimeMillis, claimed)
    const open = new Set(due.map(({ id }) => id))
    const settle = (delivery: DueDelivery) =>
      Effect.flatMap(attempt(delivery), (done) => {
        open.delete(delivery.id)
        // What was sent is written down, also when the node ends.
        return Effect.uninterruptible(record(delivery, done))
      })
    yield* Effect.forEach(due, settle, { concurrency: atOnce, discard: true }).pipe(
      Effect.onInterrupt(() => Effect.forEach(open, (id) => Effect.ignore(store.release(id)), { discard: true })),
    )
    if (due.length < claimed) yield* Effect.timeoutOption(wake.await, lookEvery)
  }).pipe(
    answered,
    Effect.catchTag("DependencyUnavailable", () => Effect.sleep(retryEvery)),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause) ?
        Effect.interrupt :
        Effect.andThen(Effect.logError("Deliveries could not be sent", cause), Effect.sleep(retryEvery))
    ),
  )
  yield* Effect.forkScoped(Effect.forever(round))

  const prune = Effect.gen(function*() {
    const beforeMs = (yield* Clock.currentTimeMillis) - ruleLimits.keptDays * 86_400_000
    yield* Effect.repeat(store.prune({ beforeMs, kept: ruleLimits.kept }), { while: (more) => more })
  })
  yield* Effect.forkScoped(Effect.repeat(chore("Pruning deliveries", prune), Schedule.spaced("1 hour")))

  return {
    /** Something is due. */
    wake: Effect.sync(() => wake.openUnsafe()),
    test: Effect.fnUntraced(function*(rule: PopupRule) {
      const people = yield* (yield* fresh).people(rule)
      const nowMs = yield* Clock.currentTimeMillis
      const stored = testEvent(yield* uuid7, nodeId, nowMs)
      const users = people.map(({ user }) => user.id)
      const addressed: Addressed = {
        people,
        subscriptions: yield* push.ofUsers(users, users.length * ruleLimits.subscriptions),
        webhooks: yield* rules.webhooks(rule.id),
      }
      const made = yield* deliveriesOf(rule, stored, addressed, "failed")
      yield* store.add(made, nowMs)
      const results = yield* Effect.forEach(made, (delivery) =>
        Effect.gen(function*() {
          const { record, sent } = yield* attempt(delivery)
          yield* store.attempted(delivery.id, record, sent.outcome === "delivered" ? "delivered" : "failed", null)
          if (sent.outcome === "gone") yield* forget(delivery)
          const { channel, target } = delivery
          return { channel, target, outcome: sent.outcome, detail: record.detail }
        }), { concurrency: atOnce })
      return { event: stored.event, deliveries: results } satisfies RuleTest
    }, answered),
  }
})

export class NotificationSender
  extends Context.Service<NotificationSender, Effect.Success<ReturnType<typeof make>>>()(
    "nightjar/actors/NotificationSender",
  )
{}

export const layer = (options: SenderOptions) => Layer.effect(NotificationSender, make(options))
