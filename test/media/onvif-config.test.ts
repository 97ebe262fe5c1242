/** What the ONVIF driver sets, against the simulated device by Media 2 and by Media 1 alone. */
import type { DeviceConfig } from "#media/device-config.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import type { Quirks } from "../onvif-simulator/options.ts"
import { configOf, type Failing, fault, simulated } from "./onvif-device.ts"

/** By Media 2, by Media 1, and where Media 2 has profiles and nothing else. */
const kinds = [
  { name: "Media 2", quirks: {} },
  { name: "Media 1", quirks: { media1Only: true } },
  {
    name: "Media 1 where Media 2 lacks it",
    quirks: {
      media2Lacks: [
        "GetOSDs",
        "GetOSDOptions",
        "CreateOSD",
        "SetOSD",
        "DeleteOSD",
        "GetVideoSourceConfigurations",
        "GetAudioSourceConfigurations",
        "GetAudioEncoderConfigurations",
      ],
    },
  },
] as const

describe.each(kinds)("by $name", ({ quirks }) => {
  it.live("OSDs are listed, made, changed and deleted, within their options", () =>
    Effect.gen(function*() {
      const device = yield* simulated(quirks)
      const { createOsd, deleteOsd, osd, osdOptions, osds, setOsd } = yield* configOf(device)
      const space = "http://www.onvif.org/ver10/colorspace/YCbCr"
      const color = { x: 82, y: -26, z: 97, colorspace: space, transparency: 0 }
      const clock = {
        token: "osd-1",
        sourceToken: "vsc",
        type: "text",
        position: { kind: "upperLeft", x: null, y: null },
        text: {
          kind: "dateAndTime",
          text: null,
          dateFormat: "yyyy-MM-dd",
          timeFormat: "HH:mm:ss",
          fontSize: 30,
          fontColor: color,
          backgroundColor: null,
        },
        imagePath: null,
      }
      assert.deepStrictEqual(yield* osds, [clock] as never)
      const allowed = yield* osdOptions(null)
      assert.deepInclude(allowed, {
        sourceToken: "vsc",
        types: ["text", "image"],
        fontSize: { min: 16, max: 64 },
        dateFormats: ["yyyy-MM-dd", "MM/dd/yyyy"],
        imagePaths: ["/usr/share/logo.png"],
        backgroundColors: null,
      })
      assert.deepInclude(allowed.maximum, { total: 4, image: 1, plain: 3, dateAndTime: 1 })

      const words = `Tor <"1"> & 'Hof' \u0000é`
      const made = yield* createOsd({
        type: "text",
        position: { kind: "custom", x: -0.5, y: 0.25 },
        text: { kind: "plain", text: words, fontSize: 16 },
      })
      assert.deepInclude(made, { token: "osd-2", position: { kind: "custom", x: -0.5, y: 0.25 } })
      assert.strictEqual(made.text?.text, words.replace("\u0000", ""))
      const moved = yield* setOsd("osd-1", { position: { kind: "lowerRight" }, text: { dateFormat: "MM/dd/yyyy" } })
      assert.deepStrictEqual(moved, {
        ...clock,
        position: { kind: "lowerRight", x: null, y: null },
        text: { ...clock.text, dateFormat: "MM/dd/yyyy" },
      } as never)
      const logo = yield* createOsd({
        type: "image",
        position: { kind: "upperRight" },
        imagePath: "/usr/share/logo.png",
      })
      assert.deepInclude(logo, { type: "image", imagePath: "/usr/share/logo.png", text: null })

      const asked = device.state.done.filter((one) => one === "SetOSD" || one === "CreateOSD").length
      const text = { type: "text", position: { kind: "upperLeft" } } as const
      const faults: ReadonlyArray<readonly [Failing, string]> = [
        [setOsd("osd-1", { text: { fontSize: 65 } }), "/payload/text/fontSize: the camera allows from 16 to 64"],
        [setOsd("osd-1", { text: { timeFormat: "h" } }), "/payload/text/timeFormat: the camera allows HH:mm:ss"],
        [setOsd("osd-1", { position: { kind: "custom" } }), "/payload/position: custom needs x and y, from -1 to 1"],
        [
          setOsd("osd-1", { text: { fontColor: { ...color, x: 1 } } }),
          "/payload/text/fontColor: the camera allows x/y/z of 82/-26/97, 16/0/0",
        ],
        [
          setOsd("osd-1", { text: { backgroundColor: color } }),
          "/payload/text/backgroundColor: the camera does not offer it",
        ],
        [setOsd("osd-3", { imagePath: "/etc/passwd" }), "/payload/imagePath: the camera allows /usr/share/logo.png"],
        [createOsd({ ...text, type: "image" }), "/payload/type: the camera allows 1 of kind image"],
        [
          createOsd({ ...text, text: { kind: "dateAndTime" } }),
          "/payload/type: the camera allows 1 of kind dateAndTime",
        ],
        [setOsd("osd-3", { text: { text: "a" } }), "/payload/text: an image has no text"],
        [setOsd("osd-1", { imagePath: "/usr/share/logo.png" }), "/payload/imagePath: a text has no image"],
        [setOsd("osd-9", {}), "CameraRefused"],
        [osd("osd-9"), "CameraRefused"],
        [osdOptions("nothing"), "CameraRefused"],
      ]
      for (const [failing, expected] of faults) assert.strictEqual(yield* fault(failing), expected)
      yield* createOsd({ ...text, text: { kind: "plain", text: "four" } })
      assert.strictEqual(
        yield* fault(createOsd({ ...text, text: { kind: "plain", text: "five" } })),
        "/payload/type: the camera allows 4 OSDs in one picture",
      )
      const sent = device.state.done.filter((one) => one === "SetOSD" || one === "CreateOSD").length
      assert.strictEqual(sent, asked + 1, "the device was not asked for what it cannot do")
      yield* deleteOsd("osd-1")
      assert.deepStrictEqual((yield* osds).map(({ token }) => token), ["osd-2", "osd-3", "osd-4"])
      assert.strictEqual(yield* fault(deleteOsd("osd-1")), "CameraRefused")
    }))

  it.live("sources and audio encoders are listed and changed, within their options", () =>
    Effect.gen(function*() {
      const device = yield* simulated(quirks)
      const { audioEncoders, audioSources, setAudioEncoder, setVideoSource, videoSources } = yield* configOf(device)
      const source = {
        token: "vsc",
        name: "Source",
        useCount: 2,
        sourceToken: "source-1",
        bounds: { x: 0, y: 0, width: 1920, height: 1080 },
        rotation: { mode: "off", degrees: null },
      } as const
      assert.deepStrictEqual(yield* videoSources, [source])
      const bounds = { x: 100, y: 50, width: 1280, height: 720 }
      const turned = yield* setVideoSource("vsc", {
        name: "Yard & <gate>",
        bounds,
        rotation: { mode: "on", degrees: 180 },
      })
      assert.deepStrictEqual(turned, {
        ...source,
        name: "Yard & <gate>",
        bounds,
        rotation: { mode: "on", degrees: 180 },
      })
      assert.deepStrictEqual(yield* audioSources, [
        { token: "asc", name: "Microphone", useCount: 1, sourceToken: "mic-1" },
      ])
      const sound = { token: "audio", name: "Audio", useCount: 1 }
      const aac = { ...sound, encoding: "aac", bitrateBps: 64_000, sampleRateHz: 16_000 } as const
      assert.deepStrictEqual(yield* audioEncoders, [aac])
      assert.deepStrictEqual(yield* setAudioEncoder("audio", { bitrateBps: 128_000 }), { ...aac, bitrateBps: 128_000 })
      const g711 = { encoding: "g711", bitrateBps: 64_000, sampleRateHz: 8_000 } as const
      assert.deepStrictEqual(yield* setAudioEncoder("audio", g711), { ...sound, ...g711 })

      const faults: ReadonlyArray<readonly [Failing, string]> = [
        [
          setVideoSource("vsc", { bounds: { ...bounds, width: 100 } }),
          "/payload/bounds/width: the camera allows from 960 to 1920",
        ],
        [setVideoSource("vsc", { rotation: { mode: "auto" } }), "/payload/rotation/mode: the camera allows off, on"],
        [
          setVideoSource("vsc", { rotation: { mode: "on", degrees: 5 } }),
          "/payload/rotation/degrees: the camera allows 90, 180",
        ],
        [setVideoSource("vsc", { sourceToken: "x" }), "/payload/sourceToken: the camera allows source-1"],
        // The device itself declines what its options do not rule out.
        [setVideoSource("vsc", { bounds: { ...bounds, x: 900 } }), "CameraRefused"],
        [setVideoSource("nothing", {}), "CameraRefused"],
        [setAudioEncoder("audio", { encoding: "opus" }), "/payload/encoding: the camera allows g711, aac"],
        [setAudioEncoder("audio", { bitrateBps: 1 }), "/payload/bitrateBps: the camera allows 64000"],
        [setAudioEncoder("audio", { encoding: "aac" }), "/payload/sampleRateHz: the camera allows 16000, 48000"],
        [setAudioEncoder("nothing", {}), "CameraRefused"],
      ]
      for (const [failing, expected] of faults) assert.strictEqual(yield* fault(failing), expected)
      assert.deepStrictEqual(yield* audioEncoders, [{ ...sound, ...g711 }])
    }))
})

