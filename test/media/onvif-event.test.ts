/** What devices notice: subscribing, pulling and renewing against the simulated device, and messages of any kind. */
import type { DeviceSubscription } from "#media/device.ts"
import { noticesOf, referenceOf } from "#media/drivers/onvif-event.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
import { type Noticed, notificationLimits } from "#schema/camera-event.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { startDevice } from "../onvif-simulator/device.ts"
import type { Quirks } from "../onvif-simulator/options.ts"
import { random } from "./random.ts"

const simulated = (quirks: Partial<Quirks> = {}) =>
  Effect.gen(function*() {
    const simulator = yield* Effect.acquireRelease(Effect.promise(() => startDevice({ quirks })), (one) =>
      Effect.promise(() => one.close()))
    const { host, port } = simulator
    const password = Redacted.make("swordfish")
    const device = yield* onvifDriver.connect({ host, port, username: "admin", password, requestTimeoutMs: 5_000 })
    return { simulator, device }
  })
const subscribed = (quirks: Partial<Quirks> = {}) =>
  Effect.gen(function*() {
    const { device, simulator } = yield* simulated(quirks)
    assert.isNotNull(device.events)
    return { simulator, subscription: yield* device.events }
  })
const brief = ({ notices }: Noticed) =>
  notices.map(({ active, initial, kind, source }) => [kind, source, active, initial])
const pulled = (subscription: DeviceSubscription) => Effect.map(subscription.pull(2_000), brief)

const motion = (on: boolean) => ({
  topic: "tns1:RuleEngine/CellMotionDetector/tns1:Motion",
  source: { VideoSourceConfigurationToken: "source-config", Rule: "MyMotion" },
  data: { IsMotion: String(on) },
})
const crossing = { topic: "tns1:RuleEngine/LineDetector/Crossed", source: {}, data: { ObjectId: "7" }, moment: true }

describe("a pull point", () => {
  for (const quirks of [{}, { subscriptionInHeader: true }, { digestOnly: true }, { clockSkewMs: 3_600_000 }]) {
    it.live(`tells what was, and what happens (${JSON.stringify(quirks)})`, () =>
      Effect.gen(function*() {
        const { device, simulator } = yield* simulated(quirks)
        simulator.state.events.raise(motion(true))
        const subscription = yield* device.events!
        assert.deepStrictEqual(yield* pulled(subscription), [["motion", "source-config", true, true]])
        simulator.state.events.raise(motion(false))
        simulator.state.events.raise(crossing)
        simulator.state.events.raise({
          topic: "tns1:Device/Trigger/DigitalInput",
          source: { InputToken: "DI <1>" },
          data: { LogicalState: "1" },
        })
        assert.deepStrictEqual(yield* pulled(subscription), [
          ["motion", "source-config", false, false],
          ["line", null, null, false],
          ["input", "DI <1>", true, false],
        ])
        yield* subscription.renew
        assert.deepStrictEqual(yield* Effect.map(subscription.pull(100), brief), [])
      }))
  }

  it.live("ends with its scope, and its loss is told", () =>
    Effect.gen(function*() {
      const { simulator } = yield* Effect.scoped(subscribed())
      assert.strictEqual(simulator.state.events.subscriptions, 0)
      assert.include(simulator.state.done, "Unsubscribe")
      const lost = yield* subscribed()
      lost.simulator.state.events.forget()
      assert.strictEqual((yield* Effect.flip(lost.subscription.pull(100)))._tag, "CameraRefused")
    }))

  it.live("is not there where a camera notices nothing", () =>
    Effect.map(simulated({ noEvents: true }), ({ device }) => assert.isNull(device.events)))
})

const message = (topic: unknown, data: Record<string, string>, more: Record<string, unknown> = {}) => ({
  topic,
  message: {
    message: {
      $UtcTime: "2031-05-06T07:08:09Z",
      data: { simpleItem: Object.entries(data).map(([$Name, $Value]) => ({ $Name, $Value })) },
      ...more,
    },
  },
})

