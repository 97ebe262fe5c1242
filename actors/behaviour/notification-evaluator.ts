/**
 * Holds the log of events against the popup rules.
 *
 * Invariants
 * 1. One node at a time does: whoever holds the lock of the evaluator's row. What is to be delivered is written in the transaction
 *    that moves its position, so a crash neither skips an event nor tells it twice.
 * 2. The first start begins with what happens from then on.
 * 3. A popup is an event too, and causes no popup.
 * 4. An event that a rule cannot be held against (a mistake of ours) is logged and passed over: it must not hold up all others.
 * 5. Bounds: {@link pageSize} events in one transaction; an event older than `ruleLimits.oldestHours` is passed over; beyond
 *    `ruleLimits.waiting` deliveries that wait, further ones are written down as dropped.
 */
import { EventLog } from "#actors/protocol/event.ts"
import type { StoredEvent } from "#schema/event.ts"
import { type PopupRule, ruleLimits } from "#schema/notification-rules.ts"
import { isScheduled, passes } from "#schema/notification-schedule.ts"
import { Cause, Clock, Effect, Layer } from "effect"
import { answered } from "../store/answer.ts"
import { NotificationDeliveriesStore } from "../store/notification-deliveries.ts"
import { NotificationPushStore } from "../store/notification-push.ts"
import { NotificationRulesStore } from "../store/notification-rules.ts"
import { deliveriesOf } from "./notification-content.ts"
import { makePeople, type People } from "./notification-people.ts"
import { NotificationSender } from "./notification-sender.ts"

const pageSize = 200
/** How soon an event is told at the latest, where nothing is in the way. */
const lookEvery = "500 millis"
const retryEvery = "2 seconds"

/** Whether a rule wants an event, leaving out the cooldown and who may hear of it. */
const wants = Effect.fnUntraced(function*(rule: PopupRule, stored: StoredEvent, people: People, nowMs: number) {
  const { time, type } = stored.event
  if (type.startsWith("popup.") || nowMs - time > ruleLimits.oldestHours * 3_600_000) return false
  return isScheduled(rule.schedule, time) && passes(rule.filter, yield* people.within(rule), stored)
})

const make = Effect.gen(function*() {
  const log = yield* EventLog
  const sender = yield* NotificationSender
  const store = yield* NotificationDeliveriesStore
  const rules = yield* NotificationRulesStore
  const push = yield* NotificationPushStore
  const fresh = yield* makePeople
  let seen = -1

  /** Writes down what one rule tells of one event; answers how many deliveries that makes. */
  const tell = Effect.fnUntraced(
    function*(rule: PopupRule, stored: StoredEvent, people: People, waiting: number, nowMs: number) {
      if (!(yield* wants(rule, stored, people, nowMs))) return 0
      const hearing = yield* people.mayHear(rule, stored)
      const users = hearing.map(({ user }) => user.id)
      const pushes = rule.channels.some(({ kind }) => kind === "webPush")
      const addressed = {
        people: hearing,
        subscriptions: pushes ? yield* push.ofUsers(users, users.length * ruleLimits.subscriptions) : [],
        webhooks: yield* rules.webhooks(rule.id),
      }
      const state = waiting >= ruleLimits.waiting ? "dropped" as const : "waiting" as const
      const made = yield* deliveriesOf(rule, stored, addressed, state)
      if (made.length === 0) return 0
      const { subject, time } = stored.event
      const due = rule.cooldownSeconds === 0 || (yield* store.warm(rule.id, subject, time, rule.cooldownSeconds))
      if (!due) return 0
      yield* store.add(made, nowMs)
      return made.length
    },
    (told, rule, stored) =>
      Effect.catchDefect(
        told,
        (defect) =>
          Effect.as(Effect.logError(`Rule ${rule.id} could not be held against event ${stored.event.id}`, defect), 0),
      ),
  )

  /** One page of events; answers whether there may be more. */
  const page = store.inTransaction(Effect.gen(function*() {
    const latest = yield* log.latest()
    const position = yield* store.lockPosition(latest)
    // Somebody else is at it.
    if (position === null) return false
    const events = yield* log.after(position, pageSize)
    const last = events.at(-1)
    if (last === undefined) {
      seen = position
      return false
    }
    const active = yield* rules.list(true, ruleLimits.rules, null)
    if (active.length > 0) {
      const people = yield* fresh
      const nowMs = yield* Clock.currentTimeMillis
      let waiting = yield* store.waiting()
      for (const stored of events) {
        for (const rule of active) waiting += yield* tell(rule, stored, people, waiting, nowMs)
      }
    }
    yield* store.setPosition(last.position)
    seen = last.position
    return events.length === pageSize
  }))

  const round = Effect.gen(function*() {
    if ((yield* log.latest()) <= seen) return
    const before = seen
    while (yield* page) yield* sender.wake
    if (seen !== before) yield* sender.wake
  }).pipe(
    answered,
    Effect.andThen(Effect.sleep(lookEvery)),
    Effect.catchTag("DependencyUnavailable", () => Effect.sleep(retryEvery)),
    Effect.catchCause((cause) =>
      Cause.hasInterruptsOnly(cause) ?
        Effect.interrupt :
        Effect.andThen(Effect.logError("Popup rules could not be held against events", cause), Effect.sleep(retryEvery))
    ),
  )
  yield* Effect.forkScoped(Effect.forever(round))
})

export const layer = Layer.effectDiscard(make)
