/**
 * Words of popup rules: which events are told to whom, when, and by which channels; deliveries and their attempts; Web Push.
 *
 * Invariants
 * 1. Secrets of webhooks go in and come out once: in the answer that made them.
 * 2. Every list here has a bound, and so has what a rule may cause: {@link ruleLimits}.
 */
import { Schema } from "effect"
import { CameraId, Instant, UserId, Uuid7 } from "./common.ts"
import { EventEnvelope, Severity } from "./event.ts"
import { TypePattern } from "./notification.ts"
import { ResourceGroupId } from "./permission-groups.ts"

export const ruleLimits = {
  /** In all: each event is held against every rule. */
  rules: 500,
  /** People whom one event of one rule reaches. */
  people: 200,
  /** Web Push subscriptions of one user: browsers and their profiles. */
  subscriptions: 20,
  /** Deliveries that wait; beyond it they are dropped, and the log says so. */
  waiting: 10_000,
  /** An event older than this is told to nobody any more: what kept it away was worse news. */
  oldestHours: 24,
  /** Deliveries that are kept, and for how long. */
  kept: 100_000,
  keptDays: 30,
} as const

export const PopupRuleId = Uuid7.pipe(Schema.brand("PopupRuleId"))
export type PopupRuleId = typeof PopupRuleId.Type

const line = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\P{Cc}*$/u), Schema.isMinLength(minimum), Schema.isMaxLength(maximum))
const few = <S extends Schema.Top>(item: S, maximum: number) => Schema.Array(item).check(Schema.isMaxLength(maximum))

export const weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"] as const
export const Weekday = Schema.Literals(weekdays)
export type Weekday = typeof Weekday.Type

const TimeOfDay = Schema.String.check(Schema.isPattern(/^([01]\d|2[0-3]):[0-5]\d$/))
const EndOfDay = Schema.String.check(Schema.isPattern(/^(([01]\d|2[0-3]):[0-5]\d|24:00)$/))

const knownZone = (name: string): boolean => {
  try {
    return new Intl.DateTimeFormat("en", { timeZone: name }).format(0) !== ""
  } catch {
    return false
  }
}

/** When a rule applies, by the clocks on the wall of a time zone. */
export const RuleSchedule = Schema.Struct({
  /** IANA name. */
  timeZone: Schema.String.check(
    Schema.isMaxLength(64),
    Schema.isPattern(/^[A-Za-z0-9_+-]+(\/[A-Za-z0-9_+-]+)*$/),
    Schema.makeFilter((name: string) => knownZone(name) || "is no time zone of the IANA database"),
  ),
  /** `[start, end)` on each of `days`; where `end` is not after `start` it reaches into the next day. */
  windows: few(
    Schema.Struct({ days: few(Weekday, 7).check(Schema.isMinLength(1)), start: TimeOfDay, end: EndOfDay }),
    28,
  ).check(Schema.isMinLength(1)),
})
export type RuleSchedule = typeof RuleSchedule.Type

/** Which events; all that is given must hold. */
export const RuleFilter = Schema.Struct({
  /** `camera.offline`, `camera.*`; empty for all. */
  types: few(TypePattern, 64),
  minimumSeverity: Severity,
  /** Empty, and no resource groups: wherever it happened. */
  cameras: few(CameraId, 500),
  resourceGroups: few(ResourceGroupId, 50),
})
export type RuleFilter = typeof RuleFilter.Type

export const Recipients = Schema.Struct({ users: few(UserId, 200), roles: few(line(1, 64), 50) })
export type Recipients = typeof Recipients.Type

export const channelKinds = ["inApp", "email", "webhook", "webPush"] as const
export const ChannelKind = Schema.Literals(channelKinds)
export type ChannelKind = typeof ChannelKind.Type

const WebhookUrl = Schema.String.check(
  Schema.isMaxLength(2048),
  Schema.makeFilter((text: string) => {
    const url = URL.canParse(text) ? new URL(text) : null
    const good = url !== null && /^https?:$/.test(url.protocol) && url.username === "" && url.password === ""
    return good || "Expected an http or https address without a user name"
  }),
)

/** Standard Webhooks: `whsec_` and base64 of 24 to 64 bytes. */
const WebhookSecret = Schema.String.check(Schema.isPattern(/^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/)).pipe(
  Schema.RedactedFromValue,
)

