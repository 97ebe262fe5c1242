/**
 * Everything that happened: one envelope (the members of CloudEvents 1.0 that the product uses, the node, the severity) and the
 * registry of types.
 *
 * Invariants
 * 1. `type` is past tense and dotted (`recording.gap.opened`); `id` is unique, and the same when the same fact is told twice.
 * 2. `data` carries no secret; its shape is that of the registry.
 * 3. Nobody sees an event without the permission that its type names, for the resource it happened to.
 */
import { Schema } from "effect"
import { CameraId, ChannelId, Instant, NodeId, RecordingId, StreamId, UserId } from "./common.ts"
import { failoverEventTypes } from "./federation-event.ts"
import type { Permission } from "./permission.ts"

export const Severity = Schema.Literals(["info", "warning", "critical"])
export type Severity = typeof Severity.Type

const severities = ["info", "warning", "critical"] as const
export const atLeast = (severity: Severity, minimum: Severity): boolean =>
  severities.indexOf(severity) >= severities.indexOf(minimum)

export const EventEnvelope = Schema.Struct({
  id: Schema.String,
  /** `/nodes/<nodeId>/<slice>` (CloudEvents 1.0, `source`: a URI reference). */
  source: Schema.String,
  type: Schema.String.check(Schema.isPattern(/^[a-z]+(\.[a-z]+)+$/)),
  time: Instant,
  /** Identifier of what it happened to. */
  subject: Schema.String,
  data: Schema.Record(Schema.String, Schema.Json),
  nodeId: NodeId,
  severity: Severity,
}).annotate({ identifier: "Event", description: "What happened: the members of CloudEvents 1.0, node and severity" })
export type EventEnvelope = typeof EventEnvelope.Type

/** One thing that an event is about, or what contains it: what permissions are asked for. */
export const EventResource = Schema.Struct({
  kind: Schema.Literals(["camera", "channel", "recording", "layout", "file"]),
  id: Schema.String,
})
export type EventResource = typeof EventResource.Type

interface TypeDefinition {
  /** A few words for a person. */
  readonly title: string
  readonly description: string
  /** Unless whoever tells it says otherwise. */
  readonly severity: Severity
  /** What one must hold to see it. */
  readonly permission: Permission
  /** Also a notification: counted as unread until somebody has read it. */
  readonly notify: boolean
  readonly data: Schema.Codec<{ readonly [member: string]: Schema.Json }, unknown>
}

const camera = Schema.Struct({
  name: Schema.String,
  cameraId: CameraId,
  channelId: ChannelId,
  streamId: StreamId,
  /** `main` or `sub`. */
  role: Schema.String,
  /** One line for a person. */
  reason: Schema.String,
  /** Changes of state since the last event of this stream: more than 1 for one that flaps. */
  changes: Schema.Int,
})

/** What a camera noticed by itself. */
const noticed = Schema.Struct({
  name: Schema.String,
  cameraId: CameraId,
  /** Null: the camera does not tell which of its channels it was, or it was none. */
  channelId: Schema.NullOr(ChannelId),
  /** ONVIF's name of what noticed it. */
  topic: Schema.String,
  /** The device's own token of the source or the input. */
  source: Schema.NullOr(Schema.String),
  /** By the camera's clock, RFC 3339; `time` of the event is when it was heard. */
  deviceTime: Schema.NullOr(Schema.String),
  /** What the camera's clock was ahead of ours. */
  clockOffsetMs: Schema.Int,
})
const connection = Schema.Struct({ name: Schema.String, cameraId: CameraId, reason: Schema.String })
const noticing = (title: string, description: string, severity: Severity = "info") => ({
  title,
  description,
  severity,
  permission: "camera:read" as const,
  notify: severity !== "info",
  data: noticed,
})

const gap = Schema.Struct({
  recordingId: RecordingId,
  cause: Schema.String,
  detail: Schema.String,
  start: Schema.String,
  end: Schema.NullOr(Schema.String),
  epoch: Schema.Int,
})

const folder = Schema.Struct({ name: Schema.String, path: Schema.String, state: Schema.String, detail: Schema.String })
const node = Schema.Struct({ name: Schema.String })
const away = Schema.Struct({ since: Schema.String })
const signIn = Schema.Struct({ username: Schema.String, address: Schema.String })

/** Another node; `reason` is one line for a person. */
const otherNode = Schema.Struct({ name: Schema.String, reason: Schema.String })

