/**
 * What an ONVIF camera is set to, on a whole node by HTTP: every operation as it works, where the camera lacks it, declines, is away or
 * refuses the credentials; encoders as ffprobe sees them; pictures as curl gets them.
 */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { startDevice } from "./onvif-simulator/device.ts"
import { type JoinedCamera, startJoined } from "./onvif-simulator/joined.ts"
import type { DeviceOptions, Quirks } from "./onvif-simulator/options.ts"
import { picture } from "./onvif-simulator/picture.ts"

const run = promisify(execFile)

interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

const cameras = "/camera/api/v1/cameras"

const joined: Effect.Effect<JoinedCamera, never, never> = Effect.promise(() => startJoined())

const client = (base: string) =>
  Effect.gen(function*() {
    const send = (method: string, path: string, token: string | null, body?: unknown): Effect.Effect<Answer> =>
      Effect.promise(async () => {
        const response = await fetch(`${base}${path}`, {
          method,
          headers: {
            ...(token === null ? {} : { authorization: `Bearer ${token}` }),
            ...(body === undefined ? {} : { "content-type": "application/json" }),
          },
          ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        })
        const json = response.headers.get("content-type")?.includes("json") === true
        const text = await response.text()
        return {
          status: response.status,
          headers: response.headers,
          body: json ? JSON.parse(text) as Record<string, unknown> : {},
        }
      })
    const signedIn = yield* send("POST", "/auth/api/v1/auth/login", null, {
      username: "admin",
      password: adminPassword,
    })
    const token = String(signedIn.body["accessToken"])
    return { base, token, send: (method: string, path: string, body?: unknown) => send(method, path, token, body) }
  })
type Api = Effect.Success<ReturnType<typeof client>>

const items = ({ body }: Answer) => body["items"] as ReadonlyArray<Record<string, unknown>>

interface Operation {
  readonly method: string
  /** Below the camera. */
  readonly path: string
  readonly body?: unknown
  readonly status: number
  /** The one of ONVIF that is lacking or declined. */
  readonly onvif: string
}
const position = { kind: "upperLeft" }
const operation = (method: string, path: string, status: number, onvif: string, body?: unknown): Operation => ({
  method,
  path,
  status,
  onvif,
  ...(body === undefined ? {} : { body }),
})
/** Each with what works on a device that is as it was made. */
const operations: ReadonlyArray<Operation> = [
  operation("GET", "/config/osd", 200, "GetOSDs"),
  operation("POST", "/config/osd", 201, "CreateOSD", { type: "text", position, text: { text: "Yard" } }),
  operation("GET", "/config/osd/options", 200, "GetOSDOptions"),
  operation("GET", "/config/osd/osd-1", 200, "GetOSDs"),
  operation("PUT", "/config/osd/osd-1", 200, "SetOSD", { position: { kind: "lowerLeft" } }),
  operation("DELETE", "/config/osd/osd-1", 204, "DeleteOSD"),
  operation("GET", "/config/video/source", 200, "GetVideoSourceConfigurations"),
  operation("PUT", "/config/video/source/vsc", 200, "SetVideoSourceConfiguration", { name: "Yard" }),
  operation("GET", "/config/audio/source", 200, "GetAudioSourceConfigurations"),
  operation("GET", "/config/audio/encoder", 200, "GetAudioEncoderConfigurations"),
  operation("PUT", "/config/audio/encoder/audio", 200, "SetAudioEncoderConfiguration", { bitrateBps: 128_000 }),
  operation("POST", "/config/imaging/source-1/focus/move", 204, "Move", { mode: "absolute", position: 0.25 }),
  operation("POST", "/config/imaging/source-1/focus/stop", 204, "Stop"),
  operation("GET", "/config/device/network", 200, "GetNetworkInterfaces"),
  operation("PUT", "/config/device/network/eth0", 200, "SetNetworkInterfaces", { mtu: 1400 }),
  operation("POST", "/config/device/factory-reset", 200, "SetSystemFactoryDefault", { mode: "soft", confirm: "Yard" }),
  operation("GET", "/snapshot-uri", 200, "GetSnapshotUri"),
  operation("GET", "/snapshot?profileToken=sub", 200, "GetSnapshotUri"),
]

const ask = (api: Api, path: string, one: Operation) => api.send(one.method, `${path}${one.path}`, one.body)

