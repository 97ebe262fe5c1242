/**
 * What a notification channel is: something that tells one message to one target, and says what became of it.
 *
 * Invariants
 * 1. A channel keeps nothing and never fails: whatever happens is an outcome. Trying again is the queue's business.
 * 2. `retriesMs` bounds how often and how long: one wait for each further attempt.
 */
import type { Mail, MailFailed } from "#schema/auth-smtp.ts"
import type { EventDraft, EventEnvelope, EventResource } from "#schema/event.ts"
import type { ChannelKind, Outcome, Popup } from "#schema/notification-rules.ts"
import type { Effect, Redacted } from "effect"
import type { Network } from "./outbound.ts"

export interface ChannelMessage {
  /** The same for each attempt: receivers know a repetition by it. */
  readonly deliveryId: string
  readonly targetId: string
  readonly event: Omit<EventEnvelope, "time"> & { readonly time: string }
  readonly resource: ReadonlyArray<EventResource>
  readonly popup: Popup
  readonly attachPicture: boolean
  readonly audience: ReadonlyArray<string>
}

export interface Sent {
  readonly outcome: Outcome
  /** For a person. */
  readonly detail: string
  /** The other side asks to be left alone for so long. */
  readonly retryAfterMs?: number
}

export interface WebhookTarget {
  readonly url: string
  /** `whsec_…` */
  readonly secret: Redacted.Redacted
  readonly disabled: boolean
}

export interface PushTarget {
  readonly endpoint: string
  readonly keys: { readonly p256dh: string; readonly auth: string }
  readonly vapid: { readonly publicKey: string; readonly privateKey: Redacted.Redacted; readonly subject: string }
}

/** Who reads a mail. */
export interface Reader {
  readonly address: string
  /** BCP 47; `null`: not said. */
  readonly locale: string | null
  /** IANA name; `null`: not said. */
  readonly timeZone: string | null
}

/** What channels ask for. A target that does not exist any more is `null`. */
export interface ChannelDoors {
  readonly mail: (mail: Mail) => Effect.Effect<void, MailFailed>
  readonly publish: (draft: EventDraft) => Effect.Effect<void>
  /** A user who may sign in and has a mail address. */
  readonly reader: (userId: string) => Effect.Effect<Reader | null>
  readonly picture: (
    of: ReadonlyArray<EventResource>,
  ) => Effect.Effect<{ readonly filename: string; readonly contentType: string; readonly content: Uint8Array } | null>
  readonly webhook: (id: string) => Effect.Effect<WebhookTarget | null>
  readonly subscription: (id: string) => Effect.Effect<PushTarget | null>
  /** Where push services may be. Users name them, not administrators. */
  readonly pushNetwork: Network
  readonly timeoutMs: number
}

export interface NotificationChannel {
  readonly kind: ChannelKind
  readonly retriesMs: ReadonlyArray<number>
  readonly send: (message: ChannelMessage, doors: ChannelDoors) => Effect.Effect<Sent>
}

const second = 1_000
const minute = 60 * second
const hour = 60 * minute

/** Standard Webhooks' own: nine further attempts over three days. */
export const overDays = [
  5 * second,
  5 * minute,
  30 * minute,
  2 * hour,
  5 * hour,
  10 * hour,
  14 * hour,
  20 * hour,
  24 * hour,
]
/** Five further attempts over a day: news that is older is none. */
export const overADay = [30 * second, 5 * minute, 30 * minute, 3 * hour, 12 * hour]
