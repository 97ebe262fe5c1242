/**
 * Words of the notification service: the messages of the live channel, notifications as a user has them.
 *
 * Invariants
 * 1. A cursor is opaque: it names a place in the log of events and is good on every node.
 * 2. A notification is an event whose type notifies; what a user did with it (read, deleted) is the user's own.
 */
import { Schema } from "effect"
import { Instant } from "./common.ts"
import { EventEnvelope, Severity } from "./event.ts"

/** Longest list of types, cursor and token that a client may send. */
const limits = { types: 64, cursor: 160, token: 4096 } as const

export const StreamCursor = Schema.String.check(Schema.isMaxLength(limits.cursor))
/** `camera.offline`, or `camera.*` for all that begin so. */
export const TypePattern = Schema.String.check(Schema.isPattern(/^[a-z]+(\.[a-z]+)*(\.\*)?$/), Schema.isMaxLength(64))
const token = Schema.String.check(Schema.isMaxLength(limits.token)).pipe(Schema.RedactedFromValue)

/** What a WebSocket client may send. */
export const ClientMessage = Schema.Union([
  /** Where no token came with the handshake: within ten seconds, first. What is left out is as the query said. */
  Schema.Struct({
    kind: Schema.Literal("hello"),
    token: Schema.optionalKey(token),
    lastEventId: Schema.optionalKey(StreamCursor),
    types: Schema.optionalKey(Schema.Array(TypePattern).check(Schema.isMaxLength(limits.types))),
    minimumSeverity: Schema.optionalKey(Severity),
  }),
  /** A fresh token of the same user, before the old one expires. */
  Schema.Struct({ kind: Schema.Literal("token"), token }),
])
export type ClientMessage = typeof ClientMessage.Type

/** What a client is sent, by WebSocket as such, by SSE with `kind` as the event's name and `cursor` as its id. */
export const StreamMessage = Schema.Union([
  /** The first: what follows begins behind `cursor`. */
  Schema.Struct({ kind: Schema.Literal("welcome"), cursor: StreamCursor }),
  Schema.Struct({ kind: Schema.Literal("event"), cursor: StreamCursor, event: EventEnvelope }),
  /** What was asked for is not kept any more: something may be missing before what follows. */
  Schema.Struct({ kind: Schema.Literal("reset"), cursor: StreamCursor }),
  /** Every 15 seconds: the channel works, and up to `cursor` there was nothing more to see. */
  Schema.Struct({ kind: Schema.Literal("alive"), cursor: StreamCursor }),
  /** The last one, SSE only; by WebSocket code and reason of the close frame say it. */
  Schema.Struct({ kind: Schema.Literal("closed"), code: Schema.Int, reason: Schema.String }),
]).annotate({ identifier: "StreamMessage" })
export type StreamMessage = typeof StreamMessage.Type

/** Why the server closes a channel (RFC 6455, section 7.4.2: 4000 to 4999 are ours). */
export const streamClose = {
  badMessage: { code: 4400, reason: "That message cannot be read" },
  unauthenticated: {
    code: 4401,
    reason: "The access token is missing, expired or not valid, or its session has ended",
  },
  forbidden: { code: 4403, reason: "notification:read is not granted" },
  noHello: { code: 4408, reason: "No token came within ten seconds" },
  silent: { code: 4409, reason: "Pings were not answered" },
  slow: { code: 4413, reason: "Too slow: go on from the last event received" },
  tooMany: { code: 4429, reason: "Too many channels are open" },
  stopping: { code: 1012, reason: "The node is stopping; go on from the last event received" },
  later: { code: 1013, reason: "The database is away; try again in a moment" },
} as const
export type StreamClose = keyof typeof streamClose

export const Notification = Schema.Struct({
  id: Schema.String,
  type: Schema.String,
  title: Schema.String,
  severity: Severity,
  time: Instant,
  read: Schema.Boolean,
  event: EventEnvelope,
}).annotate({ identifier: "Notification" })
export type Notification = typeof Notification.Type

export const UnreadCount = Schema.Struct({
  /** At most 1,000. */
  count: Schema.Int,
  /** There are more than `count`. */
  more: Schema.Boolean,
}).annotate({ identifier: "UnreadCount" })
export type UnreadCount = typeof UnreadCount.Type

/** There is no such notification, or not for this user. */
export class NotificationNotFound extends Schema.TaggedError<NotificationNotFound>()("NotificationNotFound", {
  id: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no notification ${this.id}`
  }
}
