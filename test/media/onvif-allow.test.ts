/** What a device is told is asked about before it is sent, and nothing else is. */
import { onvifDriver } from "#media/drivers/onvif.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { optionsOf, simulated } from "./onvif-device.ts"

describe("a device", () => {
  it.live("is told nothing while another node has control of it, and read as ever", () =>
    Effect.gen(function*() {
      const asked: Array<string> = []
      let mine = true
      const simulator = yield* simulated()
      const device = yield* onvifDriver.connect(optionsOf(simulator, {
        allow: (what) =>
          Effect.suspend(() => {
            asked.push(what)
            return mine ? Effect.void : Effect.fail(new ControlElsewhere({ nodeId: "there" }))
          }),
      }))
      const [encoder] = yield* device.videoEncoders
      const [profile] = yield* device.profiles
      assert.deepStrictEqual(asked, [])
      yield* device.ptz.moveContinuous(null, { pan: 1 }, 1_000)
      assert.deepStrictEqual(asked, ["command"])

      mine = false
      const heard = simulator.heard.length
      const refused = [
        device.ptz.moveContinuous(null, { pan: 1 }, 1_000),
        device.ptz.stop(null),
        device.ptz.gotoHome(null),
        device.ptz.removePreset(null, "preset-1"),
        device.setVideoEncoder(encoder!.token, { govLength: encoder!.govLength! + 1 }),
        device.setClock({ mode: "manual" }),
        device.reboot,
        device.setImaging(profile!.videoSourceToken!, { brightness: 40 }),
        device.config.deleteOsd("osd-1"),
        device.config.factoryReset("soft"),
      ] as ReadonlyArray<Effect.Effect<unknown, { readonly _tag: string }>>
      for (const work of refused) assert.strictEqual((yield* Effect.flip(work))._tag, "ControlElsewhere")
      assert.strictEqual(asked.at(-1), "reset")
      for (const text of simulator.heard.slice(heard)) assert.match(text, /<s:Body>\s*<Get/)
      assert.strictEqual((yield* device.videoEncoder(encoder!.token)).govLength, encoder!.govLength)
    }).pipe(Effect.scoped))

  it.live("is not told what waited while control went elsewhere", () =>
    Effect.gen(function*() {
      let mine = true
      const simulator = yield* simulated({ slowMs: 200 })
      const device = yield* onvifDriver.connect(optionsOf(simulator, {
        allow: () => mine ? Effect.void : Effect.fail(new ControlElsewhere({ nodeId: "there" })),
      }))
      const [first, second] = yield* Effect.all([
        Effect.exit(Effect.tap(device.reboot, Effect.sync(() => (mine = false)))),
        Effect.exit(Effect.andThen(Effect.sleep(50), device.ptz.stop(null))),
      ], { concurrency: 2 })
      assert.strictEqual(first._tag, "Success")
      assert.strictEqual(second._tag, "Failure")
      assert.isFalse(simulator.heard.some((text) => text.includes("<Stop")))
    }).pipe(Effect.scoped))
})
