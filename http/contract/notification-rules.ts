/** Popup rules: who is told of which events, when and how; their deliveries; the caller's Web Push subscriptions. */
import { Page, Uuid7 } from "#schema/common.ts"
import {
  Delivery,
  PopupRule,
  PopupRuleId,
  PopupRuleInput,
  PopupRuleNotFound,
  PopupRulesExhausted,
  PushKey,
  PushSubscription,
  PushSubscriptionInput,
  PushSubscriptionNotFound,
  RuleTest,
  WrittenRule,
} from "#schema/notification-rules.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/notification/api/v1"
const rules = `${base}/popup-rules`
const params = { id: PopupRuleId }
const noStore = Schema.Literal("no-store")

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const writing =
  "A webhook without `secret` keeps the one its address has in this rule, or gets a new one: `newSecrets` shows it, " +
  "this once (Standard Webhooks: `webhook-id`, `webhook-timestamp`, `webhook-signature`)."

const onRules = [
  HttpApiEndpoint.get("popupRules", rules, {
    query: { ...pageQuery, active: Schema.optionalKey(Schema.Literals(["true", "false"])) },
    success: Page(PopupRule),
    error: problems(InvalidCursor),
  }).annotateMerge(access("notification:read")).annotateMerge(
    doc(
      "List popup rules",
      "By name. Whoever may not change rules sees of a webhook's address its origin: the rest is often a secret.",
    ),
  ),
  HttpApiEndpoint.post("createPopupRule", rules, {
    headers: idempotencyKey,
    payload: PopupRuleInput,
    success: HttpApiSchema.WithHeaders(WrittenRule.annotate({ httpApiStatus: 201 }), {
      location: Schema.String,
      etag: Schema.String,
      "cache-control": noStore,
    }),
    error: problems(InvalidInput, PopupRulesExhausted),
  }).annotateMerge(access("notification:write")).annotateMerge(doc("Create a popup rule", writing)),
  HttpApiEndpoint.get("popupRule", `${rules}/:id`, {
    params,
    success: versioned(PopupRule),
    error: problems(PopupRuleNotFound),
  }).annotateMerge(access("notification:read")).annotateMerge(doc("Get a popup rule")),
  HttpApiEndpoint.put("updatePopupRule", `${rules}/:id`, {
    params,
    headers: ifMatch,
    payload: PopupRuleInput,
    success: HttpApiSchema.WithHeaders(WrittenRule, { etag: Schema.String, "cache-control": noStore }),
    error: problems(PopupRuleNotFound, InvalidInput, VersionConflict),
  }).annotateMerge(access("notification:write")).annotateMerge(
    doc("Update a popup rule", `${writing} A webhook that was switched off by a 410 is switched on again.`),
  ),
  HttpApiEndpoint.patch("togglePopupRule", `${rules}/:id`, {
    params,
    headers: ifMatch,
    payload: Schema.Struct({ active: Schema.Boolean }),
    success: versioned(PopupRule),
    error: problems(PopupRuleNotFound, VersionConflict),
  }).annotateMerge(access("notification:write")).annotateMerge(doc("Change whether a popup rule is active")),
  HttpApiEndpoint.delete("deletePopupRule", `${rules}/:id`, {
    params,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(PopupRuleNotFound, VersionConflict),
  }).annotateMerge(access("notification:write")).annotateMerge(
    doc("Delete a popup rule", "What waits to be delivered for it is not delivered any more."),
  ),
  HttpApiEndpoint.post("testPopupRule", `${rules}/:id/test`, {
    params,
    success: RuleTest,
    error: problems(PopupRuleNotFound),
  })
    .annotateMerge(access("notification:write")).annotateMerge(
      doc(
        "Send a test delivery of a popup rule",
        "By all its channels, at once, one attempt each; filter, schedule and cooldown are not asked.",
      ),
    ),
  HttpApiEndpoint.get("popupDeliveries", `${rules}/:id/deliveries`, {
    params,
    query: pageQuery,
    success: Page(Delivery),
    error: problems(PopupRuleNotFound, InvalidCursor),
  }).annotateMerge(access("notification:write")).annotateMerge(extension).annotateMerge(
    doc(
      "List deliveries of a popup rule",
      "Newest first, each with its attempts and their outcomes; kept for 30 days.",
    ),
  ),
] as const

const onPush = [
  HttpApiEndpoint.get("pushKey", `${base}/push/key`, { success: PushKey })
    .annotateMerge(access("notification:read")).annotateMerge(extension).annotateMerge(
      doc("Get the key for Web Push", "`applicationServerKey` of `pushManager.subscribe` (RFC 8292)."),
    ),
  HttpApiEndpoint.get("pushSubscriptions", `${base}/push/subscriptions`, { success: Page(PushSubscription) })
    .annotateMerge(access("notification:read")).annotateMerge(extension).annotateMerge(
      doc("List the caller's push subscriptions", "At most 20, newest first."),
    ),
  HttpApiEndpoint.post("addPushSubscription", `${base}/push/subscriptions`, {
    headers: idempotencyKey,
    payload: PushSubscriptionInput,
    success: HttpApiSchema.WithHeaders(PushSubscription.annotate({ httpApiStatus: 201 }), { location: Schema.String }),
    error: problems(InvalidInput),
  }).annotateMerge(access("notification:read")).annotateMerge(extension).annotateMerge(
    doc(
      "Add a push subscription",
      "What `PushSubscription.toJSON()` gives. The same endpoint again replaces it; the 21st takes the place of the oldest.",
    ),
  ),
  HttpApiEndpoint.delete("removePushSubscription", `${base}/push/subscriptions/:id`, {
    params: { id: Uuid7 },
    success: HttpApiSchema.NoContent,
    error: problems(PushSubscriptionNotFound),
  }).annotateMerge(access("notification:read")).annotateMerge(extension).annotateMerge(
    doc("Remove a push subscription"),
  ),
] as const

export class NotificationRulesGroup extends HttpApiGroup.make("notificationRules")
  .add(...onRules, ...onPush)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Popup rules", description: "Who is told of which events, when and how." }),
  )
{}