const inApp = Schema.Struct({ kind: Schema.Literal("inApp") })
const email = Schema.Struct({ kind: Schema.Literal("email"), attachPicture: Schema.Boolean })
const webPush = Schema.Struct({ kind: Schema.Literal("webPush") })

/** How it is told. `email` and `webPush` reach the recipients, each for himself; a webhook one address. */
export const ChannelInput = Schema.Union([
  inApp,
  email,
  Schema.Struct({
    kind: Schema.Literal("webhook"),
    url: WebhookUrl,
    /** Left out: the one that this address has, or a new one. */
    secret: Schema.optionalKey(WebhookSecret),
  }),
  webPush,
])
export type ChannelInput = typeof ChannelInput.Type

export const Channel = Schema.Union([
  inApp,
  email,
  Schema.Struct({
    kind: Schema.Literal("webhook"),
    id: Uuid7,
    url: Schema.String,
    hasSecret: Schema.Literal(true),
    /** Since when nothing is sent to it, because it answered 410; a `PUT` of the rule switches it on again. */
    disabledAt: Schema.NullOr(Instant),
  }),
  webPush,
])
export type Channel = typeof Channel.Type

const appearance = {
  name: line(1, 128),
  /** Name of a sound that the dashboard has; `null` for silence. */
  sound: Schema.NullOr(Schema.Literals(["chime", "bell", "alarm"])),
  /** `#rrggbb`; `null` for the colour of the severity. */
  colour: Schema.NullOr(Schema.String.check(Schema.isPattern(/^#[0-9a-fA-F]{6}$/))),
  /** An event with the same subject is told once in this time. */
  cooldownSeconds: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 86_400 })),
}

const noFilter: RuleFilter = { types: [], minimumSeverity: "info", cameras: [], resourceGroups: [] }

const onceEach = (channels: ReadonlyArray<ChannelInput>) => {
  const names = channels.map((channel) => channel.kind === "webhook" ? channel.url : channel.kind)
  return new Set(names).size === names.length || "Each kind, and each address of a webhook, may stand once"
}

/** Replaces; what is left out has the default that stands beside it. */
export const PopupRuleInput = Schema.Struct({
  name: appearance.name,
  /** `true` */
  active: Schema.optionalKey(Schema.Boolean),
  /** Everything. */
  filter: Schema.optionalKey(Schema.Struct({
    types: Schema.optionalKey(RuleFilter.fields.types),
    minimumSeverity: Schema.optionalKey(Severity),
    cameras: Schema.optionalKey(RuleFilter.fields.cameras),
    resourceGroups: Schema.optionalKey(RuleFilter.fields.resourceGroups),
  })),
  /** Always. */
  schedule: Schema.optionalKey(Schema.NullOr(RuleSchedule)),
  /** 0 */
  cooldownSeconds: Schema.optionalKey(appearance.cooldownSeconds),
  sound: Schema.optionalKey(appearance.sound),
  colour: Schema.optionalKey(appearance.colour),
  /** Nobody: good for webhooks. */
  recipients: Schema.optionalKey(Schema.Struct({
    users: Schema.optionalKey(Recipients.fields.users),
    roles: Schema.optionalKey(Recipients.fields.roles),
  })),
  channels: few(ChannelInput, 8).check(Schema.isMinLength(1), Schema.makeFilter(onceEach)),
})
export type PopupRuleInput = typeof PopupRuleInput.Type

export const PopupRule = Schema.Struct({
  id: PopupRuleId,
  ...appearance,
  active: Schema.Boolean,
  filter: RuleFilter,
  schedule: Schema.NullOr(RuleSchedule),
  recipients: Recipients,
  channels: Schema.Array(Channel),
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "PopupRule" })
export type PopupRule = typeof PopupRule.Type

/** The answer to a write: with the secrets that it made. */
export const WrittenRule = Schema.Struct({
  ...PopupRule.fields,
  /** Of webhooks that had none; shown this once. */
  newSecrets: Schema.Array(Schema.Struct({ url: Schema.String, secret: Schema.String })),
}).annotate({ identifier: "WrittenPopupRule" })
export type WrittenRule = typeof WrittenRule.Type

