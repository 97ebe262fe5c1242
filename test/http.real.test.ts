/** The server on a real socket: bounds of bodies and heads, slow handlers, shutdown, the reference in a browser. */
import type { Auth } from "#actors/protocol/auth.ts"
import { serverLayer, type ServerOptions } from "#http/server.ts"
import { InvalidCredentials } from "#schema/auth.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Latch, Layer, Logger, Scope } from "effect"
import { HttpServer } from "effect/http"
import { request } from "node:http"
import { connect } from "node:net"
import { launchChromium, withoutChromium } from "./harness/chromium.ts"
import {
  authWith,
  memoryIdempotency,
  namedTokens,
  serverOptions,
  testHealth,
  unaskedServices,
} from "./http-fixtures.ts"

const start = (members: Partial<Auth["Service"]>, options: Partial<ServerOptions> = {}) =>
  Effect.gen(function*() {
    const server = serverLayer({ ...serverOptions, ...options }).pipe(
      Layer.provide([namedTokens, authWith(members), memoryIdempotency, testHealth, unaskedServices]),
      Layer.provide(NodeHttpServer.layerHttpServices),
    )
    const scope = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
    const { address } = Context.get(yield* Layer.buildWithScope(server, scope), HttpServer.HttpServer)
    const port = "port" in address ? address.port : 0
    return { port, base: `http://127.0.0.1:${port}`, stop: Scope.close(scope, Exit.void) }
  })

const live = (name: string, run: () => Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run().pipe(Effect.provide(Logger.layer([]))))

const login = (base: string) =>
  Effect.promise(() =>
    fetch(`${base}/auth/api/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "ann", password: "secret" }),
    })
  )
const bodyOf = (response: Response) => Effect.promise(() => response.json() as Promise<Record<string, unknown>>)

live("answers 503 when the work takes too long, and interrupts it", () =>
  Effect.gen(function*() {
    const interrupted = yield* Latch.make()
    const { base } = yield* start({ login: () => Effect.onInterrupt(Effect.never, () => interrupted.open) }, {
      requestTimeoutMs: 200,
    })
    const response = yield* login(base)
    assert.strictEqual(response.status, 503)
    assert.strictEqual((yield* bodyOf(response))["code"], "request_timed_out")
    yield* interrupted.await
  }))

live("interrupts the work of a caller who hangs up", () =>
  Effect.gen(function*() {
    const begun = yield* Latch.make()
    const interrupted = yield* Latch.make()
    const { base } = yield* start({
      login: () => Effect.andThen(begun.open, Effect.onInterrupt(Effect.never, () => interrupted.open)),
    })
    const abort = new AbortController()
    const call = fetch(`${base}/auth/api/v1/auth/login`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ username: "ann", password: "secret" }),
      signal: abort.signal,
    }).catch(() => null)
    yield* begun.await
    abort.abort()
    assert.isNull(yield* Effect.promise(() => call))
    yield* interrupted.await
  }))

live(
  "ends the work of a caller with an idempotency key who hangs up, and keeps the answer for the retry",
  () =>
    Effect.gen(function*() {
      const begun = yield* Latch.make()
      const go = yield* Latch.make()
      const done = yield* Latch.make()
      let runs = 0
      const { base } = yield* start({
        changePassword: () =>
          Effect.gen(function*() {
            runs += 1
            yield* begun.open
            yield* go.await
            yield* done.open
          }),
      })
      const change = (signal?: AbortSignal) =>
        fetch(`${base}/auth/api/v1/auth/password`, {
          method: "POST",
          headers: { "content-type": "application/json", "authorization": "Bearer admin", "idempotency-key": "k" },
          body: JSON.stringify({ currentPassword: "old password", newPassword: "a new password" }),
          ...(signal === undefined ? {} : { signal }),
        })
      const abort = new AbortController()
      const first = change(abort.signal).catch(() => null)
      yield* begun.await
      abort.abort()
      yield* Effect.promise(() => first)
      assert.strictEqual((yield* Effect.promise(() => change())).status, 409, "still running")
      yield* go.open
      yield* done.await
      const again = yield* Effect.promise(async () => {
        for (;;) {
          const response = await change()
          if (response.status !== 409) return response
        }
      })
      assert.strictEqual(again.status, 204)
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.strictEqual(runs, 1)
    }),
)

live("survives paths that are no paths", () =>
  Effect.gen(function*() {
    const { port } = yield* start({}, { dashboard: import.meta.dirname })
    const get = (path: string) =>
      Effect.callback<number>((resume) => {
        const call = request({ port, path, headers: { accept: "text/html" } })
        call.on("response", (response) => {
          response.resume()
          resume(Effect.succeed(response.statusCode ?? 0))
        })
        call.end()
      })
    for (
      const path of [
        "/%zz",
        "/%00",
        "/..%5c..%5cetc",
        "//etc/passwd",
        "/assets/../../package.json",
        "/assets/%2e%2e/%2e%2e/package.json",
        "/%ff",
      ]
    ) {
      const status = yield* get(path)
      assert.isTrue(status >= 400 && status < 500, `${path}: ${status}`)
    }
  }))

live("refuses a body beyond the limit also when its length was not told", () =>
  Effect.gen(function*() {
    const { port } = yield* start({}, { maxBodyBytes: 4096 })
    const status = yield* Effect.callback<number>((resume) => {
      const call = request({
        port,
        method: "POST",
        path: "/auth/api/v1/auth/login",
        headers: { "content-type": "application/json" },
      })
      call.on("response", (response) => {
        resume(Effect.succeed(response.statusCode ?? 0))
        call.destroy()
      })
      // The server may close before all is sent.
      call.on("error", () => {})
      call.write(`{"username":"${"x".repeat(3000)}`)
      call.write("y".repeat(3000))
      call.end("\"}")
    })
    assert.strictEqual(status, 413)
  }))

