/** ONVIF cameras on a whole node: added by their address alone, found out, recorded; and what is answered where that fails. */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { type Simulator, startSimulator } from "./camera-simulator/simulator.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { type SimulatedDevice, startDevice } from "./onvif-simulator/device.ts"

interface Answer {
  readonly status: number
  readonly body: Record<string, unknown>
}

const cameras = "/camera/api/v1/cameras"
const wide = "wide-800x352-25.h264"

/** A camera with both of its sides: the device that is asked, and the streams that play. */
const simulatedCamera = Effect.gen(function*() {
  const streams: Simulator = yield* Effect.acquireRelease(
    Effect.promise(() => startSimulator({ cameras: 1 })),
    (one) => Effect.promise(() => one.close()),
  )
  const [camera] = streams.cameras
  const device: SimulatedDevice = yield* Effect.acquireRelease(
    Effect.promise(() =>
      startDevice({
        streams: { main: camera!.url("main"), sub: camera!.url("sub") },
        onEncoder: (profile) => camera!.show(profile, wide),
      })
    ),
    (one) => Effect.promise(() => one.close()),
  )
  return device
})

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
        const text = await response.text()
        return { status: response.status, body: text === "" ? {} : JSON.parse(text) as Record<string, unknown> }
      })
    const signedIn = yield* send("POST", "/auth/api/v1/auth/login", null, {
      username: "admin",
      password: adminPassword,
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

it.live(
  "an ONVIF camera is found out by its address, recorded, and asked by its own protocol",
  () =>
    Effect.gen(function*() {
      const device = yield* simulatedCamera
      const api = yield* client((yield* wholeNode()).base)
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
    }),
  180_000,
)
