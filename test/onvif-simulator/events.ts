/**
 * Events of the simulated device: pull points with queues of their own, and properties that a new one is told of first.
 *
 * Invariants
 * 1. A pull waits for its `Timeout`, unless something is there; what was pulled is not told again (but for the quirk).
 */
import { escape, invalid, type Part, type Request, unsupported } from "./soap.ts"
import type { State } from "./state.ts"

export interface Raised {
  readonly topic: string
  readonly source: Readonly<Record<string, string>>
  readonly data: Readonly<Record<string, string>>
  readonly operation: "Initialized" | "Changed" | "Deleted" | null
  readonly time: string
}

const list = (tag: string, all: Readonly<Record<string, string>>) =>
  `<tt:${tag}>` +
  Object.entries(all).map(([name, value]) => `<tt:SimpleItem Name="${name}" Value="${escape(value)}"/>`).join("") +
  `</tt:${tag}>`

const written = ({ data, operation, source, time, topic }: Raised): string =>
  `<wsnt:NotificationMessage><wsnt:Topic Dialect="http://www.onvif.org/ver10/tev/topicExpression/ConcreteSet">${topic}` +
  `</wsnt:Topic><wsnt:Message><tt:Message UtcTime="${time}"${
    operation === null ? "" : ` PropertyOperation="${operation}"`
  }>${list("Source", source)}${list("Data", data)}</tt:Message></wsnt:Message></wsnt:NotificationMessage>`

/** Pull points by number, each with what waits, and who waits for it. */
export class Events {
  readonly #queues = new Map<string, { waiting: Array<Raised>; wake: (() => void) | null }>()
  readonly #properties = new Map<string, Raised>()
  #made = 0

  get subscriptions(): number {
    return this.#queues.size
  }

  /** A property that changed; without `operation` something that happened in a moment. */
  raise(one: Omit<Raised, "time" | "operation"> & { readonly moment?: boolean; readonly time?: string }): void {
    const { data, moment = false, source, topic } = one
    const raised: Raised = {
      topic,
      source,
      data,
      operation: moment ? null : "Changed",
      time: one.time ?? new Date().toISOString(),
    }
    if (!moment) this.#properties.set(JSON.stringify([topic, source]), raised)
    for (const queue of this.#queues.values()) {
      queue.waiting.push(raised)
      queue.wake?.()
    }
  }

  /** As a restart does: nobody is subscribed any more. */
  forget(): void {
    for (const { wake } of this.#queues.values()) wake?.()
    this.#queues.clear()
  }

  subscribe(): string {
    this.#made += 1
    this.#queues.set(String(this.#made), {
      waiting: [...this.#properties.values()].map((one) => ({ ...one, operation: "Initialized" as const })),
      wake: null,
    })
    return String(this.#made)
  }

  end(id: string): boolean {
    return this.#queues.delete(id)
  }

  has(id: string): boolean {
    return this.#queues.has(id)
  }

  /** Calls back when something is there, or after the time. */
  wait(id: string, ms: number, then: () => void): void {
    const queue = this.#queues.get(id)
    if (queue === undefined || queue.waiting.length > 0 || ms <= 0) {
      then()
      return
    }
    const done = () => {
      clearTimeout(timer)
      queue.wake = null
      then()
    }
    const timer = setTimeout(done, ms)
    queue.wake = done
  }

  take(id: string, limit: number, repeats: boolean): ReadonlyArray<Raised> {
    const queue = this.#queues.get(id)
    if (queue === undefined) throw invalid("ResourceUnknown", "There is no such subscription")
    const again = repeats ? [...this.#properties.values()] : []
    return [...queue.waiting.splice(0, limit), ...again].slice(0, limit)
  }
}

/** Which pull point a request is for: by its path, or by the header that the device asked for. */
export const pullPointOf = (url: string, header: Part): string =>
  /\/subscription\/(\d+)$/.exec(url)?.[1] ?? header.at("SubscriptionId").text

/** How long a pull may wait, in milliseconds; null: it is none. */
export const pullWaitMs = ({ quirks }: State, { body, operation }: Request): number | null =>
  operation !== "PullMessages" || quirks.doesNotWait ?
    null :
    Number(/^PT([\d.]+)S$/.exec(body.at("Timeout").text)?.[1] ?? 0) * 1000

const times = () =>
  `<wsnt:CurrentTime>${new Date().toISOString()}</wsnt:CurrentTime><wsnt:TerminationTime>${
    new Date(Date.now() + 120_000).toISOString()
  }</wsnt:TerminationTime>`

export const events = (state: State, { body, header, operation }: Request, url: string): string => {
  if (state.quirks.noEvents) throw unsupported(operation)
  if (operation === "CreatePullPointSubscription") {
    const id = state.events.subscribe()
    const inHeader = state.quirks.subscriptionInHeader
    return `<tev:SubscriptionReference><wsa:Address>${state.base}/onvif/events${
      inHeader ? "" : `/subscription/${id}`
    }` +
      `</wsa:Address>` +
      (inHeader ?
        `<wsa:ReferenceParameters><own:SubscriptionId xmlns:own="urn:simulated">${id}</own:SubscriptionId>` +
        `</wsa:ReferenceParameters>` :
        "") +
      `</tev:SubscriptionReference>${times()}`
  }
  const id = pullPointOf(url, header)
  if (!state.events.has(id)) throw invalid("ResourceUnknown", "There is no such subscription")
  switch (operation) {
    case "PullMessages":
      return times() +
        state.events.take(id, body.number("MessageLimit", 1), state.quirks.repeatsEvents).map(written).join("")
    case "Renew":
      return times()
    case "Unsubscribe":
      state.events.end(id)
      return ""
    default:
      throw unsupported(operation)
  }
}
