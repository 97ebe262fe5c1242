/** ONVIF cameras on a whole node: added by their address alone, found out, recorded; and what is answered where that fails. */
import { assert, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import type { SimulatedDevice } from "./onvif-simulator/device.ts"
import { advertise } from "./onvif-simulator/discovery.ts"
import { startJoined } from "./onvif-simulator/joined.ts"

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

const cameras = "/camera/api/v1/cameras"

/** A camera with both of its sides: the device that is asked, and the streams that play. */
const simulatedCamera: Effect.Effect<SimulatedDevice, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(Effect.promise(() => startJoined()), (one) => Effect.promise(() => one.close())),
  ({ device }) => device,
)

const client = (base: string, username = "admin", password: string = adminPassword) =>
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
        const text = await response.text()
        return { status: response.status, body: text === "" ? {} : JSON.parse(text) as Record<string, unknown> }
      })
    const signedIn = yield* send("POST", "/auth/api/v1/auth/login", null, {
      username,
      password,
    })
    const token = String(signedIn.body["accessToken"])
    return {
      get: (path: string) => send("GET", path, token),
      post: (path: string, body: unknown) => send("POST", path, token, body),
      put: (path: string, body: unknown) => send("PUT", path, token, body),
      remove: (path: string) => send("DELETE", path, token),
    }
  })

/** Asks again until it is so. */
const eventually = (what: string, ask: Effect.Effect<Answer>, so: (body: Answer["body"]) => boolean) =>
  Effect.gen(function*() {
    for (;;) {
      const { body } = yield* ask
      if (so(body)) return body
      yield* Effect.sleep(100)
    }
  }).pipe(Effect.timeoutOrElse({ duration: "60 seconds", orElse: () => Effect.die(new Error(`never: ${what}`)) }))

type Api = Effect.Success<ReturnType<typeof client>>
const items = ({ body }: Answer) => body["items"] as ReadonlyArray<Record<string, unknown>>

/** On the network of this machine, with the camera that it is already. */
const finding = (api: Api, id: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const urn = "urn:uuid:5f5a69c2-e0ae-504f-829b-00a0c0000002"
    yield* Effect.acquireRelease(
      Effect.promise(() =>
        advertise({
          urn,
          addresses: [`http://127.0.0.1:${device.port}/onvif/device_service`],
          scopes: ["onvif://www.onvif.org/name/Yard"],
        })
      ),
      (one) => Effect.promise(() => one.close()),
    )
    const found = yield* api.post(`${cameras}/discover`, { waitMs: 1_000 })
    assert.strictEqual(found.status, 200)
    const own = items(found).find((one) => one["urn"] === urn && one["host"] === "127.0.0.1")
    assert.deepInclude(own, { port: device.port, name: "Yard", model: "", cameraId: id })
    assert.strictEqual((yield* api.post(`${cameras}/discover`, { waitMs: 1 })).status, 400)
  })

/** Encoders within their options; a change of the encoder changes what is recorded. */
const encoders = (api: Api, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const profiles = items(yield* api.get(`${path}/ptz/profiles`))
    assert.deepStrictEqual(profiles.map((one) => [one["token"], one["audio"]]), [["main", true], ["sub", false]])
    const told = items(yield* api.get(`${path}/capabilities`))
    assert.deepInclude(told.find((one) => one["name"] === "ptz"), { supported: "yes" })
    assert.isTrue(told.every((one) => one["evidence"] !== ""))

    const encoder = `${path}/config/video/encoder/encoder-main`
    assert.lengthOf(items(yield* api.get(`${path}/config/video/encoder`)), 2)
    assert.deepInclude((yield* api.get(encoder)).body, { encoding: "h264", width: 640, bitrateBps: 1_024_000 })
    const options = (yield* api.get(`${encoder}/options`)).body["encodings"] as ReadonlyArray<Record<string, unknown>>
    assert.deepInclude(options[0], { encoding: "h264", frameRate: { min: 1, max: 25 } })
    const faulty = yield* api.put(encoder, { frameRate: 26 })
    assert.deepStrictEqual([faulty.status, faulty.body["code"]], [422, "invalid_input"])
    assert.deepInclude((yield* api.put(encoder, { width: 1280, height: 720 })).body, { width: 1280, height: 720 })
    assert.strictEqual(device.state.encoders.main.width, 1280)
    yield* eventually("the other picture", api.get(path), ({ channels }) => {
      const [channel] = channels as ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly width: number }> }>
      return channel!.streams[0]!.width === 1280
    })
    const nothing = yield* api.get(`${path}/config/video/encoder/nothing`)
    assert.deepStrictEqual([nothing.status, nothing.body["code"]], [409, "camera_refused"])
  })

