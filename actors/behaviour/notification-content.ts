/**
 * What is told of an event by each channel of a rule, and to whom: pure but for the ids.
 *
 * Invariants
 * 1. Secrets are not in it: a delivery names a webhook or a subscription, and the channel opens it when it sends.
 */
import type { NodeId } from "#schema/common.ts"
import { eventTypeOf, type StoredEvent } from "#schema/event.ts"
import type { Delivery, Popup, PopupRule } from "#schema/notification-rules.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Effect, Predicate } from "effect"
import type { DeliveryContent, NewDelivery } from "../store/notification-deliveries.ts"
import type { PushRow } from "../store/notification-push.ts"
import type { WebhookRow } from "../store/notification-rules.ts"
import type { Person } from "./notification-people.ts"

/** Where the secret of a webhook belongs. */
export const webhookPlace = (id: string) => `notification/webhook/${id}`

/** Type of the event of a test; it is in no log. */
const testType = "popup.tested"

/** Who is there to be told. */
export interface Addressed {
  readonly people: ReadonlyArray<Person>
  readonly subscriptions: ReadonlyArray<PushRow>
  readonly webhooks: ReadonlyArray<WebhookRow>
}

export const testEvent = (id: string, nodeId: NodeId, nowMs: number): StoredEvent => ({
  position: 0,
  event: {
    id: `test:${id}`,
    source: `/nodes/${nodeId}/notification`,
    type: testType,
    time: nowMs,
    subject: nodeId,
    data: { name: "A test", reason: "somebody asked for a test of this popup rule" },
    nodeId,
    severity: "info",
  },
  resource: [],
  audience: null,
})

const textOf = (value: unknown): string | null => Predicate.isString(value) && value !== "" ? value : null

/** One line for a person: what it happened to, and why. */
const lineOf = ({ data, subject, type }: StoredEvent["event"]): string => {
  const what = textOf(data["name"]) ?? textOf(data["username"]) ?? subject
  const why = textOf(data["reason"]) ?? textOf(data["detail"]) ?? eventTypeOf(type)?.description ?? type
  return `${what}: ${why}`.replace(/\p{Cc}+/gu, " ").slice(0, 500)
}

export const popupOf = (rule: PopupRule, { event }: StoredEvent): Popup => ({
  ruleId: rule.id,
  rule: rule.name,
  sound: rule.sound,
  colour: rule.colour,
  title: eventTypeOf(event.type)?.title ?? (event.type === testType ? "Test" : event.type),
  text: lineOf(event),
  test: event.type === testType,
})

type Target = Pick<NewDelivery, "channel" | "targetId" | "target" | "nodeId">

const targetsOf = (rule: PopupRule, { people, subscriptions, webhooks }: Addressed): ReadonlyArray<Target> =>
  rule.channels.flatMap((channel): ReadonlyArray<Target> => {
    const { kind } = channel
    if (kind === "inApp") {
      const target = people.map(({ user }) => user.username).join(", ")
      return people.length === 0 ? [] : [{ channel: kind, targetId: "", target, nodeId: null }]
    }
    if (kind === "email") {
      return people.map(({ user }) => ({
        channel: kind,
        targetId: user.id,
        target: user.username,
        nodeId: null,
      }))
    }
    if (kind === "webhook") {
      return webhooks.filter((hook) => hook.id === channel.id && hook.disabledAt === null).map((hook) => ({
        channel: kind,
        targetId: hook.id,
        target: hook.url,
        nodeId: hook.nodeId,
      }))
    }
    const names = new Map(people.map(({ user }) => [user.id, user.username] as const))
    return subscriptions.filter(({ userId }) => names.has(userId)).map((one) => ({
      channel: kind,
      targetId: one.id,
      target: `${names.get(one.userId)} at ${one.service}`,
      nodeId: one.nodeId,
    }))
  })

/** The deliveries of one event by one rule. */
export const deliveriesOf = Effect.fnUntraced(
  function*(rule: PopupRule, stored: StoredEvent, addressed: Addressed, state: Delivery["state"]) {
    const { event, resource } = stored
    const content: DeliveryContent = {
      event: { ...event, time: new Date(event.time).toISOString() },
      resource,
      popup: popupOf(rule, stored),
      attachPicture: rule.channels.some((channel) => channel.kind === "email" && channel.attachPicture),
      audience: addressed.people.map(({ user }) => user.id),
    }
    return yield* Effect.forEach(targetsOf(rule, addressed), (target) =>
      Effect.map(uuid7, (id): NewDelivery => ({
        id,
        ruleId: rule.id,
        eventId: event.id,
        eventType: event.type,
        content,
        state,
        ...target,
      })))
  },
)
