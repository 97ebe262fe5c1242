/** ONVIF cameras on a whole node: added by their address alone, found out, recorded; and what is answered where that fails. */
import { assert, it } from "@effect/vitest"
import { Effect, type Scope } from "effect"
import { type Answer, type Api, cameras, client, eventually, items } from "./camera-onvif/api.ts"
import { failing } from "./camera-onvif/failing.ts"
import { holding, moving, touring } from "./camera-onvif/moving.ts"
import { wholeNode } from "./harness/whole-node.ts"
import type { SimulatedDevice } from "./onvif-simulator/device.ts"
import { advertise } from "./onvif-simulator/discovery.ts"
import { startJoined } from "./onvif-simulator/joined.ts"

/** A camera with both of its sides: the device that is asked, and the streams that play. */
const simulatedCamera: Effect.Effect<SimulatedDevice, never, Scope.Scope> = Effect.map(
  Effect.acquireRelease(Effect.promise(() => startJoined()), (one) => Effect.promise(() => one.close())),
  ({ device }) => device,
)

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