/** Every type of event. */
export const eventTypes = {
  "camera.online": {
    title: "Camera online",
    description: "A stream delivers pictures again, or for the first time",
    severity: "info",
    permission: "camera:read",
    notify: true,
    data: camera,
  },
  "camera.degraded": {
    title: "Camera degraded",
    description: "A stream delivers pictures, but with trouble",
    severity: "warning",
    permission: "camera:read",
    notify: false,
    data: camera,
  },
  "camera.offline": {
    title: "Camera offline",
    description: "A stream that should be there is not",
    severity: "critical",
    permission: "camera:read",
    notify: true,
    data: camera,
  },
  "camera.auth.failed": {
    title: "Camera refuses sign-in",
    description: "A camera does not take the user name and password it was given",
    severity: "critical",
    permission: "camera:read",
    notify: true,
    data: camera,
  },
  "camera.connection.lost": {
    title: "Camera does not answer",
    description:
      "What the camera notices is not heard: it does not answer by its own protocol. Its pictures may still come",
    severity: "warning",
    permission: "camera:read",
    notify: false,
    data: connection,
  },
  "camera.connection.restored": {
    title: "Camera answers again",
    description: "What the camera notices is heard again",
    severity: "info",
    permission: "camera:read",
    notify: false,
    data: connection,
  },
  "camera.events.limited": {
    title: "Camera tells too much",
    description: "The camera told more than is kept of one; `leftOut` of it, since `since`, did not become events",
    severity: "warning",
    permission: "camera:read",
    notify: false,
    data: Schema.Struct({ name: Schema.String, cameraId: CameraId, leftOut: Schema.Int, since: Schema.String }),
  },
  "motion.started": noticing("Motion", "The camera notices motion"),
  "motion.ended": noticing("Motion ended", "The camera notices no motion any more"),
  "tamper.started": noticing("Camera tampered with", "The camera is covered, turned away or out of focus", "warning"),
  "tamper.ended": noticing("Camera no longer tampered with", "The camera sees as it should again"),
  "input.activated": noticing("Input on", "A digital input of the camera was switched on; `source` is its token"),
  "input.deactivated": noticing("Input off", "A digital input of the camera was switched off; `source` is its token"),
  "line.crossed": noticing("Line crossed", "Something crossed a line that was drawn in the camera"),
  "recording.gap.opened": {
    title: "Recording interrupted",
    description: "From here on footage is missing; `cause` says why. What caused it is notified of by its own event",
    severity: "warning",
    permission: "recording:read",
    notify: false,
    data: gap,
  },
  "recording.gap.closed": {
    title: "Recording resumed",
    description: "Footage is recorded again; `start` and `end` are those of the gap",
    severity: "info",
    permission: "recording:read",
    notify: false,
    data: gap,
  },
  "storage.folder.failed": {
    title: "Storage folder failed",
    description: "A storage folder takes no footage: missing, read-only, broken or full",
    severity: "critical",
    permission: "system:read",
    notify: true,
    data: folder,
  },
  "storage.folder.slowed": {
    title: "Storage folder slow",
    description: "A disk does not keep up with what is to be written",
    severity: "warning",
    permission: "system:read",
    notify: true,
    data: folder,
  },
  "storage.folder.recovered": {
    title: "Storage folder in order again",
    description: "A storage folder that was in trouble takes footage again",
    severity: "info",
    permission: "system:read",
    notify: true,
    data: folder,
  },
  "node.started": {
    title: "Node started",
    description: "A node of the cluster has started",
    severity: "info",
    permission: "system:read",
    notify: true,
    data: node,
  },
  "node.stopped": {
    title: "Node stopped",
    description: "A node was ended in an orderly way",
    severity: "warning",
    permission: "system:read",
    notify: true,
    data: node,
  },
  "node.database.lost": {
    title: "Database away",
    description: "A node does not reach PostgreSQL; recording goes on. Told once it is back",
    severity: "warning",
    permission: "system:read",
    notify: true,
    data: away,
  },
  "node.database.restored": {
    title: "Database back",
    description: "A node reaches PostgreSQL again",
    severity: "info",
    permission: "system:read",
    notify: true,
    data: away,
  },
  ...failoverEventTypes,
  "user.signin.failed": {
    title: "Sign-in failed",
    description: "Somebody gave a wrong name or password",
    severity: "info",
    permission: "user:read",
    notify: false,
    data: signIn,
  },
  "user.signin.locked": {
    title: "Sign-in locked",
    description: "After repeated failures an account or an address must wait",
    severity: "warning",
    permission: "user:read",
    notify: true,
    data: Schema.Struct({ username: Schema.String, address: Schema.String, retryAfterSeconds: Schema.Int }),
  },
  "audit.tampered": {
    title: "Audit log tampered with",
    description: "The audit log is not as it was written; `sequence` is that of the first bad entry",
    severity: "critical",
    permission: "audit:read",
    notify: true,
    data: Schema.Struct({ sequence: Schema.Int, reason: Schema.String, explanation: Schema.String }),
  },
  "license.state.changed": {
    title: "Licence changed",
    description:
      "The licence is in another state than before; what is restricted then, if anything, is administration alone",
    severity: "warning",
    permission: "license:read",
    notify: true,
    data: Schema.Struct({ state: Schema.String, before: Schema.String, reason: Schema.String }),
  },
  "popup.raised": {
    title: "Popup",
    description: "A popup rule tells its recipients of an event; `sound` and `colour` are those of the rule",
    severity: "info",
    permission: "notification:read",
    // The event that it tells of is the notification.
    notify: false,
    data: Schema.Struct({
      ruleId: Schema.String,
      rule: Schema.String,
      sound: Schema.NullOr(Schema.String),
      colour: Schema.NullOr(Schema.String),
      title: Schema.String,
      text: Schema.String,
      eventId: Schema.String,
      eventType: Schema.String,
      test: Schema.Boolean,
    }),
  },
  "federation.pairing.requested": {
    title: "Pairing asked for",
    description: "Another node wants to be paired; an administrator compares the code and confirms or denies it",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: otherNode,
  },
  "federation.node.paired": {
    title: "Node paired",
    description: "Another node and this one may ask each other from now on",
    severity: "info",
    permission: "federation:read",
    notify: true,
    data: otherNode,
  },
  "federation.node.unpaired": {
    title: "Node unpaired",
    description: "A pairing was ended, here or on the other side",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: otherNode,
  },
  "federation.node.lost": {
    title: "Node does not answer",
    description: "A paired node or a member of the cluster has not been heard for half a minute",
    severity: "warning",
    permission: "federation:read",
    notify: true,
    data: otherNode,
  },
  "federation.node.found": {
    title: "Node answers again",
    description: "A paired node or a member of the cluster that was lost is heard again",
    severity: "info",
    permission: "federation:read",
    notify: true,
    data: otherNode,
  },
  "session.terminated": {
    title: "Session ended",
    description: "A session was ended by somebody or by a rule; `reason` says which",
    severity: "info",
    permission: "user:read",
    notify: false,
    data: Schema.Struct({ userId: UserId, sessionId: Schema.String, reason: Schema.String }),
  },
} as const satisfies Record<string, TypeDefinition>

