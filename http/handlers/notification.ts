/** Handlers of the notification group. */
import { EventLog } from "#actors/protocol/event.ts"
import { Notifications } from "#actors/protocol/notification.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { nightjar, pageRequest } from "../contract/conventions.ts"
import { NotificationGroup } from "../contract/notification.ts"
import { makeStreamSessions } from "./notification-sessions.ts"
import { askedBy, follow } from "./notification-stream.ts"

export const NotificationHandlers = HttpApiBuilder.group(
  nightjar.add(NotificationGroup),
  "notification",
  Effect.fnUntraced(function*(handlers) {
    const [log, notifications] = yield* Effect.all([EventLog, Notifications])
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
      .handle("notifications", ({ query }) => {
        const filter = { unread: query.unread === "true", minimumSeverity: query.minimumSeverity ?? "info" as const }
        return Effect.flatMap(currentUser, (who) => notifications.list(who, filter, pageRequest(query)))
      })
      .handle(
        "missedNotifications",
        ({ query }) => Effect.flatMap(currentUser, (who) => notifications.missed(who, pageRequest(query))),
      )
      .handle("unreadCount", () => Effect.flatMap(currentUser, notifications.unread))
      .handle(
        "readNotification",
        ({ params }) => Effect.flatMap(currentUser, (who) => notifications.read(who, params.id)),
      )
      .handle("readAllNotifications", () => Effect.flatMap(currentUser, notifications.readAll))
      .handle(
        "deleteNotification",
        ({ params }) => Effect.flatMap(currentUser, (who) => notifications.remove(who, params.id)),
      )
  }),
)
