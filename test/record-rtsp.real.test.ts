/** A whole node: who may play recorded footage by RTSP, by what, for how long; and what guessing the account of its server leads to. */
import { drivers } from "#media/drivers/registry.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Fiber, Redacted } from "effect"
import { startSimulator } from "./camera-simulator/simulator.ts"
import { adminPassword, wholeNode } from "./harness/whole-node.ts"
import { until } from "./media/rtsp-server-fixtures.ts"

type Body = Record<string, unknown>

const ask = (base: string, method: string, path: string, token: string, body?: unknown) =>
  Effect.promise(async () => {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: { "content-type": "application/json", ...(token === "" ? {} : { authorization: `Bearer ${token}` }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    assert.isTrue(response.ok, `${method} ${path}: ${response.status} ${text}`)
    return (text === "" ? {} : JSON.parse(text)) as Body
  })

interface Made {
  readonly channels: ReadonlyArray<{ readonly id: string; readonly streams: ReadonlyArray<{ readonly id: string }> }>
}

const account = { username: "reader", password: "seven-of-nine-lives" }

/** Plays until it ends; `pictures` counts. */
const play = (url: string, counter = { pictures: 0 }, login: { username: string; password: string } | null = null) =>
  drivers.rtsp.open({
    url,
    username: login?.username ?? null,
    password: login === null ? null : Redacted.make(login.password),
    transport: "tcp",
    requestTimeoutMs: 20_000,
    drainEveryMs: 0,
  }, {
    onParameters: () => {},
    onUnit: ({ track }) => {
      if (track === "video") counter.pictures++
    },
    onLoss: () => {},
  })

const reasonOf = (url: string, login: { username: string; password: string } | null = null) =>
  Effect.map(Effect.flip(play(url, { pictures: 0 }, login)), ({ reason }) => reason)

it.live(
  "recorded footage is for those who may replay it, and guesses at the account lock their address",
  () =>
    Effect.gen(function*() {
      const simulator = yield* Effect.acquireRelease(
        Effect.promise(() => startSimulator({ cameras: 2, defaults: { startAtKey: true } })),
        (running) => Effect.promise(() => running.close()),
      )
      const settings = { NIGHTJAR_RTSP_USER: account.username, NIGHTJAR_RTSP_PASSWORD: account.password }
      const { base } = yield* wholeNode(settings)
      const signIn = (username: string, password: string) =>
        Effect.map(
          ask(base, "POST", "/auth/api/v1/auth/login", "", { username, password }),
          (one) => one["accessToken"] as string,
        )
      const admin = yield* signIn("admin", adminPassword)
      const cameras = yield* Effect.forEach(["Gate", "Yard"], (name, index) =>
        Effect.map(
          ask(base, "POST", "/camera/api/v1/cameras", admin, {
            name,
            driver: "rtsp",
            username: "admin",
            password: "swordfish",
            streams: [{ role: "main", sourceUrl: simulator.cameras[index]!.url("main") }],
          }),
          (made) => (made as unknown as Made).channels[0]!,
        ))
      const [gate, yard] = cameras.map((channel) => channel.streams[0]!.id)
      const startMs = Date.now()
      const { recordingToken } = yield* ask(base, "POST", "/record/api/v1/recordings", admin, {
        channelId: cameras[0]!.id,
        mode: "continuous",
        enabled: true,
        retentionDays: 1,
      })
      const streamToken = (id: string, token: string) =>
        Effect.map(ask(base, "GET", `/camera/api/v1/streams/${id}/media-path`, token), (one) => one["token"] as string)
      const { port } = yield* ask(base, "GET", "/camera/api/v1/media-proxy/config", admin)
      const interval = `start=${new Date(startMs).toISOString()}`
      const address = `rtsp://127.0.0.1:${port as number}/recording/${recordingToken as string}?${interval}`
      const own = yield* streamToken(gate!, admin)

      // Four seconds of it at least; paced, so that it lasts.
      yield* Effect.sleep(5_000)
      const byStream = { pictures: 0 }
      const playing = yield* Effect.forkScoped(play(`${address}&token=${own}`, byStream))
      yield* until("pictures by the stream's token", () =>
        byStream.pictures > 20)
      const byUser = { pictures: 0 }
      yield* Effect.forkScoped(play(`${address}&token=${admin}`, byUser))
      yield* until("pictures by the user's own token", () => byUser.pictures > 20)
      const byAccount = { pictures: 0 }
      yield* Effect.forkScoped(play(address, byAccount, account))
      yield* until("pictures by the account", () => byAccount.pictures > 20)
      const { items } = yield* ask(base, "GET", "/camera/api/v1/media-proxy/sessions", admin)
      assert.deepStrictEqual((items as ReadonlyArray<Body>).map((one) => [one["recordingToken"], one["streamId"]]), [
        [recordingToken, gate],
        [recordingToken, gate],
        [recordingToken, gate],
      ])

      // A token of another channel's stream, and of one who may watch but not replay.
      assert.strictEqual(yield* reasonOf(`${address}&token=${yield* streamToken(yard!, admin)}`), "unauthorized")
      yield* ask(base, "POST", "/auth/api/v1/roles", admin, {
        name: "Watcher",
        permissions: ["camera:read", "camera:live"],
      })
      const password = "Correct-horse-9-battery"
      const who = { username: "eve", password, roles: ["Watcher"], mustChangePassword: false }
      yield* ask(base, "POST", "/auth/api/v1/users", admin, who)
      const eve = yield* signIn("eve", password)
      assert.strictEqual(yield* reasonOf(`${address}&token=${eve}`), "unauthorized")
      assert.strictEqual(yield* reasonOf(`${address}&token=${yield* streamToken(gate!, eve)}`), "unauthorized")
      const nothing = address.replace(interval, "start=2001-01-01T00:00:00Z&end=2001-01-02T00:00:00Z")
      assert.strictEqual(yield* reasonOf(`${nothing}&token=${admin}`), "notFound")

      // Guessing: five are free, then the right one is refused as well; tokens go on being good.
      for (let i = 0; i < 6; i++) yield* reasonOf(address, { ...account, password: `guess ${i}` })
      assert.strictEqual(yield* reasonOf(address, account), "unauthorized")
      const again = { pictures: 0 }
      yield* Effect.forkScoped(play(`${address}&token=${own}`, again))
      yield* until("pictures in spite of it", () => again.pictures > 5)
      let told: ReadonlyArray<Body> = []
      for (let i = 0; i < 50 && !told.some((one) => (one["detail"] as Body)["locked"] === true); i++) {
        yield* Effect.sleep(200)
        const { items: entries } = yield* ask(base, "GET", "/auth/api/v1/audit?limit=200", admin)
        told = (entries as ReadonlyArray<Body>).filter(({ action }) => action === "rtsp.enter")
      }
      assert.isAtLeast(told.length, 6)
      for (const one of told) assert.deepInclude(one, { outcome: "refused", address: "127.0.0.1", status: 401 })
      assert.isTrue(told.some((one) => (one["detail"] as Body)["locked"] === true))

      yield* ask(base, "POST", "/auth/api/v1/auth/logout", admin)
      assert.strictEqual((yield* Effect.flip(Fiber.join(playing))).reason, "closed")
    }),
  180_000,
)
