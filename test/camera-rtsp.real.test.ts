/** A whole node: the address that media-path tells plays, for those who may, for as long as their session. */
import { drivers } from "#media/drivers/registry.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { until } from "./media/rtsp-server-fixtures.ts"

const ask = (base: string, method: string, path: string, token: string, body?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { "content-type": "application/json", ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.isTrue(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return (text === "" ? {} : JSON.parse(text)) as Record<string, unknown>
  })

interface Made {
  readonly channels: ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly id: string }> }>
}

const open = (url: string, onUnit: () => void = () => {}) =>
  drivers.rtsp.open({
    url,
    username: null,
    password: null,
    transport: "tcp",
    requestTimeoutMs: 20_000,
    drainEveryMs: 0,
  }, { onParameters: () => {}, onUnit, onLoss: () => {} })

it.live(
  "a stream that nobody records is watched through the node until the session ends",
  () =>
    Effect.gen(function*() {
      const simulator = yield* Effect.acquireRelease(
        Effect.promise(() => startSimulator({ cameras: 1 })),
        (running) => Effect.promise(() => running.close()),
      )
      const { base } = yield* wholeNode()
      const login = { username: "admin", password: adminPassword }
      const { accessToken } = yield* ask(base, "POST", "/auth/api/v1/auth/login", "", login)
      const token = accessToken as string
      const camera = yield* ask(base, "POST", "/camera/api/v1/cameras", token, {
        name: "Front door",
        driver: "rtsp",
        username: "admin",
        password: "swordfish",
        streams: [
          { role: "main", sourceUrl: simulator.cameras[0]!.url("main") },
          { role: "sub", sourceUrl: simulator.cameras[0]!.url("sub") },
        ],
      })
      const [main, sub] = (camera as unknown as Made).channels[0]!.streams
      const pathOf = (id: string) => ask(base, "GET", `/camera/api/v1/streams/${id}/media-path`, token)
      const rtspUrl = (yield* pathOf(main!.id))["rtspUrl"] as string
      assert.match(rtspUrl, /^rtsp:\/\/127\.0\.0\.1:\d+\/live\/[0-9a-f-]{36}\?token=[\w.-]+$/)

      let units = 0
      const watching = yield* Effect.forkScoped(open(rtspUrl, () => {
        units++
      }))
      yield* until("pictures", () => units > 50)

      const proxy = (method: string, path: string) => ask(base, method, `/camera/api/v1/media-proxy/${path}`, token)
      assert.deepInclude(yield* proxy("GET", "config"), {
        port: Number(new URL(rtspUrl.replace("rtsp:", "http:")).port),
        transports: ["tcp", "udp"],
        hasAccount: false,
      })
      const [session] = (yield* proxy("GET", "sessions"))["items"] as ReadonlyArray<Record<string, unknown>>
      assert.deepInclude(session, { streamId: main!.id, transport: "tcp", state: "playing", skippedPictures: 0 })
      assert.isAbove(session!["sentBytes"] as number, 10_000)
      const [stream] = (yield* proxy("GET", "streams"))["items"] as ReadonlyArray<Record<string, unknown>>
      assert.deepInclude(stream, { path: main!.id, state: "ready", tracks: ["h264", "aac"], readers: 1 })
      assert.deepInclude(yield* proxy("GET", `streams/${sub!.id}`), {
        path: sub!.id,
        state: "idle",
        since: null,
        readers: 0,
      })
      assert.deepInclude(yield* proxy("GET", `streams/${main!.id}`), { state: "ready", readers: 1 })
      let others = 0
      const subUrl = (yield* pathOf(sub!.id))["rtspUrl"] as string
      const other = yield* Effect.forkScoped(open(subUrl, () => {
        others++
      }))
      yield* until("pictures of the other stream", () => others > 5)
      yield* proxy("DELETE", `streams/${sub!.id}`)
      assert.strictEqual((yield* Effect.flip(Fiber.join(other))).reason, "closed")

      const wrong = rtspUrl.replace(main!.id, sub!.id)
      assert.strictEqual((yield* Effect.flip(open(wrong))).reason, "unauthorized")
      assert.strictEqual((yield* Effect.flip(open(rtspUrl.replace(/\?.*/, "")))).reason, "unauthorized")

      yield* ask(base, "POST", "/auth/api/v1/auth/logout", token)
      assert.strictEqual((yield* Effect.flip(Fiber.join(watching))).reason, "closed")
      assert.strictEqual((yield* Effect.flip(open(rtspUrl))).reason, "unauthorized")
    }),
  180_000,
)