const moving = (api: Api, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const ptz = `${path}/ptz`
    const position = { pan: 0.5, tilt: -0.5, zoom: 0.25 }
    const at = Effect.map(api.get(`${ptz}/status`), ({ body }) => body)
    assert.strictEqual((yield* api.post(`${ptz}/move/absolute`, { position, speed: { pan: 1 } })).status, 204)
    const first = yield* at
    assert.deepInclude(first, { ...position, moving: false, error: "" })
    assert.deepInclude(first["holder"], { username: "admin", priority: 100 })
    const made = yield* api.post(`${ptz}/presets`, { name: "Gate & <yard>" })
    assert.strictEqual(made.status, 201)
    const token = String(made.body["token"])
    assert.deepInclude(items(yield* api.get(`${ptz}/presets`))[0], { token, name: "Gate & <yard>", position })
    assert.strictEqual((yield* api.put(`${ptz}/home`, {})).status, 204)
    assert.strictEqual((yield* api.post(`${ptz}/move/relative`, { translation: { pan: -1 } })).status, 204)
    assert.deepInclude(yield* at, { pan: -0.5 })
    assert.strictEqual((yield* api.post(`${ptz}/presets/${token}/goto`, { profileToken: "main" })).status, 204)
    assert.deepInclude(yield* at, { pan: 0.5 })
    const on = { velocity: { pan: 1 }, timeoutMs: 10_000 }
    assert.strictEqual((yield* api.post(`${ptz}/move/continuous`, on)).status, 204)
    assert.deepInclude(yield* at, { moving: true })
    assert.strictEqual((yield* api.post(`${ptz}/stop`, {})).status, 204)
    assert.deepInclude(yield* at, { moving: false })
    // A move whose operator vanished ends by itself.
    yield* api.post(`${ptz}/move/continuous`, { velocity: { tilt: 1 }, timeoutMs: 100 })
    yield* eventually("it stopped", api.get(`${ptz}/status`), (body) => body["moving"] === false)
    device.state.position = { pan: 0, tilt: 0, zoom: 0 }
    assert.strictEqual((yield* api.post(`${ptz}/home/goto`, {})).status, 204)
    assert.deepInclude(yield* at, position)
    assert.strictEqual((yield* api.remove(`${ptz}/presets/${token}`)).status, 204)
    assert.lengthOf(items(yield* api.get(`${ptz}/presets`)), 0)
    assert.strictEqual((yield* api.post(`${ptz}/presets/${token}/goto`, {})).body["code"], "camera_refused")
    assert.strictEqual((yield* api.post(`${ptz}/move/continuous`, { velocity: { pan: 2 } })).status, 400)
  })