/** Every operation: as it works, lacking, declined, away, refused. */
const everyOperation = (api: Api, path: string, { device }: JoinedCamera) =>
  Effect.gen(function*() {
    const { configuration: { osds }, quirks } = device.state
    const kept = [...osds]
    const all = (status: number | null, code: string | null, quirk: (one: Operation) => Partial<Quirks>) =>
      Effect.forEach(operations, (one) =>
        Effect.gen(function*() {
          const before = { ...quirks }
          osds.splice(0, osds.length, ...kept)
          Object.assign(quirks, quirk(one))
          const answer = yield* ask(api, path, one)
          Object.assign(quirks, before)
          const told = `${one.method} ${one.path} ${JSON.stringify(answer.body)}`
          assert.deepStrictEqual([answer.status, answer.body["code"] ?? null], [status ?? one.status, code], told)
        }))
    yield* all(501, "onvif_operation_unsupported", ({ onvif }) => ({ lacks: [onvif] }))
    yield* all(409, "camera_refused", ({ onvif }) => ({ refuses: [onvif] }))
    yield* all(503, "camera_unreachable", () => ({ busy: true }))
    yield* all(null, null, () => ({}))
    yield* Effect.sleep(1_100)
    const { body } = yield* api.send("GET", path)
    const password = (secret: string) => api.send("PUT", path, { name: body["name"], password: secret })
    assert.strictEqual((yield* password("guess")).status, 200)
    yield* all(409, "camera_auth_failed", () => ({}))
    assert.strictEqual((yield* password("swordfish")).status, 200)
    yield* all(null, null, () => ({}))

    const plain = yield* api.send("POST", cameras, {
      name: "Yard",
      driver: "rtsp",
      streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/a" }],
    })
    for (const one of operations) {
      const other = yield* ask(api, `${cameras}/${String(plain.body["id"])}`, one)
      assert.deepStrictEqual([other.status, other.body["code"]], [501, "onvif_operation_unsupported"])
      const none = yield* ask(api, `${cameras}/01890000-0000-7000-8000-000000000000`, one)
      assert.deepStrictEqual([none.status, none.body["code"]], [404, "camera_not_found"])
    }
    osds.splice(0, osds.length, ...kept)
  })

const settings = (api: Api, path: string, { device }: JoinedCamera) =>
  Effect.gen(function*() {
    const { configuration } = device.state
    const made = yield* api.send("POST", `${path}/config/osd`, { type: "text", position, text: { text: `<"&'>` } })
    const at = made.headers.get("location") ?? ""
    assert.deepInclude((yield* api.send("GET", at)).body, { type: "text", sourceToken: "vsc", imagePath: null })
    assert.strictEqual(configuration.osds.at(-1)!.text.get("PlainText"), `<"&'>`)
    const wrong = yield* api.send("PUT", at, { text: { fontSize: 65 } })
    assert.deepStrictEqual([wrong.status, wrong.body["errors"]], [422, [{
      pointer: "/payload/text/fontSize",
      message: "the camera allows from 16 to 64",
    }]])
    assert.strictEqual((yield* api.send("DELETE", at)).status, 204)
    assert.strictEqual((yield* api.send("GET", at)).body["code"], "camera_refused")
    assert.strictEqual((yield* api.send("POST", `${path}/config/osd`, { type: "text" })).status, 400)
    const unknown = yield* api.send("PUT", `${path}/config/audio/encoder/audio`, { encoding: "opus" })
    assert.strictEqual(unknown.status, 422)
    const relative = { mode: "relative", distance: 0.1 }
    const focus = yield* api.send("POST", `${path}/config/imaging/source-1/focus/move`, relative)
    assert.strictEqual(focus.body["code"], "onvif_operation_unsupported")

    const [network] = items(yield* api.send("GET", `${path}/config/device/network`))
    assert.deepInclude(network, { token: "eth0", enabled: true, hardwareAddress: "02:00:00:00:00:01" })
    const moved = yield* api.send("PUT", `${path}/config/device/network/eth0`, {
      ipv4: { address: "192.0.2.7", prefixLength: 24 },
    })
    assert.deepInclude(moved.body, { rebootNeeded: false, addressChange: "certain", newHost: "192.0.2.7" })
    const loopback = { ipv4: { address: "127.0.0.1", prefixLength: 8 } }
    assert.strictEqual((yield* api.send("PUT", `${path}/config/device/network/eth0`, loopback)).status, 422)

    const reset = `${path}/config/device/factory-reset`
    const resets = configuration.resets.length
    for (const confirm of ["", "yard", "Gate"]) {
      const refused = yield* api.send("POST", reset, { mode: "hard", confirm })
      assert.deepStrictEqual([refused.status, refused.body["code"]], [422, "invalid_input"])
    }
    assert.strictEqual((yield* api.send("POST", reset, { mode: "hard" })).status, 400)
    assert.lengthOf(configuration.resets, resets)
    const done = yield* api.send("POST", reset, { mode: "hard", confirm: path.split("/").at(-1) })
    assert.deepInclude(done.body, { mode: "hard" })
    assert.strictEqual(configuration.resets.at(-1), "Hard")
    // The log follows the answers.
    const told = yield* Effect.gen(function*() {
      for (;;) {
        const entries = items(yield* api.send("GET", "/auth/api/v1/audit?action=cameraConfig.factoryReset&limit=500"))
        const hard = entries.filter(({ detail }) => (detail as { readonly mode?: string }).mode === "hard")
        if (hard.some(({ outcome }) => outcome === "success")) return hard
        yield* Effect.sleep(100)
      }
    }).pipe(Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.die(new Error("it was not audited")) }))
    assert.isTrue(told.every(({ resource }) => (resource as { readonly id?: string }).id === path.split("/").at(-1)))
    assert.lengthOf(told.filter(({ outcome }) => outcome !== "success"), 3, "refused ones too")
  })

