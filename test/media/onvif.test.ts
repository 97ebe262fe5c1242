/** The ONVIF driver against the simulated device, its quirks, and what real devices of three makers answered. */
import { Malformed } from "#media/codec/malformed.ts"
import type { Device, DeviceOptions } from "#media/device.ts"
import { changeFault, onHost, rolesOf } from "#media/drivers/onvif-media.ts"
import { escaped, readReply } from "#media/drivers/onvif-message.ts"
import { onvifDriver } from "#media/drivers/onvif.ts"
import type { DeviceError, VideoEncoder } from "#schema/camera-device.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { type SimulatedDevice, startDevice } from "../onvif-simulator/device.ts"
import type { DeviceOptions as SimulatedOptions, Quirks } from "../onvif-simulator/options.ts"
import { recordedReplies, startRecorded } from "../onvif-simulator/recorded.ts"
import { random } from "./random.ts"

const simulated = (options: Partial<SimulatedOptions> = {}) =>
  Effect.acquireRelease(Effect.promise(() => startDevice(options)), (device) => Effect.promise(() => device.close()))
const quirky = (quirks: Partial<Quirks>) => simulated({ quirks })

const options = (
  { host, port }: { readonly host: string; readonly port: number },
  more: Partial<DeviceOptions> = {},
) => ({
  host,
  port,
  username: "admin",
  password: Redacted.make("swordfish"),
  requestTimeoutMs: 5_000,
  ...more,
})
const connected = (device: SimulatedDevice, more: Partial<DeviceOptions> = {}) =>
  onvifDriver.connect(options(device, more))
const failure = (device: SimulatedDevice, more: Partial<DeviceOptions> = {}): Effect.Effect<DeviceError> =>
  Effect.flip(connected(device, more)).pipe(Effect.catch(() => Effect.die(new Error("it connected"))))
const supported = (device: Device) =>
  Effect.map(device.capabilities, (all) => Object.fromEntries(all.map((one) => [one.name, one.supported])))

describe("connecting to a device", () => {
  it.live("finds out who it is, what it can do and where its streams are", () =>
    Effect.gen(function*() {
      const simulator = yield* simulated({
        streams: { main: "rtsp://127.0.0.1:8554/cam/0", sub: "rtsp://someone:secret@127.0.0.1:8554/cam/0/sub?a=1&b=2" },
      })
      const device = yield* connected(simulator)
      assert.deepInclude(device.information, { manufacturer: "Nightjar", model: "Simulated & stateful" })
      assert.deepInclude(yield* supported(device), {
        media2: "yes",
        ptz: "yes",
        audio: "yes",
        snapshot: "yes",
        imaging: "unverified",
      })
      assert.deepStrictEqual(yield* device.channels, [{
        name: null,
        videoSourceToken: "source-1",
        streams: [
          { role: "main", profileToken: "main", sourceUrl: "rtsp://127.0.0.1:8554/cam/0" },
          { role: "sub", profileToken: "sub", sourceUrl: "rtsp://127.0.0.1:8554/cam/0/sub?a=1&b=2" },
        ],
      }])
      assert.isTrue(simulator.heard.length > 5 && simulator.heard.every((text) => !text.includes("swordfish")))
    }))

  it.live("takes a wrong password for what it is, and any user that XML has to escape", () =>
    Effect.gen(function*() {
      const odd = { username: `a"<&>b`, password: "pässwörd" }
      const simulator = yield* simulated(odd)
      assert.strictEqual((yield* failure(simulator))._tag, "CameraAuthFailed")
      const device = yield* connected(simulator, { ...odd, password: Redacted.make(odd.password) })
      assert.strictEqual(device.information.manufacturer, "Nightjar")
    }))

  it.live("allows for a clock that is an hour ahead or a year behind", () =>
    Effect.gen(function*() {
      for (const clockSkewMs of [3_600_000, -365 * 86_400_000]) {
        const device = yield* connected(yield* quirky({ clockSkewMs }))
        assert.closeTo(device.clockOffsetMs, clockSkewMs, 3_000)
      }
    }))

  it.live("answers HTTP Digest where the device wants nothing else", () =>
    Effect.gen(function*() {
      const simulator = yield* quirky({ digestOnly: true })
      assert.lengthOf(yield* (yield* connected(simulator)).profiles, 2)
      assert.strictEqual((yield* failure(simulator, { password: Redacted.make("guess") }))._tag, "CameraAuthFailed")
    }))

  it.live("uses Media 1 where there is no Media 2, or one that does not work, or no list of services", () =>
    Effect.gen(function*() {
      for (const quirks of [{ media1Only: true }, { media2Broken: true }, { noServices: true, media1Only: true }]) {
        const device = yield* connected(yield* quirky(quirks))
        assert.deepInclude(yield* supported(device), { media: "yes", media2: "no", ptz: "yes" })
        const [main] = yield* device.videoEncoders
        assert.deepInclude(main, {
          encoding: "h264",
          width: 640,
          govLength: 50,
          bitrateBps: 1_024_000,
          profile: "Main",
        })
      }
    }))

  it.live("does not care for the namespaces of a reply", () =>
    Effect.gen(function*() {
      const device = yield* connected(yield* quirky({ wrongNamespace: true, noServices: true, media1Only: true }))
      assert.lengthOf(yield* device.profiles, 2)
    }))

  it.live("asks nobody but the address it was given, whatever the device names", () =>
    Effect.gen(function*() {
      const device = yield* connected(yield* quirky({ namedHost: "203.0.113.9" }))
      assert.strictEqual(yield* device.streamUri("main"), "rtsp://127.0.0.1:554/main")
      assert.match(yield* device.snapshotUri(null), /^http:\/\/127\.0\.0\.1:\d+\/snapshot\/main\.jpg$/)
    }))

  it.live("gives up what is too slow, too long, broken, busy or not there, and says which", () =>
    Effect.gen(function*() {
      const cases = [
        [{ slowMs: 30_000 }, "timeout"],
        [{ hugeBytes: (1 << 20) + 1 }, "tooLarge"],
        [{ brokenXml: true }, "protocol"],
        [{ busy: true }, "busy"],
      ] as const
      for (const [quirks, reason] of cases) {
        const error = yield* failure(yield* quirky(quirks), { requestTimeoutMs: reason === "timeout" ? 200 : 5_000 })
        assert.deepInclude(error, { _tag: "CameraUnreachable", reason })
      }
      const gone = yield* Effect.scoped(simulated())
      assert.deepInclude(yield* failure(gone), { _tag: "CameraUnreachable", reason: "unreachable" })
    }))

  it.live("has one connection in flight, however many ask", () =>
    Effect.gen(function*() {
      const simulator = yield* quirky({ slowMs: 20 })
      const device = yield* connected(simulator)
      yield* Effect.all(Array.from({ length: 8 }, () => device.profiles), { concurrency: "unbounded" })
      assert.strictEqual(simulator.mostConnections(), 1)
    }))
})