/** What an administrator knows better; what the driver finds beside what was added. */
const offers = (api: Api, path: string) =>
  Effect.gen(function*() {
    const [channel] = (yield* api.get(path)).body["channels"] as ReadonlyArray<{
      readonly id: string
      readonly streams: ReadonlyArray<{ readonly id: string; readonly role: string }>
    }>
    const own = `/camera/api/v1/channels/${channel!.id}`
    const ptzOf = (of: string) =>
      Effect.map(api.get(`${of}/capabilities`), (answer) => items(answer).find((one) => one["name"] === "ptz"))
    const set = (of: string, supported: string) => api.put(`${of}/capabilities`, { name: "ptz", supported })
    const claimed = yield* ptzOf(path)
    assert.deepStrictEqual((yield* set(path, "no")).body, { name: "ptz", supported: "no", evidence: "set by admin" })
    assert.deepStrictEqual(yield* ptzOf(own), { name: "ptz", supported: "no", evidence: "set by admin" })
    const pan = api.post(`${path}/ptz/move/relative`, { translation: { pan: 0.1 } })
    const refused = yield* pan
    assert.deepStrictEqual([refused.status, refused.body["code"]], [501, "onvif_operation_unsupported"])
    assert.include(refused.body["detail"], `admin set that it has no "ptz"`)
    assert.strictEqual((yield* api.get(`${path}/ptz/presets`)).status, 501)
    assert.strictEqual((yield* set(own, "yes")).status, 200)
    assert.deepInclude(yield* ptzOf(own), { supported: "yes", evidence: "set by admin" })
    assert.strictEqual((yield* pan).status, 204, "its channel has it")
    assert.deepInclude(yield* ptzOf(path), { supported: "no" })
    assert.strictEqual((yield* set(own, "asTold")).status, 200)
    assert.strictEqual((yield* set(path, "asTold")).status, 200)
    assert.deepStrictEqual(yield* ptzOf(path), claimed)
    assert.deepStrictEqual(yield* ptzOf(own), claimed)
    assert.strictEqual((yield* api.put(`${path}/capabilities`, { name: "flight", supported: "yes" })).status, 400)
    const asked = { imaging: "config/imaging/source-1", audio: "config/audio/encoder", snapshot: "snapshot-uri" }
    for (const [name, of] of Object.entries(asked)) {
      for (const [supported, status] of [["no", 501], ["asTold", 200]] as const) {
        yield* api.put(`${path}/capabilities`, { name, supported })
        assert.strictEqual((yield* api.get(`${path}/${of}`)).status, status, `${name}: ${supported}`)
      }
    }

    const channels = `${path}/channels/discover`
    const streams = `${own}/streams/discover`
    const states = (answer: Answer) => items(answer).map((one) => one["state"])
    assert.deepStrictEqual(states(yield* api.post(channels, {})), ["known"])
    const sub = channel!.streams.find(({ role }) => role === "sub")!
    assert.strictEqual((yield* api.remove(`/camera/api/v1/streams/${sub.id}`)).status, 204)
    const found = yield* api.post(streams, {})
    assert.deepStrictEqual(states(found), ["known", "new"])
    assert.deepStrictEqual(
      (found.body["profiles"] as ReadonlyArray<{ readonly token: string }>).map(({ token }) => token),
      [
        "main",
        "sub",
      ],
    )
    const applied = yield* api.post(streams, { apply: true })
    assert.deepStrictEqual(states(applied), ["known", "added"])
    assert.notStrictEqual(items(applied)[1]!["streamId"], sub.id)
    assert.deepStrictEqual(states(yield* api.post(streams, { apply: true })), ["known", "known"])
    const changed = { sourceUrl: "rtsp://127.0.0.1:9/elsewhere" }
    const second = `/camera/api/v1/streams/${String(items(applied)[1]!["streamId"])}`
    assert.strictEqual((yield* api.put(second, changed)).status, 200)
    assert.deepStrictEqual(states(yield* api.post(streams, { apply: true })), ["known", "changed"])
    assert.strictEqual((yield* api.put(second, { sourceUrl: items(applied)[1]!["sourceUrl"] })).status, 200)

    // A channel that the camera does not have, and one that was not added.
    const extra = { name: "Attic", streams: [{ role: "main", ...changed }] }
    const made = yield* api.post(`${path}/channels`, extra)
    assert.strictEqual(made.status, 201)
    assert.sameMembers(states(yield* api.post(channels, {})), ["known", "gone"])
    assert.strictEqual((yield* api.remove(own)).status, 204)
    assert.sameMembers(states(yield* api.post(channels, { apply: true })), ["changed"])
    assert.strictEqual((yield* api.remove(`/camera/api/v1/channels/${String(made.body["id"])}`)).status, 204)
    assert.deepStrictEqual(states(yield* api.post(channels, {})), ["new"])
    assert.deepStrictEqual(states(yield* api.post(channels, { apply: true })), ["added"])
    assert.deepStrictEqual(states(yield* api.post(channels, { apply: true })), ["known"])
  })

