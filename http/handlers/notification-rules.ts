/** Handlers of the popup rules and the push subscriptions. */
import { PopupRules, Push } from "#actors/protocol/notification-rules.ts"
import type { WrittenRule } from "#schema/notification-rules.ts"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { etag, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { NotificationRulesGroup } from "../contract/notification-rules.ts"

/** Answers that may show a secret are kept by nobody. */
const unkept = (rule: WrittenRule) => ({ etag: etag(rule.version), "cache-control": "no-store" as const })

export const NotificationRulesHandlers = HttpApiBuilder.group(
  nightjar.add(NotificationRulesGroup),
  "notificationRules",
  Effect.fnUntraced(function*(handlers) {
    const [rules, push] = yield* Effect.all([PopupRules, Push])
    return handlers
      .handle(
        "popupRules",
        ({ query }) => rules.list(query.active === undefined ? null : query.active === "true", pageRequest(query)),
      )
      .handle("createPopupRule", ({ payload }) =>
        Effect.map(rules.create(payload), (body) =>
          HttpApiSchema.withHeaders({
            body,
            headers: { location: `/notification/api/v1/popup-rules/${body.id}`, ...unkept(body) },
          })))
      .handle("popupRule", ({ params }) =>
        Effect.map(rules.get(params.id), withVersion))
      .handle(
        "updatePopupRule",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          const body = yield* rules.update(params.id, payload, yield* expectedVersion(headers))
          return HttpApiSchema.withHeaders({ body, headers: unkept(body) })
        }),
      )
      .handle(
        "togglePopupRule",
        Effect.fnUntraced(function*({ headers, params, payload }) {
          return withVersion(yield* rules.toggle(params.id, payload.active, yield* expectedVersion(headers)))
        }),
      )
      .handle(
        "deletePopupRule",
        Effect.fnUntraced(function*({ headers, params }) {
          yield* rules.remove(params.id, yield* expectedVersion(headers))
        }),
      )
      .handle("testPopupRule", ({ params }) => rules.test(params.id))
      .handle("popupDeliveries", ({ params, query }) => rules.deliveries(params.id, pageRequest(query)))
      .handle("pushKey", () => Effect.map(push.publicKey(), (publicKey) => ({ publicKey })))
      .handle(
        "pushSubscriptions",
        () => Effect.map(Effect.flatMap(currentUser, push.list), (items) => ({ items, nextCursor: null })),
      )
      .handle(
        "addPushSubscription",
        Effect.fnUntraced(function*({ payload }) {
          const request = yield* HttpServerRequest.HttpServerRequest
          const userAgent = (request.headers["user-agent"] ?? "").slice(0, 256)
          const body = yield* push.add(yield* currentUser, payload, userAgent)
          const location = `/notification/api/v1/push/subscriptions/${body.id}`
          return HttpApiSchema.withHeaders({ body, headers: { location } })
        }),
      )
      .handle(
        "removePushSubscription",
        ({ params }) => Effect.flatMap(currentUser, (who) => push.remove(who, params.id)),
      )
  }),
)