describe("video encoders", () => {
  for (const quirks of [{}, { media1Only: true }]) {
    const media = "media1Only" in quirks ? "Media 1" : "Media 2"
    it.live(`are changed within their options, by ${media}`, () =>
      Effect.gen(function*() {
        const told: Array<string> = []
        const simulator = yield* simulated({
          quirks,
          onEncoder: (profile, encoder) => told.push(`${profile} ${encoder.width}x${encoder.height}`),
        })
        const device = yield* connected(simulator)
        const { encodings, token } = yield* device.videoEncoderOptions("encoder-main")
        assert.strictEqual(token, "encoder-main")
        assert.deepInclude(encodings[0], {
          encoding: "h264",
          bitrateBps: { min: 64_000, max: 8_192_000 },
          frameRate: { min: 1, max: 25 },
          govLength: { min: 1, max: 400 },
        })
        const changed = yield* device.setVideoEncoder("encoder-main", {
          width: 1280,
          height: 720,
          bitrateBps: 2_000_000,
        })
        assert.deepInclude(changed, { width: 1280, height: 720, bitrateBps: 2_000_000, frameRate: 25, govLength: 50 })
        assert.deepStrictEqual(told, ["main 1280x720"])
        for (
          const change of [{ width: 1281 }, { frameRate: 26 }, { bitrateBps: 1 }, { govLength: 0 }, { quality: 101 }]
        ) {
          const error = yield* Effect.flip(device.setVideoEncoder("encoder-main", change))
          assert.strictEqual(error._tag, "InvalidInput")
        }
        assert.lengthOf(told, 1, "the device was not asked for what it cannot do")
        assert.strictEqual((yield* Effect.flip(device.videoEncoder("nothing")))._tag, "CameraRefused")
      }))
  }

  it("are not held to options that a device does not tell", () => {
    const encoder: VideoEncoder = {
      token: "e",
      name: "e",
      useCount: 1,
      encoding: "h264",
      width: 640,
      height: 360,
      quality: 5,
      frameRate: 25,
      bitrateBps: 1000,
      govLength: 50,
      profile: null,
    }
    const open = {
      encoding: "h264",
      resolutions: [],
      quality: null,
      frameRate: null,
      bitrateBps: null,
      govLength: null,
    } as const
    assert.isNull(changeFault(encoder, { width: 7, frameRate: 900 }, []))
    assert.isNull(changeFault(encoder, { width: 7, frameRate: 900 }, [open]))
    assert.deepInclude(changeFault(encoder, { encoding: "h265" }, [open]), { member: "encoding", allowed: "h264" })
  })
})

