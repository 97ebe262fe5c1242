/**
 * The notification service: the live channel of events, and the notifications of the calling user. Popup rules have a group of
 * their own.
 */
import { Page } from "#schema/common.ts"
import { eventIdPattern, Severity } from "#schema/event.ts"
import { Notification, NotificationNotFound, StreamCursor, UnreadCount } from "#schema/notification.ts"
import { DependencyUnavailable, InvalidCursor, InvalidInput, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { Marks, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/notification/api/v1"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

const eventStream = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))

const protocol =
  `Events as they happen, those the caller may see. \`GET\` with \`Upgrade: websocket\` opens a WebSocket, with
\`Accept: text/event-stream\` server-sent events. Both send the same JSON messages (by SSE, \`kind\` is the name of the event and
\`cursor\` its id):

- \`{ "kind": "welcome", "cursor" }\`, the first;
- \`{ "kind": "event", "cursor", "event" }\`;
- \`{ "kind": "reset", "cursor" }\`: what was asked for is not kept any more, so events may be missing before the next ones;
- \`{ "kind": "alive", "cursor" }\` every 15 seconds.

\`cursor\` is opaque. Whoever comes back with the last one he got, by \`Last-Event-ID\`, by \`?lastEventId=\` or in his \`hello\`,
gets everything behind it, once, on any node. \`lastEventId=earliest\` begins with the oldest that is kept.

The access token comes by \`Authorization\`; for browsers as the second of the WebSocket protocols \`nightjar, <token>\`, or in the
first message: \`{ "kind": "hello", "token", "lastEventId"?, "types"?, "minimumSeverity"? }\`, within ten seconds. A fresh token
is sent as \`{ "kind": "token", "token" }\` before the old one expires.

The server closes with 4400 (a message cannot be read), 4401 (token expired, session ended), 4403 (permission withdrawn), 4408
(no token came), 4409 (pings were not answered), 4413 (too slow; go on from the last cursor), 4429 (too many channels), 1001 or 1012
(the node stops), 1013 (the database is away); by SSE \`{ "kind": "closed", "code", "reason" }\` tells the same.`

const live = HttpApiEndpoint.get("stream", `${base}/stream`, {
  query: {
    lastEventId: Schema.optionalKey(StreamCursor),
    /** Separated by commas; `camera.*` for all that begin so. */
    types: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(1024))),
    minimumSeverity: Schema.optionalKey(Severity),
  },
  headers: { "last-event-id": Schema.optionalKey(StreamCursor) },
  success: eventStream,
  error: problems(InvalidInput, TooManyRequests, DependencyUnavailable),
}).annotateMerge(access("notification:read", { inChannel: true })).annotate(Marks, { extension: true, streams: true })
  .annotateMerge(doc("Follow events live", protocol))

const params = { id: Schema.String.check(Schema.isPattern(eventIdPattern)) }
const Notifications = Page(Notification)
const flag = Schema.Literals(["true", "false"])

const own = [
  HttpApiEndpoint.get("notifications", `${base}/notifications`, {
    query: { ...pageQuery, unread: Schema.optionalKey(flag), minimumSeverity: Schema.optionalKey(Severity) },
    success: Notifications,
    error: problems(InvalidCursor),
  }).annotateMerge(access("notification:read")).annotateMerge(
    doc("List notifications", "Newest first: events the caller may see whose type notifies, since the account exists."),
  ),
  HttpApiEndpoint.get("missedNotifications", `${base}/notifications/missed`, {
    query: pageQuery,
    success: Notifications,
    error: problems(InvalidCursor),
  }).annotateMerge(access("notification:read")).annotateMerge(
    doc(
      "List missed notifications",
      "Unread ones that came while the caller followed no live channel: while one is open, those from before it was opened; " +
        "otherwise those since the last one was.",
    ),
  ),
  HttpApiEndpoint.get("unreadCount", `${base}/notifications/unread/count`, { success: UnreadCount })
    .annotateMerge(access("notification:read")).annotateMerge(
      doc("Count unread notifications", "Counts to 1,000; `more` tells that there are more."),
    ),
  HttpApiEndpoint.post("readNotification", `${base}/notifications/:id/read`, {
    params,
    success: Notification,
    error: problems(NotificationNotFound),
  }).annotateMerge(access("notification:read")).annotateMerge(
    doc("Mark a notification read", "For the caller alone. Doing it again changes nothing."),
  ),
  HttpApiEndpoint.post("readAllNotifications", `${base}/notifications/read-all`, { success: HttpApiSchema.NoContent })
    .annotateMerge(access("notification:read")).annotateMerge(
      doc("Mark all notifications read", "Everything up to now, for the caller alone."),
    ),
  HttpApiEndpoint.delete("deleteNotification", `${base}/notifications/:id`, {
    params,
    success: HttpApiSchema.NoContent,
    error: problems(NotificationNotFound),
  }).annotateMerge(access("notification:read")).annotateMerge(
    doc("Delete a notification", "For the caller alone; the event stays in the log."),
  ),
] as const

export class NotificationGroup extends HttpApiGroup.make("notification")
  .add(live, ...own)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Notification", description: "What happened, live and as notifications." }),
  )
{}