/** As an independent player sees it. */
const seenByFfprobe = (url: string) =>
  Effect.promise(async () => {
    const shown = "stream=width,height,r_frame_rate:packet=size"
    const options = `-loglevel error -rtsp_transport tcp -select_streams v -of json -show_entries ${shown}`
    const { stdout } = await run("ffprobe", [...options.split(" "), "-read_intervals", "%+4", url])
    const { packets, streams } = JSON.parse(stdout) as {
      readonly streams: ReadonlyArray<
        { readonly width: number; readonly height: number; readonly r_frame_rate: string }
      >
      readonly packets: ReadonlyArray<{ readonly size: string }>
    }
    const [over = 0, under = 1] = streams[0]!.r_frame_rate.split("/").map(Number)
    const bytes = packets.reduce((sum, { size }) => sum + Number(size), 0)
    const rate = over / under
    return { size: `${streams[0]!.width}x${streams[0]!.height}`, rate, bitrateBps: bytes * 8 * rate / packets.length }
  })

const encoders = (api: Api, path: string, { device, settled }: JoinedCamera) =>
  Effect.gen(function*() {
    const url = new URL(device.state.options.streams.main)
    url.username = "admin"
    url.password = "swordfish"
    assert.deepInclude(yield* seenByFfprobe(url.href), { size: "640x360", rate: 25 })
    const encoder = `${path}/config/video/encoder/encoder-main`
    const wanted = { width: 1280, height: 720, frameRate: 10, bitrateBps: 300_000, govLength: 10 }
    assert.deepInclude((yield* api.send("PUT", encoder, wanted)).body, wanted)
    yield* Effect.promise(settled)
    const small = yield* seenByFfprobe(url.href)
    assert.deepInclude(small, { size: "1280x720", rate: 10 })
    yield* api.send("PUT", encoder, { bitrateBps: 3_000_000 })
    yield* Effect.promise(settled)
    const rich = yield* seenByFfprobe(url.href)
    assert.isTrue(rich.bitrateBps > 2 * small.bitrateBps, JSON.stringify([small, rich]))
  })

