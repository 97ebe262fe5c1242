/** A popup rule as its form holds it, and back. */
import type { PopupRule, PopupRuleInput, RuleSchedule } from "#schema/notification-rules.ts"
import { Redacted } from "effect"
import { timeZone } from "./time.ts"
import { fullHours, type Week, weekOf, wholeWeek, windowsOf } from "./week.ts"

export interface Webhook {
  readonly url: string
  /** Empty: the one it has, or a new one that is made. */
  readonly secret: string
}

export interface RuleFields {
  readonly name: string
  readonly active: boolean
  readonly types: ReadonlyArray<string>
  readonly minimumSeverity: PopupRule["filter"]["minimumSeverity"]
  readonly cameras: PopupRule["filter"]["cameras"]
  readonly resourceGroups: PopupRule["filter"]["resourceGroups"]
  readonly always: boolean
  readonly timeZone: string
  readonly week: Week
  /** A schedule that is finer than the grid, as long as nobody paints over it. */
  readonly fine: RuleSchedule["windows"] | null
  readonly cooldownSeconds: number
  readonly sound: PopupRule["sound"]
  /** Empty: the colour of the severity. */
  readonly colour: string
  readonly users: PopupRule["recipients"]["users"]
  readonly roles: ReadonlyArray<string>
  readonly inApp: boolean
  readonly email: boolean
  readonly attachPicture: boolean
  readonly webPush: boolean
  readonly webhooks: ReadonlyArray<Webhook>
}

/** A new rule tells the administrators, in the dashboard; a minute keeps a camera that flaps from being a nuisance. */
const newRule: RuleFields = {
  name: "",
  active: true,
  types: [],
  minimumSeverity: "warning",
  cameras: [],
  resourceGroups: [],
  always: true,
  timeZone,
  week: wholeWeek,
  fine: null,
  cooldownSeconds: 60,
  sound: "chime",
  colour: "",
  users: [],
  roles: ["admin"],
  inApp: true,
  email: false,
  attachPicture: true,
  webPush: false,
  webhooks: [],
}

export const fieldsOf = (rule: PopupRule | null): RuleFields => {
  if (rule === null) return newRule
  const { active, channels, cooldownSeconds, filter, name, recipients, schedule, sound } = rule
  const email = channels.find((channel) => channel.kind === "email")
  return {
    name,
    active,
    ...filter,
    always: schedule === null,
    timeZone: schedule?.timeZone ?? timeZone,
    week: schedule === null ? wholeWeek : weekOf(schedule.windows),
    fine: schedule === null || fullHours(schedule.windows) ? null : schedule.windows,
    cooldownSeconds,
    sound,
    colour: rule.colour ?? "",
    ...recipients,
    inApp: channels.some((channel) => channel.kind === "inApp"),
    email: email !== undefined,
    attachPicture: email?.attachPicture ?? true,
    webPush: channels.some((channel) => channel.kind === "webPush"),
    webhooks: channels.flatMap((channel) => channel.kind === "webhook" ? [{ url: channel.url, secret: "" }] : []),
  }
}

const channelsOf = (fields: RuleFields): PopupRuleInput["channels"] => [
  ...(fields.inApp ? [{ kind: "inApp" as const }] : []),
  ...(fields.email ? [{ kind: "email" as const, attachPicture: fields.attachPicture }] : []),
  ...(fields.webPush ? [{ kind: "webPush" as const }] : []),
  ...fields.webhooks.filter(({ url }) => url !== "").map(({ secret, url }) => ({
    kind: "webhook" as const,
    url,
    ...(secret === "" ? {} : { secret: Redacted.make(secret) }),
  })),
]

export const inputOf = (fields: RuleFields): PopupRuleInput => ({
  name: fields.name.trim(),
  active: fields.active,
  filter: {
    types: fields.types,
    minimumSeverity: fields.minimumSeverity,
    cameras: fields.cameras,
    resourceGroups: fields.resourceGroups,
  },
  schedule: fields.always ?
    null :
    { timeZone: fields.timeZone, windows: fields.fine ?? windowsOf(fields.week) },
  cooldownSeconds: fields.cooldownSeconds,
  sound: fields.sound,
  colour: fields.colour === "" ? null : fields.colour,
  recipients: { users: fields.users, roles: fields.roles },
  channels: channelsOf(fields),
})
