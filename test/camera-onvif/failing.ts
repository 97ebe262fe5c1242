/** What is answered where an ONVIF camera lacks an operation, refuses the credentials, is away or is none. */
import { assert } from "@effect/vitest"
import { Effect } from "effect"
import type { SimulatedDevice } from "../onvif-simulator/device.ts"
import { type Answer, type Api, cameras } from "./api.ts"

/** Every operation: of a camera that has none of it, that refuses us, that is away. */
export const failing = (api: Api, path: string, device: SimulatedDevice) =>
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