describe("moving a camera", () => {
  it.live("by speed, position and distance, to presets and home, and to a stop", () =>
    Effect.gen(function*() {
      const simulator = yield* simulated()
      const { ptz } = yield* connected(simulator)
      yield* ptz.moveAbsolute(null, { pan: 0.5, tilt: -0.25, zoom: 1 }, null)
      yield* ptz.moveRelative("main", { pan: -0.25 }, { pan: 1 })
      assert.deepStrictEqual(yield* ptz.status(null), { pan: 0.25, tilt: -0.25, zoom: 1, moving: false, error: "" })
      const name = `Tor <"1"> & Hof`
      const token = yield* ptz.setPreset(null, name, null)
      const twin = yield* ptz.setPreset(null, name, null)
      yield* ptz.setHome(null)
      yield* ptz.moveContinuous(null, { pan: 1 }, 60_000)
      assert.isTrue((yield* ptz.status(null)).moving)
      yield* ptz.stop(null)
      assert.isFalse((yield* ptz.status(null)).moving)
      yield* ptz.moveAbsolute(null, { pan: -1, tilt: -1, zoom: 0 }, null)
      yield* ptz.gotoPreset(null, token)
      assert.deepInclude(yield* ptz.status(null), { pan: 0.25 })
      assert.deepStrictEqual((yield* ptz.presets(null)).map((one) => [one.token, one.name]), [[token, name], [
        twin,
        name,
      ]])
      yield* ptz.removePreset(null, token)
      assert.strictEqual((yield* Effect.flip(ptz.gotoPreset(null, token)))._tag, "CameraRefused")
      yield* ptz.moveAbsolute(null, { pan: 1 }, null)
      yield* ptz.gotoHome(null)
      assert.deepInclude(yield* ptz.status(null), { pan: 0.25 })
    }))

  it.live("is unsupported where it cannot move", () =>
    Effect.gen(function*() {
      const { ptz } = yield* connected(yield* quirky({ noPtz: true }))
      assert.strictEqual((yield* Effect.flip(ptz.stop(null)))._tag, "OnvifOperationUnsupported")
      assert.strictEqual((yield* Effect.flip(ptz.stop("main")))._tag, "OnvifOperationUnsupported")
    }))
})

it.live("imaging is unsupported where the device has no such service", () =>
  Effect.gen(function*() {
    const device = yield* connected(yield* quirky({ noImaging: true }))
    for (const asked of [device.imaging("source-1"), device.setImaging("source-1", { contrast: 1 })]) {
      assert.strictEqual(
        (yield* Effect.flip<unknown, { readonly _tag: string }, never>(asked))._tag,
        "OnvifOperationUnsupported",
      )
    }
  }))

describe("devices as they were recorded", () => {
  const makers = [
    {
      file: "axis-p3818-pve",
      manufacturer: "AXIS",
      ptz: "no",
      streams: [
        "main rtsp://127.0.0.1/onvif-media/media.amp?profile=profile_1_h264&sessiontimeout=60&streamtype=unicast",
      ],
      encoder: { token: "default_1_h264", encoding: "h264", width: 1920, height: 960 },
    },
    {
      file: "bosch-autodome-5000i",
      manufacturer: "Bosch",
      ptz: "yes",
      streams: ["main ", "sub "],
      encoder: { token: "H26x_L1S1", encoding: "h264", width: 1536, height: 864, bitrateBps: 1_400_000, govLength: 60 },
    },
    {
      file: "reolink-e1-zoom",
      manufacturer: "REOLINK",
      ptz: "yes",
      streams: ["main rtsp://127.0.0.1:554/", "sub "],
      encoder: { token: "000", encoding: "h264", width: 2048, height: 1536, bitrateBps: 1_024_000, govLength: 30 },
    },
  ] as const
  it.live.each(makers)(
    "$file: connect, profiles, streams, encoders",
    ({ encoder, file, manufacturer, ptz, streams }) =>
      Effect.gen(function*() {
        const recorded = yield* Effect.acquireRelease(
          Effect.promise(() => startRecorded(file)),
          (one) => Effect.promise(() => one.close()),
        )
        const device = yield* onvifDriver.connect(options(recorded))
        assert.strictEqual(device.information.manufacturer, manufacturer)
        assert.isTrue(Math.abs(device.clockOffsetMs) > 86_400_000, "the recording's clock")
        assert.deepInclude(yield* supported(device), { media: "yes", ptz, snapshot: "yes", imaging: "unverified" })
        const [channel] = yield* device.channels
        const found = channel!.streams.map((one) => `${one.role} ${one.sourceUrl}`)
        assert.lengthOf(found, streams.length)
        streams.forEach((start, index) => assert.isTrue(found[index]!.startsWith(start), found[index]))
        assert.deepInclude((yield* device.videoEncoders).find((one) => one.token === encoder.token), encoder)
        const [source] = (yield* device.profiles).map((profile) => profile.videoSourceToken)
        const picture = yield* device.imaging(source!)
        assert.deepInclude(
          picture,
          file === "axis-p3818-pve" ? { brightness: 50, irCutFilter: "auto" } : { contrast: 128 },
        )
      }),
  )

  it.live("a Bosch tells where it looks, and its presets", () =>
    Effect.gen(function*() {
      const recorded = yield* Effect.acquireRelease(
        Effect.promise(() => startRecorded("bosch-autodome-5000i")),
        (one) => Effect.promise(() => one.close()),
      )
      const { ptz } = yield* onvifDriver.connect(options(recorded))
      const status = yield* ptz.status(null)
      assert.isNotNull(status.pan)
      assert.isArray(yield* ptz.presets(null))
    }))
})