it.live("the focus moves by its move options, and stops", () =>
  Effect.gen(function*() {
    const device = yield* simulated()
    const { moveFocus, stopFocus } = yield* configOf(device)
    yield* moveFocus("source-1", { mode: "absolute", position: 0.75, speed: 1 })
    yield* moveFocus("source-1", { mode: "continuous", speed: -1 })
    assert.deepInclude(device.state.configuration, { focus: 0.75, focusSpeed: -1 })
    yield* stopFocus("source-1")
    assert.strictEqual(device.state.configuration.focusSpeed, 0)
    const faults: ReadonlyArray<readonly [Failing, string]> = [
      [moveFocus("source-1", { mode: "absolute", position: 2 }), "/payload/position: the camera allows from 0 to 1"],
      [moveFocus("source-1", { mode: "continuous", speed: 9 }), "/payload/speed: the camera allows from -1 to 1"],
      [moveFocus("source-1", { mode: "relative", distance: 0.1 }), "OnvifOperationUnsupported"],
      [moveFocus("nothing", { mode: "continuous", speed: 1 }), "CameraRefused"],
    ]
    for (const [failing, expected] of faults) assert.strictEqual(yield* fault(failing), expected)
  }))

describe("each operation", () => {
  const position = { kind: "upperLeft" } as const
  const operations: ReadonlyArray<readonly [string, string, (config: DeviceConfig) => Failing]> = [
    ["osds", "GetOSDs", (config) => config.osds],
    ["osd", "GetOSDs", (config) => config.osd("osd-1")],
    ["osdOptions", "GetOSDOptions", (config) => config.osdOptions("vsc")],
    ["createOsd", "CreateOSD", (config) => config.createOsd({ type: "text", position, text: { text: "a" } })],
    ["setOsd", "SetOSD", (config) => config.setOsd("osd-1", { position })],
    ["deleteOsd", "DeleteOSD", (config) => config.deleteOsd("osd-1")],
    ["videoSources", "GetVideoSourceConfigurations", (config) => config.videoSources],
    ["setVideoSource", "SetVideoSourceConfiguration", (config) => config.setVideoSource("vsc", { name: "a" })],
    ["audioSources", "GetAudioSourceConfigurations", (config) => config.audioSources],
    ["audioEncoders", "GetAudioEncoderConfigurations", (config) => config.audioEncoders],
    ["setAudioEncoder", "SetAudioEncoderConfiguration", (config) => config.setAudioEncoder("audio", {})],
    ["moveFocus", "Move", (config) => config.moveFocus("source-1", { mode: "continuous", speed: 1 })],
    ["stopFocus", "Stop", (config) => config.stopFocus("source-1")],
    ["networkInterfaces", "GetNetworkInterfaces", (config) => config.networkInterfaces],
    ["setNetworkInterface", "SetNetworkInterfaces", (config) => config.setNetworkInterface("eth0", { mtu: 1400 })],
    ["factoryReset", "SetSystemFactoryDefault", (config) => config.factoryReset("soft")],
  ]
  it.live.each(operations)(
    "%s works, or is unsupported, declined, unreachable, refused",
    ([, operation, ask]) =>
      Effect.gen(function*() {
        const device = yield* simulated()
        const config = yield* configOf(device)
        const { osds } = device.state.configuration
        const kept = [...osds]
        yield* ask(config)
        const { quirks } = device.state
        const cases: ReadonlyArray<readonly [Partial<Quirks>, string]> = [
          [{ lacks: [operation] }, "OnvifOperationUnsupported"],
          [{ refuses: [operation] }, "CameraRefused"],
          [{ busy: true }, "CameraUnreachable"],
          [{ brokenXml: true }, "CameraUnreachable"],
          [{ hugeBytes: 200 << 20 }, "CameraUnreachable"],
          [{ clockSkewMs: 60_000 }, "CameraAuthFailed"],
        ]
        for (const [quirk, expected] of cases) {
          const before = { ...quirks }
          osds.splice(0, osds.length, ...kept)
          Object.assign(quirks, quirk)
          assert.strictEqual(yield* fault(ask(config)), expected, JSON.stringify(quirk))
          Object.assign(quirks, before)
        }
      }),
  )

  const oddities: ReadonlyArray<Partial<Quirks>> = [
    { digestOnly: true },
    { wrongNamespace: true, noServices: true, media1Only: true },
    { clockSkewMs: -86_400_000 },
    { media2Broken: true },
    { namedHost: "203.0.113.9" },
    { slowMs: 20 },
  ]
  it.live.each(oddities)("works on a device with %j", (quirks) =>
    Effect.gen(function*() {
      const device = yield* simulated(quirks)
      const config = yield* configOf(device)
      for (const [, , ask] of operations) yield* ask(config)
      assert.isTrue(device.heard.every((text) => !text.includes("swordfish")))
      assert.strictEqual(device.mostConnections(), 1)
    }))
})

it.live("a device that answers 503 under load is busy, and well again a second later", () =>
  Effect.gen(function*() {
    const device = yield* simulated()
    const { osds } = yield* configOf(device)
    device.state.quirks.requestsPerSecond = 20
    const answers = yield* Effect.forEach(Array.from({ length: 40 }), () => Effect.result(osds))
    const failed = answers.filter((one) => one._tag === "Failure")
    assert.isTrue(failed.length > 0 && failed.every(({ failure }) => failure._tag === "CameraUnreachable"))
    yield* Effect.sleep(1_100)
    assert.lengthOf(yield* osds, 1)
  }))
