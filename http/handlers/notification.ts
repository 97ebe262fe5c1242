/** Handlers of the notification group. */
import { EventLog } from "#actors/protocol/event.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal } from "../contract/access.ts"
import { nightjar } from "../contract/conventions.ts"
import { NotificationGroup } from "../contract/notification.ts"
import { makeStreamSessions } from "./notification-sessions.ts"
import { askedBy, follow } from "./notification-stream.ts"

export const NotificationHandlers = HttpApiBuilder.group(
  nightjar.add(NotificationGroup),
  "notification",
  Effect.fnUntraced(function*(handlers) {
    const log = yield* EventLog
    const sessions = yield* makeStreamSessions
    return handlers.handle(
      "stream",
      Effect.fnUntraced(function*({ headers, query }) {
        const principal = yield* CurrentPrincipal
        const asked = yield* askedBy({
          lastEventId: query.lastEventId ?? headers["last-event-id"],
          types: query.types?.split(","),
          minimumSeverity: query.minimumSeverity,
        })
        return yield* follow({ log, sessions }, principal.kind === "user" ? principal : null, asked)
      }),
    )
  }),
)
