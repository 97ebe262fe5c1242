/**
 * What an ONVIF device notices, by a pull point (ONVIF Core Specification, section 9.2; OASIS WS-BaseNotification 1.3): subscribing,
 * pulling, renewing, and making notices of its messages.
 *
 * Invariants
 * 1. Of the address of a subscription only the path is used, and it is given back as `wsa:To`; reference parameters are given back
 *    as the elements they are read as ({@link referenceOf}), never as the device's own XML.
 * 2. One message that cannot be read loses no other. An answer gives at most `notificationLimits.notices`.
 * 3. A subscription ends with its scope, and by itself {@link lifeSeconds} after the last sign of us.
 */
import { type DeviceNotice, type Noticed, type NoticeKind, notificationLimits } from "#schema/camera-event.ts"
import { Effect, Option, Schema } from "effect"
import type { DeviceSubscription } from "../device.ts"
import type { OnvifCall, OnvifClient } from "./onvif-client.ts"
import { escaped } from "./onvif-message.ts"
import { filled, many, present, worded } from "./onvif-shape.ts"

/** How long a device remembers somebody who does not pull. */
const lifeSeconds = 120
/** For saying good-bye. */
const farewell = "2 seconds"
/** Elements of reference parameters, characters of each (real ones have one of ten), and how far into a reply they are looked for. */
const references = { elements: 8, characters: 512, reply: 16_384 } as const

const opt = Schema.optionalKey
const text = Schema.String

const items = opt(filled(Schema.Struct({ simpleItem: opt(many(Schema.Struct({ $Name: text, $Value: opt(text) }))) })))
const messageShape = Schema.Struct({
  topic: worded,
  message: Schema.Struct({
    message: Schema.Struct({
      $UtcTime: opt(text),
      $PropertyOperation: opt(text),
      source: items,
      key: items,
      data: items,
    }),
  }),
})
const decodeMessage = Schema.decodeUnknownOption(messageShape)
type Items = typeof items.Type

const topics: ReadonlyArray<readonly [RegExp, NoticeKind]> = [
  [/^RuleEngine\/(CellMotionDetector|MotionRegionDetector|MotionDetector)\/Motion$/, "motion"],
  [/^VideoSource\/MotionAlarm$/, "motion"],
  [/^RuleEngine\/TamperDetector\/Tamper$/, "tamper"],
  [/^VideoSource\/(GlobalSceneChange|ImageTooBlurry)\/\w+$/, "tamper"],
  [/^Device\/Trigger\/DigitalInput$/, "input"],
  [/^RuleEngine\/LineDetector\/Crossed$/, "line"],
]
const states: ReadonlySet<string> = new Set(["IsMotion", "State", "IsTamper", "LogicalState"])
const sources = ["InputToken", "VideoSourceToken", "Source", "VideoSourceConfigurationToken", "VideoSource"] as const

const listed = (told: Items | undefined) => present(told)?.simpleItem ?? []
const short = (word: string) => word.slice(0, notificationLimits.text)

const isOn = (word: string): boolean | null =>
  /^(true|1|on|active)$/i.test(word.trim()) ? true : /^(false|0|off|inactive)$/i.test(word.trim()) ? false : null

/** Null: it is of no kind that is asked for, or says nothing. */
const noticeOf = (shape: typeof messageShape.Type): DeviceNotice | null => {
  const topic = short(shape.topic.trim().replace(/(^|\/)[\w.-]+:/g, "$1"))
  const kind = topics.find(([pattern]) => pattern.test(topic))?.[1]
  if (kind === undefined) return null
  const { $PropertyOperation = "", $UtcTime = "", data, key, source } = shape.message.message
  const about = [...listed(source), ...listed(key)]
  const named = sources.map((name) => about.find((one) => one.$Name === name)?.$Value).find((value) =>
    value !== undefined && value !== ""
  )
  const state = listed(data).find(({ $Name }) => states.has($Name))?.$Value
  const active = kind === "line" ? null : /^deleted$/i.test($PropertyOperation) ? false : isOn(state ?? "")
  if (kind !== "line" && active === null) return null
  const timeMs = Date.parse($UtcTime)
  return {
    kind,
    topic,
    detector: short([topic, ...about.map(({ $Name, $Value = "" }) => `${$Name}=${$Value}`)].join(";")),
    source: named === undefined ? null : short(named),
    active,
    initial: /^initialized$/i.test($PropertyOperation),
    deviceTimeMs: Number.isFinite(timeMs) ? timeMs : null,
  }
}

/** What an answer to PullMessages tells, as the simplified XML of `onvif-message.ts`. Total. */
export const noticesOf = (messages: ReadonlyArray<unknown>): Noticed => {
  const read = messages.slice(0, notificationLimits.notices).map((one) => decodeMessage(one))
  const unread = read.filter(Option.isNone).length
  return {
    notices: read.flatMap((one) => Option.isNone(one) ? [] : noticeOf(one.value) ?? []),
    leftOut: unread + Math.max(0, messages.length - notificationLimits.notices),
  }
}