describe("messages", () => {
  it("are known by their topics, in whatever namespaces", () => {
    const cases = [
      ["tns1:VideoSource/MotionAlarm", { State: "true" }, "motion", true],
      [{ $text: " axis:RuleEngine/axis:MotionRegionDetector/Motion " }, { State: "0" }, "motion", false],
      ["tns1:RuleEngine/TamperDetector/Tamper", { IsTamper: "true" }, "tamper", true],
      ["tns1:VideoSource/GlobalSceneChange/AnalyticsService", { State: "false" }, "tamper", false],
      ["tns1:RuleEngine/LineDetector/Crossed", {}, "line", null],
    ] as const
    for (const [topic, data, kind, active] of cases) {
      const { leftOut, notices } = noticesOf([message(topic, data)])
      assert.strictEqual(leftOut, 0)
      assert.deepInclude(notices[0], { kind, active, deviceTimeMs: Date.UTC(2031, 4, 6, 7, 8, 9) })
    }
    const deleted = noticesOf([message("tns1:VideoSource/MotionAlarm", {}, { $PropertyOperation: "Deleted" })])
    assert.deepInclude(deleted.notices[0], { active: false })
  })

  it("of no interest, without a state or unreadable lose no other", () => {
    const good = message("tns1:VideoSource/MotionAlarm", { State: "true" })
    const { leftOut, notices } = noticesOf([
      message("tns1:Device/HardwareFailure/FanFailure", { Failed: "true" }),
      message("tns1:VideoSource/MotionAlarm", { State: "perhaps" }),
      "",
      { topic: [], message: 7 },
      good,
    ])
    assert.lengthOf(notices, 1)
    assert.strictEqual(leftOut, 2)
    const flood = noticesOf(Array.from({ length: 500 }, () => good))
    assert.strictEqual(flood.notices.length, notificationLimits.notices)
    assert.strictEqual(flood.leftOut, 500 - notificationLimits.notices)
  })

  it("of any shape are read in bounds", () => {
    const next = random(11)
    const anything = (depth: number): unknown => {
      const kind = next(depth > 4 ? 3 : 6)
      if (kind === 0) return "tns1:VideoSource/MotionAlarm"
      if (kind === 1) return String.fromCodePoint(next(0xd7ff))
      if (kind === 2) return next(9)
      if (kind === 3) return Array.from({ length: next(4) }, () => anything(depth + 1))
      const names = ["topic", "message", "source", "data", "simpleItem", "$Name", "$Value", "$UtcTime", "$text"]
      return Object.fromEntries(Array.from({ length: next(6) }, () => [names[next(names.length)], anything(depth + 1)]))
    }
    for (let round = 0; round < 2_000; round += 1) {
      const { leftOut, notices } = noticesOf(Array.from({ length: next(5) }, () => anything(0)))
      assert.isTrue(leftOut >= 0 && notices.every(({ detector }) => detector.length <= notificationLimits.text))
    }
  })
})

describe("reference parameters", () => {
  it("are given back as the elements they are", () => {
    const axis = `<e:Envelope xmlns:wsa5="urn:a" xmlns:dom0="urn:axis"><wsa5:ReferenceParameters>` +
      `<dom0:SubscriptionId>2 &amp; 3</dom0:SubscriptionId><x:Own xmlns:x="urn:x">y</x:Own></wsa5:ReferenceParameters>`
    assert.strictEqual(
      referenceOf(axis),
      `<r:SubscriptionId xmlns:r="urn:axis">2 &amp; 3</r:SubscriptionId><r:Own xmlns:r="urn:x">y</r:Own>`,
    )
    assert.strictEqual(referenceOf("<a>nothing</a>"), "")
    assert.strictEqual(
      referenceOf(axis.replace("urn:axis", "").replace("2 &amp; 3", "<b/>")),
      `<r:Own xmlns:r="urn:x">y</r:Own>`,
    )
  })

  it("of any text end soon, and add no element of the device's making", () => {
    const next = random(5)
    const parts = [
      "<wsa:ReferenceParameters>",
      "</wsa:ReferenceParameters>",
      "<a:b>",
      "</a:b>",
      "xmlns:a=\"",
      "\"",
      "<",
      ">",
      "x",
      "&lt;",
      " ",
    ]
    for (let round = 0; round < 300; round += 1) {
      const made = referenceOf(Array.from({ length: next(2_000) }, () => parts[next(parts.length)]).join(""))
      assert.match(made, /^(<r:[\w.-]+ xmlns:r="[^"<>]*">[^<>]*<\/r:[\w.-]+>)*$/)
    }
  })
})
