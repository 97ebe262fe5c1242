/** An ONVIF camera that moves: by its own hand, by two people, on its tours. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { SimulatedDevice } from "../onvif-simulator/device.ts"
import { type Api, client, eventually, items } from "./api.ts"

export const moving = (api: Api, path: string, device: SimulatedDevice) =>
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

/** Two users and one camera that minds no time limit: the higher one takes it, and both leave it still. */
export const holding = (admin: Api, base: string, path: string, device: SimulatedDevice) =>
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
export const touring = (api: Api, path: string, device: SimulatedDevice) =>
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