live("refuses a head beyond 16 KiB", () =>
  Effect.gen(function*() {
    const { base } = yield* start({})
    const response = yield* Effect.promise(() =>
      fetch(`${base}/health`, { headers: { "x-large": "x".repeat(20_000) } })
    )
    assert.strictEqual(response.status, 431)
  }))

live(
  "lets a running request end at shutdown, takes no other, and is not held up by an idle connection",
  () =>
    Effect.gen(function*() {
      const begun = yield* Latch.make()
      const { base, port, stop } = yield* start({
        login: () =>
          Effect.andThen(begun.open, Effect.andThen(Effect.sleep("150 millis"), Effect.fail(new InvalidCredentials()))),
      })
      const half = connect(port, "127.0.0.1")
      half.on("error", () => {})
      half.write("GET /health HTTP/1.1\r\nHost: x\r\n")
      const running = yield* Effect.forkChild(login(base))
      yield* begun.await
      yield* stop
      assert.strictEqual((yield* Fiber.join(running)).status, 401)
      const refused = yield* Effect.promise(() => fetch(`${base}/health`).then(() => false, () => true))
      assert.isTrue(refused)
      half.destroy()
    }),
)

it.live.skipIf(withoutChromium !== "")(
  `shows the reference in a browser without any other host${withoutChromium && ` (${withoutChromium})`}`,
  () =>
    Effect.gen(function*() {
      const { base } = yield* start({})
      const chrome = yield* Effect.acquireRelease(Effect.promise(() => launchChromium()), (running) =>
        Effect.promise(() => running.close()))
      const page = yield* Effect.promise(() =>
        chrome.newPage()
      )
      const elsewhere: Array<string> = []
      const errors: Array<string> = []
      page.on("request", (asked) => {
        if (!asked.url().startsWith(base) && !/^(data|blob):/.test(asked.url())) elsewhere.push(asked.url())
      })
      page.on("pageerror", (error) => errors.push(error.message))
      page.on("console", (message) => {
        // A node without a dashboard has no icon.
        if (message.type() === "error" && !message.location().url.endsWith("/favicon.ico")) errors.push(message.text())
      })
      yield* Effect.promise(() => page.goto(`${base}/docs`, { timeout: 120_000 }))
      yield* Effect.promise(() => page.getByText("Detailed health check").first().waitFor({ timeout: 120_000 }))
      assert.deepStrictEqual(elsewhere, [])
      assert.deepStrictEqual(errors, [])
    }).pipe(Effect.provide(Logger.layer([]))),
)