/** Two users and one camera that minds no time limit: the higher one takes it, and both leave it still. */
const holding = (admin: Api, base: string, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const ptz = `${path}/ptz`
    const password = "correct horse battery"
    const guard = { username: "guard", password, roles: ["operator"], mustChangePassword: false }
    assert.strictEqual((yield* admin.post("/auth/api/v1/users", guard)).status, 201)
    const operator = yield* client(base, "guard", password)
    const move = { velocity: { pan: 1 }, timeoutMs: 10_000 }
    assert.strictEqual((yield* admin.post(`${ptz}/stop`, {})).status, 204)
    const refused = yield* operator.post(`${ptz}/move/continuous`, move)
    const focus = yield* operator.post(`${path}/config/imaging/source-1/focus/move`, { mode: "continuous", speed: 1 })
    assert.deepStrictEqual([focus.status, focus.body["code"]], [409, "ptz_held"])
    assert.deepInclude(refused.body, { status: 409, code: "ptz_held", username: "admin", priority: 100 })
    assert.isTrue(Date.parse(String(refused.body["until"])) <= Date.now() + 10_000)
    assert.strictEqual((yield* operator.get(`${ptz}/status`)).status, 200)
    yield* eventually("free", operator.get(`${ptz}/status`), (body) => body["holder"] === null)

    device.state.quirks.ignoresMoveTime = true
    const start = Date.now()
    assert.strictEqual((yield* operator.post(`${ptz}/move/continuous`, { ...move, timeoutMs: 300 })).status, 204)
    yield* eventually("it was stopped", operator.get(`${ptz}/status`), (body) => body["moving"] === false)
    assert.isTrue(Date.now() - start >= 300)
    const again = Date.now()
    assert.strictEqual((yield* operator.post(`${ptz}/move/continuous`, move)).status, 204)
    assert.strictEqual((yield* operator.post("/auth/api/v1/auth/logout", {})).status, 204)
    yield* eventually("it stopped with the session", admin.get(`${ptz}/status`), (body) => body["moving"] === false)
    assert.isNull((yield* admin.get(`${ptz}/status`)).body["holder"])
    assert.isTrue(Date.now() - again < move.timeoutMs)
    device.state.quirks.ignoresMoveTime = false
  })

/** Nodes, configurations, tours, and setting it all back. */
const touring = (api: Api, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const ptz = `${path}/ptz`
    assert.deepInclude(items(yield* api.get(`${ptz}/nodes`))[0], { token: "node-1", homeSupported: true })
    assert.deepInclude(items(yield* api.get(`${ptz}/configurations`))[0], { token: "ptz-1", defaultTimeoutMs: 65_500 })
    const { body: { token: presetToken } } = yield* api.post(`${ptz}/presets`, { name: "Gate" })
    const tour = { name: "Night", spots: [{ presetToken, staySeconds: 10 }] }
    const made = yield* api.post(`${ptz}/tours`, tour)
    assert.deepInclude(made, { status: 201, body: { token: made.body["token"], name: "Night" } })
    const own = `${ptz}/tours/${String(made.body["token"])}`
    assert.strictEqual((yield* api.post(`${own}/operate`, { operation: "start" })).status, 204)
    assert.deepInclude(items(yield* api.get(`${ptz}/tours`))[0], { state: "touring", autoStart: false })
    assert.strictEqual((yield* api.post(`${own}/operate`, { operation: "dance" })).status, 400)
    assert.strictEqual((yield* api.post(`${ptz}/tours`, { ...tour, spots: [] })).status, 400)
    assert.strictEqual((yield* api.remove(own)).status, 204)
    assert.strictEqual((yield* api.remove(own)).body["code"], "camera_refused")
    device.state.quirks.noTours = true
    assert.strictEqual((yield* api.get(`${ptz}/tours`)).body["code"], "onvif_operation_unsupported")
    device.state.quirks.noTours = false
    assert.strictEqual((yield* api.post(`${ptz}/tours`, tour)).status, 201)
    const kept = yield* api.post(`${ptz}/reset`, {})
    assert.deepInclude(kept.body, { removedPresets: 0, removedTours: 0 })
    assert.deepStrictEqual(device.state.limits, { panTilt: [-1, 1], zoom: [0, 1] })
    assert.deepInclude((yield* api.post(`${ptz}/reset`, { presets: true, tours: true })).body, {
      removedPresets: 1,
      removedTours: 1,
    })
  })