export type EventType = keyof typeof eventTypes
export const eventTypeNames = Object.keys(eventTypes) as ReadonlyArray<EventType>
export const EventType = Schema.Literals(eventTypeNames)

/** The type as this release knows it; null for one of another release. */
export const eventTypeOf = (type: string): TypeDefinition | null =>
  Object.hasOwn(eventTypes, type) ? eventTypes[type as EventType] : null

/** Severity that a type has unless somebody says otherwise. */
export const severityOf = (type: string): Severity => eventTypeOf(type)?.severity ?? "info"

/** A fact on its way to the log. */
export type EventDraft = {
  readonly [T in EventType]: {
    readonly type: T
    /** Identifier of what it happened to. */
    readonly subject: string
    readonly data: (typeof eventTypes)[T]["data"]["Encoded"]
    /** What it happened to and what contains that; empty: the whole system. */
    readonly resource: ReadonlyArray<EventResource>
    readonly severity?: Severity
    /** When it happened, epoch milliseconds; now if left out. */
    readonly timeMs?: number
    /** Where the same fact may be told twice: the same each time, of {@link eventIdPattern}. */
    readonly id?: string
    /** Only for these users; everybody who may see it if left out. */
    readonly audience?: ReadonlyArray<UserId>
  }
}[EventType]

/** An identifier of an event: a UUIDv7, or one made from the fact. */
export const eventIdPattern = /^[A-Za-z0-9._~:-]{1,128}$/

/** An event as it is kept. */
export interface StoredEvent {
  /** Grows by the order of commits over all nodes; has holes. */
  readonly position: number
  readonly event: EventEnvelope
  readonly resource: ReadonlyArray<EventResource>
  readonly audience: ReadonlyArray<UserId> | null
}
