/** What moves in a device, its configuration and its tours: against the simulated device, its quirks, and odd words. */
import { durationMs } from "#media/drivers/onvif-tour.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
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

describe("what moves", () => {
  it.live("is told with its ranges, presets and tours", () =>
    Effect.gen(function*() {
      const { device } = yield* simulated()
      const one = { min: -1, max: 1 }
      assert.deepStrictEqual(yield* device.tours.nodes, [{
        token: "node-1",
        name: "Dome",
        absolute: { pan: one, tilt: one, zoom: { min: 0, max: 1 } },
        relative: { pan: one, tilt: one, zoom: one },
        continuous: { pan: one, tilt: one, zoom: one },
        maxPresets: 100,
        homeSupported: true,
        homeFixed: false,
        tours: { max: 4, operations: ["start", "stop"] },
        auxiliaryCommands: ["tt:Wiper|On"],
      }])
      const still = yield* simulated({ noTours: true })
      assert.deepInclude((yield* still.device.tours.nodes)[0], { tours: null })
      const fixed = yield* simulated({ noPtz: true })
      for (
        const asked of [fixed.device.tours.nodes, fixed.device.tours.configurations, fixed.device.tours.widen(null)]
      ) {
        const error = yield* Effect.flip(asked as Effect.Effect<unknown, { readonly _tag: string }>)
        assert.strictEqual(error._tag, "OnvifOperationUnsupported")
      }
    }))

  it.live("is set back to all that the node can do, and to nothing else", () =>
    Effect.gen(function*() {
      const { device, simulator } = yield* simulated()
      const half = { min: -0.5, max: 0.5 }
      const before = {
        token: "ptz-1",
        name: "Dome & zoom",
        useCount: 2,
        nodeToken: "node-1",
        defaultSpeed: { pan: 0.5, tilt: 0.5, zoom: 1 },
        defaultTimeoutMs: 65_500,
        limits: { pan: half, tilt: half, zoom: { min: 0, max: 0.5 } },
      }
      assert.deepStrictEqual(yield* device.tours.configurations, [before])
      const whole = { min: -1, max: 1 }
      assert.deepStrictEqual(yield* device.tours.widen(null), {
        ...before,
        limits: { pan: whole, tilt: whole, zoom: { min: 0, max: 1 } },
      })
      assert.deepStrictEqual(simulator.state.limits, { panTilt: [-1, 1], zoom: [0, 1] })
      assert.strictEqual((yield* Effect.flip(device.tours.widen("nothing")))._tag, "OnvifOperationUnsupported")
    }))
})

describe("tours", () => {
  it.live("are made of presets, run, and removed", () =>
    Effect.gen(function*() {
      const { device: { ptz, tours }, simulator } = yield* simulated()
      const gate = yield* ptz.setPreset(null, "Gate", null)
      const yard = yield* ptz.setPreset(null, "Yard", null)
      const spots = [{ presetToken: gate, staySeconds: 5 }, { presetToken: yard, staySeconds: 7.5 }]
      const token = yield* tours.createTour(null, { name: "Round <&> round", autoStart: true, spots })
      assert.deepStrictEqual(yield* tours.tours("main"), [{
        token,
        name: "Round <&> round",
        state: "idle",
        autoStart: true,
        spots: spots.map((spot) => ({ ...spot, home: false })),
      }])
      for (const [operation, state] of [["start", "touring"], ["pause", "paused"], ["stop", "idle"]] as const) {
        yield* tours.operateTour(null, token, operation)
        assert.deepInclude((yield* tours.tours(null))[0], { state })
      }
      yield* tours.removeTour(null, token)
      assert.deepStrictEqual(yield* tours.tours(null), [])
      assert.strictEqual((yield* Effect.flip(tours.removeTour(null, token)))._tag, "CameraRefused")
      assert.lengthOf(simulator.state.tours, 0)
    }))

  it.live("leave nothing behind where their spots are refused", () =>
    Effect.gen(function*() {
      const { device: { tours }, simulator } = yield* simulated()
      const spots = [{ presetToken: "nothing", staySeconds: 5 }]
      const error = yield* Effect.flip(tours.createTour(null, { name: "Round", autoStart: false, spots }))
      assert.strictEqual(error._tag, "CameraRefused")
      assert.lengthOf(simulator.state.tours, 0)
      assert.include(simulator.state.done, "RemovePresetTour")
    }))

  it.live("are not supported by a camera that has none", () =>
    Effect.gen(function*() {
      const { device: { tours } } = yield* simulated({ noTours: true })
      for (
        const asked of [
          tours.tours(null),
          tours.removeTour(null, "a"),
          tours.operateTour(null, "a", "start"),
          tours.createTour(null, { name: "a", autoStart: false, spots: [{ presetToken: "a", staySeconds: 1 }] }),
        ]
      ) {
        const error = yield* Effect.flip(asked as Effect.Effect<unknown, { readonly _tag: string }>)
        assert.strictEqual(error._tag, "OnvifOperationUnsupported")
      }
    }))
})

describe("durations", () => {
  it("are read as XML Schema writes them", () => {
    const known = {
      PT5S: 5_000,
      "PT0.25S": 250,
      PT1M: 60_000,
      PT1H0M1S: 3_601_000,
      P1DT1S: 86_401_000,
      " PT2S ": 2_000,
    }
    for (const [word, ms] of Object.entries(known)) assert.strictEqual(durationMs(word), ms, word)
    for (const word of ["", "P", "PT", "5", "PT5", "-PT5S", "P1M", "PT5SS", "PTS"]) assert.isNull(durationMs(word))
  })

  it("are a finite number or nothing, whatever the letters", () => {
    const next = random(7)
    for (let round = 0; round < 2_000; round += 1) {
      const word = Array.from({ length: next(12) }, () => "PTDHMS0123456789.-"[next(18)]).join("")
      const ms = durationMs(word)
      assert.isTrue(ms === null || (Number.isSafeInteger(ms) && ms >= 0), word)
    }
  })
})