/** The picture within its options, the clock, a restart. */
const picture = (api: Api, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const imaging = `${path}/config/imaging/source-1`
    const level = { min: 0, max: 100 }
    const told = { brightness: 50, colorSaturation: 50, contrast: 50, sharpness: 50, irCutFilter: "auto" }
    assert.deepStrictEqual((yield* api.get(imaging)).body, told)
    assert.deepInclude((yield* api.get(`${imaging}/options`)).body, { sharpness: level, irCutFilters: ["on", "auto"] })
    const changed = yield* api.put(imaging, { brightness: 70, irCutFilter: "on" })
    assert.deepStrictEqual(changed.body, { ...told, brightness: 70, irCutFilter: "on" })
    for (const change of [{ contrast: 101 }, { irCutFilter: "off" }]) {
      assert.strictEqual((yield* api.put(imaging, change)).status, 422)
    }
    assert.strictEqual(device.state.picture.Contrast, 50)
    assert.strictEqual((yield* api.get(`${path}/config/imaging/nothing`)).body["code"], "camera_refused")

    const clock = `${path}/config/device/datetime`
    const utc = "2031-05-06T07:08:09.000Z"
    const set = yield* api.put(clock, { mode: "manual", utc, timeZone: "CET-1CEST" })
    assert.deepInclude(set.body, { mode: "manual", timeZone: "CET-1CEST" })
    assert.isTrue(String((yield* api.get(clock)).body["utc"]).startsWith("2031-05-06T07:08"))
    // Signed by the clock that it has now.
    assert.strictEqual((yield* api.get(imaging)).status, 200)
    assert.deepInclude((yield* api.put(clock, { mode: "manual" })).body, { offsetMs: 0 })
    assert.deepInclude((yield* api.put(clock, { mode: "ntp" })).body, { mode: "ntp" })
    const restart = yield* api.post(`${path}/config/device/reboot`, undefined)
    assert.deepStrictEqual([restart.status, restart.body["message"]], [200, "Back in a minute"])
    assert.include(device.state.done, "SystemReboot")
  })

/** Every operation: of a camera that has none of it, that refuses us, that is away. */
const failing = (api: Api, path: string, device: SimulatedDevice) =>
  Effect.gen(function*() {
    const encoder = `${path}/config/video/encoder`
    const ptz = `${path}/ptz`
    const any = (of: string) => [
      api.get(`${of}/capabilities`),
      api.post(`${of}/channels/discover`, {}),
      api.get(`${of}/ptz/profiles`),
      api.get(`${of}/ptz/nodes`),
      api.get(`${of}/ptz/configurations`),
      api.get(`${of}/config/video/encoder`),
      api.get(`${of}/config/video/encoder/encoder-main`),
      api.get(`${of}/config/video/encoder/encoder-main/options`),
      api.put(`${of}/config/video/encoder/encoder-main`, { quality: 50 }),
      api.get(`${of}/config/imaging/source-1`),
      api.put(`${of}/config/imaging/source-1`, { brightness: 50 }),
      api.get(`${of}/config/imaging/source-1/options`),
      api.get(`${of}/config/device/datetime`),
      api.put(`${of}/config/device/datetime`, { mode: "ntp" }),
      api.post(`${of}/config/device/reboot`, undefined),
    ]
    const tour = { name: "a", spots: [{ presetToken: "a", staySeconds: 5 }] }
    const moves = [
      api.post(`${ptz}/reset`, {}),
      api.get(`${ptz}/tours`),
      api.post(`${ptz}/tours`, tour),
      api.remove(`${ptz}/tours/a`),
      api.post(`${ptz}/tours/a/operate`, { operation: "start" }),
      api.post(`${ptz}/move/continuous`, { velocity: { pan: 1 } }),
      api.post(`${ptz}/move/absolute`, { position: { pan: 1 } }),
      api.post(`${ptz}/move/relative`, { translation: { pan: 1 } }),
      api.post(`${ptz}/stop`, {}),
      api.get(`${ptz}/status`),
      api.get(`${ptz}/presets`),
      api.post(`${ptz}/presets`, { name: "a" }),
      api.remove(`${ptz}/presets/a`),
      api.post(`${ptz}/presets/a/goto`, {}),
      api.put(`${ptz}/home`, {}),
      api.post(`${ptz}/home/goto`, {}),
    ]
    const expect = (asked: ReadonlyArray<Effect.Effect<Answer>>, status: number, code: string) =>
      Effect.forEach(asked, (one, index) =>
        Effect.map(one, ({ body, ...answer }) =>
          assert.deepStrictEqual([answer.status, body["code"]], [status, code], `${index} ${JSON.stringify(body)}`)))

    const { body } = yield* api.get(path)
    const password = (secret: string) =>
      Effect.map(api.put(path, { name: body["name"], password: secret }), (done) =>
        done.status)
    device.state.quirks.noPtz = true
    yield* expect(moves, 501, "onvif_operation_unsupported")
    device.state.quirks.noPtz = false
    device.state.quirks.busy = true
    yield* expect([...any(path), ...moves], 503, "camera_unreachable")
    device.state.quirks.busy = false
    assert.strictEqual(yield* password("guess"), 200)
    yield* expect([...any(path), ...moves], 409, "camera_auth_failed")
    assert.strictEqual(yield* password("swordfish"), 200)
    assert.strictEqual((yield* api.get(encoder)).status, 200)
    assert.strictEqual((yield* api.get(`${ptz}/status`)).status, 200)

    const plain = yield* api.post(cameras, {
      name: "Plain",
      driver: "rtsp",
      streams: [{ role: "main", sourceUrl: "rtsp://127.0.0.1:9/a" }],
    })
    yield* expect(any(`${cameras}/${String(plain.body["id"])}`), 501, "onvif_operation_unsupported")
    yield* expect(any(`${cameras}/01890000-0000-7000-8000-000000000000`), 404, "camera_not_found")
  })