/** What is kept of a rule without what only its writer knows. */
export const withDefaults = (input: PopupRuleInput) => ({
  name: input.name,
  active: input.active ?? true,
  filter: { ...noFilter, ...input.filter },
  schedule: input.schedule ?? null,
  cooldownSeconds: input.cooldownSeconds ?? 0,
  sound: input.sound ?? null,
  colour: input.colour ?? null,
  recipients: { users: [], roles: [], ...input.recipients },
})

/** What became of an attempt. */
export const Outcome = Schema.Literals([
  "delivered",
  "failed", // tried again later, while there are attempts left
  "rejected", // for good: trying again would not help
  "gone", // 404 or 410: the address or the subscription does not exist any more
])
export type Outcome = typeof Outcome.Type

export const Attempt = Schema.Struct({
  at: Instant,
  outcome: Outcome,
  /** For a person: the status, the server's words. */
  detail: Schema.String,
  tookMs: Schema.Int,
})
export type Attempt = typeof Attempt.Type

export const Delivery = Schema.Struct({
  id: Uuid7,
  ruleId: PopupRuleId,
  eventId: Schema.String,
  eventType: Schema.String,
  channel: ChannelKind,
  /** Who or where: a user, a webhook's address. */
  target: Schema.String,
  state: Schema.Literals([
    "waiting",
    "delivered",
    "failed", // no attempt is left, or none would help
    "dropped", // too many were waiting
  ]),
  createdAt: Instant,
  /** `null` when it is over. */
  nextAttemptAt: Schema.NullOr(Instant),
  attempts: Schema.Array(Attempt),
}).annotate({ identifier: "PopupDelivery" })
export type Delivery = typeof Delivery.Type

/** What a test sent, at once and without further attempts. */
export const RuleTest = Schema.Struct({
  event: EventEnvelope,
  deliveries: Schema.Array(
    Schema.Struct({ channel: ChannelKind, target: Schema.String, outcome: Outcome, detail: Schema.String }),
  ),
}).annotate({ identifier: "PopupRuleTest" })
export type RuleTest = typeof RuleTest.Type

const base64url = (bytes: number) =>
  Schema.String.check(Schema.isPattern(new RegExp(`^[A-Za-z0-9_-]{${Math.ceil(bytes * 4 / 3)}}={0,2}$`)))

/** As `PushSubscription.toJSON()` gives it (Push API). */
export const PushSubscriptionInput = Schema.Struct({
  endpoint: Schema.String.check(
    Schema.isMaxLength(2048),
    Schema.makeFilter((text: string) => URL.canParse(text) && /^https?:$/.test(new URL(text).protocol) || "no address"),
  ),
  keys: Schema.Struct({ p256dh: base64url(65), auth: base64url(16) }),
})
export type PushSubscriptionInput = typeof PushSubscriptionInput.Type

export const PushSubscription = Schema.Struct({
  id: Uuid7,
  /** Host of the push service; the rest of the address is a secret. */
  service: Schema.String,
  userAgent: Schema.String,
  createdAt: Instant,
  lastDeliveredAt: Schema.NullOr(Instant),
}).annotate({ identifier: "PushSubscription" })
export type PushSubscription = typeof PushSubscription.Type

/** `applicationServerKey` of `pushManager.subscribe` (RFC 8292): 65 bytes in base64url. */
export const PushKey = Schema.Struct({ publicKey: Schema.String }).annotate({ identifier: "PushKey" })

/** What an in-app popup, a webhook and a push message carry besides the event. */
export const Popup = Schema.Struct({
  ruleId: PopupRuleId,
  rule: Schema.String,
  sound: appearance.sound,
  colour: appearance.colour,
  title: Schema.String,
  text: Schema.String,
  test: Schema.Boolean,
})
export type Popup = typeof Popup.Type

export class PopupRuleNotFound extends Schema.TaggedError<PopupRuleNotFound>()("PopupRuleNotFound", {
  id: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no popup rule ${this.id}`
  }
}

export class PopupRulesExhausted extends Schema.TaggedError<PopupRulesExhausted>()("PopupRulesExhausted", {
  limit: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `There can be ${this.limit} popup rules`
  }
}

export class PushSubscriptionNotFound
  extends Schema.TaggedError<PushSubscriptionNotFound>()("PushSubscriptionNotFound", {
    id: Schema.String,
  }, { httpApiStatus: 404 })
{
  override get message(): string {
    return `There is no push subscription ${this.id} of yours`
  }
}
