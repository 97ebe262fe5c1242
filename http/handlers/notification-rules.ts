/** Handlers of the popup rules and the push subscriptions. */
import { PopupRules, Push } from "#actors/protocol/notification-rules.ts"
import type { PopupRule, WrittenRule } from "#schema/notification-rules.ts"
import { decide } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpServerRequest } from "effect/http"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { CurrentPrincipal, currentUser } from "../contract/access.ts"
import { etag, expectedVersion, nightjar, pageRequest, withVersion } from "../contract/conventions.ts"
import { NotificationRulesGroup } from "../contract/notification-rules.ts"

/** Answers that may show a secret are kept by nobody. */
const unkept = (rule: WrittenRule) => ({ etag: etag(rule.version), "cache-control": "no-store" as const })

/** Empty for a webhook that went while its rule was read. */
const originOf = (url: string): string => URL.canParse(url) ? new URL(url).origin : ""

/** The address of a webhook often is a credential: whoever may not change rules sees where it leads, no more. */
const veiled = Effect.map(CurrentPrincipal, (principal) => {
  const whole = decide(principal, "notification:write").allowed
  return (rule: PopupRule): PopupRule =>
    whole ? rule : {
      ...rule,
      channels: rule.channels.map((channel) =>
        channel.kind === "webhook" ? { ...channel, url: originOf(channel.url) } : channel
      ),
    }
})

export const NotificationRulesHandlers = HttpApiBuilder.group(
  nightjar.add(NotificationRulesGroup),
  "notificationRules",
  Effect.fnUntraced(function*(handlers) {
    const [rules, push] = yield* Effect.all([PopupRules, Push])
    return handlers
      .handle(
        "popupRules",
        Effect.fnUntraced(function*({ query }) {
          const active = query.active === undefined ? null : query.active === "true"
          const { items, nextCursor } = yield* rules.list(active, pageRequest(query))
          return { items: items.map(yield* veiled), nextCursor }
        }),
      )
      .handle("createPopupRule", ({ payload }) =>
        Effect.map(rules.create(payload), (body) =>
          HttpApiSchema.withHeaders({
            body,
            headers: { location: `/notification/api/v1/popup-rules/${body.id}`, ...unkept(body) },
          })))
      .handle(
        "popupRule",
        Effect.fnUntraced(function*({ params }) {
          return withVersion((yield* veiled)(yield* rules.get(params.id)))
        }),
      )
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
      .handle("testPopupRule", ({ params }) =>
        rules.test(params.id))
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