/**
 * The reference parameters in an answer (WS-Addressing 1.0 Core, section 3.3), written anew for the header of requests: flat elements
 * with a text, in the namespaces that the answer gives their prefixes. Empty where there are none, or others.
 */
export const referenceOf = (reply: string): string => {
  const start = reply.slice(0, references.reply)
  const inner = /<(?:[\w.-]+:)?ReferenceParameters\b[^>]*>([^]*?)<\/(?:[\w.-]+:)?ReferenceParameters>/.exec(start)?.[1]
  if (inner === undefined || inner.length > references.elements * references.characters) return ""
  const elements = [...inner.matchAll(/<([\w.-]+):([\w.-]+)([^<>]*)>([^<>]*)<\/\1:\2>/g)].slice(0, references.elements)
  return elements.map(([, prefix = "", name = "", attributes = "", value = ""]) => {
    const declared = (where: string) =>
      new RegExp(`xmlns:${prefix.replaceAll(".", "\\.")}="([^"<>]*)"`).exec(where)?.[1]
    const namespace = declared(attributes) ?? declared(start) ?? ""
    const plain = value.trim().replace(/&(amp|lt|gt|quot|apos);/g, (_, entity: string) => entities[entity] ?? "")
    return namespace === "" ? "" : `<r:${name} xmlns:r="${escaped(namespace)}">${escaped(plain)}</r:${name}>`
  }).join("")
}
const entities: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: "\"", apos: "'" }

const events = "http://www.onvif.org/ver10/events/wsdl"
const broker = "http://docs.oasis-open.org/wsn"
const subscribing = `${events}/EventPortType/CreatePullPointSubscriptionRequest`
const addressing = "http://www.w3.org/2005/08/addressing"

const header = (action: string, to: string, reference: string) =>
  `<a:Action xmlns:a="${addressing}">${action}</a:Action>` +
  (to === "" ? "" : `<a:To xmlns:a="${addressing}">${escaped(to)}</a:To>`) + reference

const madeShape = Schema.Struct({ subscriptionReference: Schema.Struct({ address: worded }) })
const pulledShape = filled(Schema.Struct({ notificationMessage: opt(Schema.Unknown) }))

const pathOf = (address: string): string | null =>
  URL.canParse(address) ? new URL(address).pathname + new URL(address).search : null

/** None, one, or several. */
const listOf = (told: unknown): ReadonlyArray<unknown> => told === undefined ? [] : Array.isArray(told) ? told : [told]

type Asked = Pick<OnvifCall<Schema.Codec<unknown, unknown>>, "namespace" | "body" | "waitMs">

/** Subscribes anew for each scope. */
export const onvifEvents = (client: OnvifClient) =>
  Effect.gen(function*() {
    let reference = ""
    const made = yield* client.call({
      service: "events",
      operation: "CreatePullPointSubscription",
      action: subscribing,
      header: header(subscribing, "", ""),
      body: `<InitialTerminationTime>PT${lifeSeconds}S</InitialTerminationTime>`,
      reply: madeShape,
      heard: (reply) => {
        reference = referenceOf(reply)
      },
    })
    const to = made.subscriptionReference.address.trim().slice(0, 2048)
    const path = pathOf(to)
    const ask = <S extends Schema.Codec<unknown, unknown>>(operation: string, action: string, reply: S, asked: Asked) =>
      client.call({
        service: "events",
        operation,
        ...(path === null ? {} : { path }),
        action,
        header: header(action, to, reference),
        reply,
        ...asked,
      })
    const managed = (operation: "Renew" | "Unsubscribe", body: string) =>
      Effect.asVoid(ask(operation, `${broker}/bw-2/SubscriptionManager/${operation}Request`, Schema.Unknown, {
        namespace: `${broker}/b-2`,
        body,
      }))
    yield* Effect.addFinalizer(() => Effect.ignore(Effect.timeout(managed("Unsubscribe", ""), farewell)))
    return {
      pull: (waitMs) =>
        Effect.map(
          ask("PullMessages", `${events}/PullPointSubscription/PullMessagesRequest`, pulledShape, {
            body: `<Timeout>PT${waitMs / 1000}S</Timeout><MessageLimit>${notificationLimits.notices}</MessageLimit>`,
            waitMs,
          }),
          (pulled): Noticed => noticesOf(listOf(present(pulled)?.notificationMessage)),
        ),
      renew: managed("Renew", `<TerminationTime>PT${lifeSeconds}S</TerminationTime>`),
    } satisfies DeviceSubscription
  })
