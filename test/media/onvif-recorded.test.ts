/** The configuration of real devices as it was recorded, and one of them with more profiles than most. */
import { onvifDriver } from "#media/drivers/onvif.ts"
import type { DeviceError } from "#schema/camera-device.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { startRecorded } from "../onvif-simulator/recorded.ts"

const connected = (name: string) =>
  Effect.gen(function*() {
    const { host, port } = yield* Effect.acquireRelease(Effect.promise(() => startRecorded(name)), (one) =>
      Effect.promise(() => one.close()))
    const password = Redacted.make("swordfish")
    return yield* onvifDriver.connect({ host, port, username: "admin", password, requestTimeoutMs: 5_000 })
  })

const whole = (width: number, height: number) => ({ x: 0, y: 0, width, height })

describe("devices as they were recorded", () => {
  const makers = [
    {
      file: "axis-p3818-pve",
      video: [{ token: "0", name: "user0", bounds: whole(5120, 2560), rotation: { mode: "on", degrees: 0 } }],
      audioSources: [],
      audioEncoders: [],
    },
    {
      file: "bosch-autodome-5000i",
      video: [{ token: "1", name: "Camera_1", bounds: whole(1920, 1080), rotation: { mode: "off", degrees: null } }],
      audioSources: [{ token: "1", name: "AudioSource 1", useCount: 3, sourceToken: "1" }],
      audioEncoders: [],
    },
    {
      file: "reolink-e1-zoom",
      video: [{ token: "000", name: "VideoS_000", bounds: whole(2048, 1536), rotation: null }],
      audioSources: [{ token: "000", name: "AudioS_000", useCount: 2, sourceToken: "000" }],
      audioEncoders: [{ token: "000", encoding: "aac", bitrateBps: 16_000, sampleRateHz: 16_000 }],
    },
    {
      file: "bosch-flexidome-5100i",
      video: [
        { token: "3", name: "E_PTZ", bounds: whole(2112, 2112), rotation: null },
        { token: "2", name: "Dewarped_view_mode", bounds: whole(2112, 2112), rotation: null },
        { token: "1", name: "Full_Image_Circle", bounds: whole(2112, 2112), rotation: null },
      ],
      audioSources: [{ token: "1", name: "AudioSource 1", useCount: 1, sourceToken: "1" }],
      audioEncoders: [{ token: "1", encoding: "g711", bitrateBps: 64_000, sampleRateHz: 8_000 }],
    },
  ] as const
  it.live.each(makers)("$file: sources, audio encoders, and what it does not have", (maker) =>
    Effect.gen(function*() {
      const { config } = yield* connected(maker.file)
      const sources = yield* config.videoSources
      assert.lengthOf(sources, maker.video.length)
      maker.video.forEach((one, index) => assert.deepInclude(sources[index], one))
      assert.deepStrictEqual(yield* config.audioSources, maker.audioSources)
      const encoders = yield* config.audioEncoders
      assert.lengthOf(encoders, maker.audioEncoders.length)
      maker.audioEncoders.forEach((one, index) => assert.deepInclude(encoders[index], one))
      for (const asked of [config.osds, config.networkInterfaces, config.factoryReset("soft")]) {
        const error = yield* Effect.flip<unknown, DeviceError, never>(asked)
        assert.strictEqual(error._tag, "OnvifOperationUnsupported")
      }
    }))

  it.live("a panorama with sixteen profiles, seven of them without a picture", () =>
    Effect.gen(function*() {
      const device = yield* connected("bosch-flexidome-5100i")
      assert.deepInclude(device.information, { model: "FLEXIDOME panoramic 5100i", firmwareVersion: "9.00.0210" })
      const profiles = yield* device.profiles
      assert.deepStrictEqual([profiles.length, profiles.filter((one) => one.videoEncoder === null).length], [16, 7])
      const [channel, ...others] = yield* device.channels
      assert.lengthOf(others, 0)
      assert.deepStrictEqual(channel!.streams.map((one) => `${one.role} ${one.sourceUrl}`), [
        "main rtsp://127.0.0.1/rtsp_tunnel?p=1&line=2&inst=1",
        "sub rtsp://127.0.0.1/rtsp_tunnel?p=8&line=2&inst=3",
      ])
      assert.strictEqual((yield* Effect.flip(device.streamUri("9")))._tag, "CameraRefused")
      assert.deepInclude((yield* device.videoEncoders)[1], { width: 3072, height: 1728, bitrateBps: 400_000 })
      assert.deepInclude(yield* device.imaging("1"), { brightness: 127, sharpness: null })
      assert.isTrue((yield* device.snapshotUri("1")).startsWith("http://127.0.0.1/snap.jpg?"))
    }))
})