describe("messages", () => {
  it("escape whatever is put into them", () => {
    assert.strictEqual(escaped(`<a b="c">&'\u0000\uD800`), "&lt;a b=&quot;c&quot;&gt;&amp;&apos;\uFFFD")
  })

  it("are read or malformed, whatever bytes come", () => {
    const seeds = ["axis-p3818-pve", "bosch-autodome-5000i", "reolink-e1-zoom"].flatMap((name) =>
      [...recordedReplies(name).values()].flat()
    ).map((line) => `<Envelope xmlns="http://www.w3.org/2003/05/soap-envelope"><Body>${line}</Body></Envelope>`)
    const next = random(7)
    const pieces = [
      "<",
      ">",
      "</Body>",
      "&",
      "&#x110000;",
      "]]>",
      "<![CDATA[",
      "<!--",
      "\0",
      " xmlns=\"",
      "xmlns",
      "=\"",
      "<a>",
      "é",
    ]
    let fine = 0
    for (let round = 0; round < 1500; round++) {
      let text = seeds[next(seeds.length)]!
      for (let change = next(3); change > 0; change--) {
        const at = next(text.length)
        text = text.slice(0, at) + pieces[next(pieces.length)]! + text.slice(at + next(8))
      }
      try {
        readReply(text)
        fine += 1
      } catch (error) {
        assert.instanceOf(error, Malformed, text)
      }
    }
    assert.isTrue(fine > 300 && fine < 1500, String(fine))
  })

  it("that grow in time or depth are refused", () => {
    const hostile = [
      `<Envelope><Body>${"<a>".repeat(300_000)}`,
      `<Envelope><Body>${"<a>".repeat(60)}${"</a>".repeat(60)}</Body></Envelope>`,
      "xmlns".repeat(200_000),
      `<!DOCTYPE a [<!ENTITY b "${"c".repeat(1000)}">]><Envelope><Body><a>&b;</a></Body></Envelope>`,
      "",
      "<Envelope/>",
      "<Envelope><Body/></Envelope>",
    ]
    for (const text of hostile) assert.throws(() => readReply(text), Malformed)
  })

  it("name no host but the one that was given", () => {
    assert.strictEqual(
      onHost("rtsp://u:p@10.0.0.9:8554/a?b=c#d", "camera.example", "rtsp:"),
      "rtsp://camera.example:8554/a?b=c",
    )
    assert.strictEqual(onHost("rtsp://10.0.0.9/a", "fe80::1", "rtsp:"), "rtsp://[fe80::1]/a")
    for (const uri of ["http://a/b", "file:///etc/passwd", "", "rtsp", `rtsp://a/${"x".repeat(3000)}`]) {
      assert.isNull(onHost(uri, "camera.example", "rtsp:"))
    }
  })

  it("about profiles of one encoder make one stream, of several sources several channels", () => {
    const profile = (token: string, source: string, encoder: string, width: number) => ({
      token,
      name: token,
      videoSourceToken: source,
      videoEncoder: {
        token: encoder,
        name: "",
        useCount: 1,
        encoding: "h264" as const,
        width,
        height: 100,
        quality: 1,
        frameRate: null,
        bitrateBps: null,
        govLength: null,
        profile: null,
      },
      audio: false,
      ptzToken: null,
    })
    const roles = rolesOf([
      profile("a", "1", "x", 640),
      profile("b", "1", "x", 640),
      profile("c", "2", "y", 320),
      profile("d", "2", "z", 1920),
    ])
    assert.deepStrictEqual(roles.map(({ main, source, sub }) => [source, main.token, sub?.token ?? null]), [
      ["1", "a", null],
      ["2", "d", "c"],
    ])
  })
})