it.live(
  "an ONVIF camera is found out by its address, recorded, and asked by its own protocol",
  () =>
    Effect.gen(function*() {
      const device = yield* simulatedCamera
      const { base } = yield* wholeNode({ NIGHTJAR_PTZ_HOLD_SECONDS: "2" })
      const api = yield* client(base)
      const input = {
        name: "Yard",
        driver: "onvif",
        host: device.host,
        port: device.port,
        username: "admin",
        password: "swordfish",
      }

      const refused = yield* api.post(cameras, { ...input, password: "guess" })
      assert.deepStrictEqual([refused.status, refused.body["code"]], [409, "camera_auth_failed"])
      device.state.quirks.busy = true
      const away = yield* api.post(cameras, input)
      assert.deepStrictEqual([away.status, away.body["code"]], [503, "camera_unreachable"])
      device.state.quirks.busy = false
      device.state.encoders.main.encoding = "JPEG"
      device.state.encoders.sub.encoding = "JPEG"
      const pictures = yield* api.post(cameras, input)
      assert.deepStrictEqual([pictures.status, pictures.body["code"]], [501, "onvif_operation_unsupported"])
      device.state.encoders.main.encoding = "H264"
      device.state.encoders.sub.encoding = "H264"
      assert.strictEqual((yield* api.post(cameras, { name: "Yard", driver: "onvif" })).status, 422)
      const streams = [{ role: "main", sourceUrl: "rtsp://a/b" }]
      assert.strictEqual((yield* api.post(cameras, { ...input, streams })).status, 422)
      assert.lengthOf((yield* api.get(cameras)).body["items"] as ReadonlyArray<unknown>, 0)

      const made = yield* api.post(cameras, input)
      assert.strictEqual(made.status, 201, JSON.stringify(made.body))
      assert.deepInclude(made.body, { driver: "onvif", host: device.host, port: device.port, hasPassword: true })
      const [channel] = made.body["channels"] as ReadonlyArray<{
        readonly id: string
        readonly streams: ReadonlyArray<{ readonly role: string; readonly sourceUrl: string }>
      }>
      assert.deepStrictEqual(channel!.streams.map((one) => [one.role, new URL(one.sourceUrl).pathname]), [
        ["main", "/cam/0"],
        ["sub", "/cam/0/sub"],
      ])
      const path = `${cameras}/${String(made.body["id"])}`
      yield* eventually("online", api.get(path), (body) => body["status"] === "online")

      const recording = yield* api.post("/record/api/v1/recordings", {
        channelId: channel!.id,
        mode: "continuous",
        enabled: true,
        retentionDays: 1,
      })
      assert.strictEqual(recording.status, 201)
      const start = encodeURIComponent(new Date(Date.now() - 60_000).toISOString())
      const end = encodeURIComponent(new Date(Date.now() + 60_000).toISOString())
      const timeline = `/search/api/v1/recordings/${
        String(recording.body["recordingToken"])
      }/timeline?start=${start}&end=${end}`
      yield* eventually("footage", api.get(timeline), (body) => (body["spans"] as ReadonlyArray<unknown>).length > 0)

      yield* finding(api, String(made.body["id"]), device)
      const twin = yield* api.post(cameras, { ...input, name: "Twin" })
      yield* offers(api, `${cameras}/${String(twin.body["id"])}`)
      assert.strictEqual((yield* api.remove(`${cameras}/${String(twin.body["id"])}`)).status, 204)
      yield* encoders(api, path, device)
      yield* moving(api, path, device)
      yield* holding(api, base, path, device)
      yield* touring(api, path, device)
      yield* picture(api, path, device)
      yield* failing(api, path, device)
    }),
  180_000,
)
