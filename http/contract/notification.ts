/**
 * The notification service: the live channel of events, and the notifications of the calling user. Popup rules have a group of
 * their own.
 */
import { Severity } from "#schema/event.ts"
import { StreamCursor } from "#schema/notification.ts"
import { DependencyUnavailable, InvalidInput, TooManyRequests } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { Marks } from "./conventions.ts"
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

export class NotificationGroup extends HttpApiGroup.make("notification")
  .add(live)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Notification", description: "What happened, live and as notifications." }),
  )
{}