/** The camera is found elsewhere: it is asked there before anything is stored. */
const elsewhere = (api: Api, path: string, { device }: JoinedCamera) =>
  Effect.gen(function*() {
    const other = (options: Partial<DeviceOptions>) =>
      Effect.acquireRelease(
        Effect.promise(() => startDevice({ streams: device.state.options.streams, ...options })),
        (one) => Effect.promise(() => one.close()),
      )
    const before = (yield* api.send("GET", path)).body
    const { name } = before
    const refused = [
      [(yield* Effect.scoped(other({}))).port, 503, "camera_unreachable"],
      [(yield* other({ password: "another" })).port, 409, "camera_auth_failed"],
      [(yield* other({ serialNumber: "0002" })).port, 409, "other_device"],
    ] as const
    for (const [port, status, code] of refused) {
      const answer = yield* api.send("PUT", path, { name: "Elsewhere", port })
      assert.deepStrictEqual([answer.status, answer.body["code"]], [status, code], JSON.stringify(answer.body))
    }
    assert.deepStrictEqual((yield* api.send("GET", path)).body["version"], before["version"], "nothing was stored")
    const sourceUrls = ({ body }: Answer) =>
      (body["channels"] as ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly sourceUrl: string }> }>)
        .flatMap(({ streams }) => streams.map(({ sourceUrl }) => sourceUrl))
    const named = yield* api.send("PUT", path, { name, host: "localhost" })
    assert.strictEqual(named.status, 200, JSON.stringify(named.body))
    assert.deepInclude(named.body, { host: "localhost", port: device.port })
    assert.deepStrictEqual(
      sourceUrls(named),
      [device.state.options.streams.main, device.state.options.streams.sub].map((url) =>
        url.replace("127.0.0.1", "localhost")
      ),
    )
    const twin = yield* other({})
    const moved = yield* api.send("PUT", path, { name, host: "127.0.0.1", port: twin.port })
    assert.deepInclude(moved.body, { host: "127.0.0.1", port: twin.port })
    assert.strictEqual((yield* api.send("GET", `${path}/config/osd`)).status, 200)
    assert.include(twin.state.done, "GetOSDs")
    const [plain] = items(yield* api.send("GET", `${cameras}?driver=rtsp`))
    const fixed = yield* api.send("PUT", `${cameras}/${String(plain!["id"])}`, { name, host: "localhost" })
    assert.deepStrictEqual([fixed.status, fixed.body["code"]], [422, "invalid_input"])
  })

const pictures = (api: Api, path: string, { device }: JoinedCamera) =>
  Effect.gen(function*() {
    const { body } = yield* api.send("GET", `${path}/snapshot-uri`)
    assert.deepStrictEqual(body, { uri: `${path}/snapshot?profileToken=main`, profileToken: "main" })
    const asked = device.heard.filter((text) => text.includes("GET") || text.startsWith("Host")).length
    const curl = yield* Effect.promise(() =>
      run("curl", [
        ..."--silent --show-error --fail --write-out %{content_type} --output -".split(" "),
        "--header",
        `authorization: Bearer ${api.token}`,
        `${api.base}${String(body["uri"])}`,
      ], { encoding: "buffer" })
    )
    assert.isTrue(curl.stdout.equals(Buffer.concat([picture, Buffer.from("image/jpeg")])))
    const { headers } = yield* api.send("GET", `${path}/snapshot?profileToken=main`)
    assert.deepStrictEqual([headers.get("cache-control"), headers.get("x-content-type-options")], [
      "no-store",
      "nosniff",
    ])
    assert.isTrue(device.heard.length > asked)
    const stranger = yield* Effect.promise(() => fetch(`${api.base}${String(body["uri"])}`))
    assert.strictEqual(stranger.status, 401)
    for (const served of ["html", "disguised", "elsewhere"] as const) {
      device.state.quirks.picture = served
      yield* Effect.sleep(1_100)
      const none = yield* api.send("GET", `${path}/snapshot`)
      assert.deepStrictEqual([none.status, none.body["code"]], [503, "camera_unreachable"])
    }
    device.state.quirks.picture = "jpeg"
  })

it.live("an ONVIF camera is set up by its own protocol, and says so where it cannot be", () =>
  Effect.gen(function*() {
    const camera = yield* Effect.acquireRelease(joined, (one) => Effect.promise(() => one.close()))
    const api = yield* client((yield* wholeNode()).base)
    const { host, port } = camera.device
    const made = yield* api.send("POST", cameras, {
      name: "Yard",
      driver: "onvif",
      host,
      port,
      username: "admin",
      password: "swordfish",
    })
    assert.strictEqual(made.status, 201, JSON.stringify(made.body))
    const path = `${cameras}/${String(made.body["id"])}`
    yield* encoders(api, path, camera)
    yield* everyOperation(api, path, camera)
    yield* settings(api, path, camera)
    yield* pictures(api, path, camera)
    yield* elsewhere(api, path, camera)
  }), 180_000)
