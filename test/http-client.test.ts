/** The typed client, as the dashboard uses it: what is read is not waited for without end. */
import { makeClient } from "#http/contract/client.ts"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Redacted } from "effect"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

/** A node that froze: it takes requests and answers none. Its address, and when a caller left. */
const frozen = Effect.gen(function*() {
  const left = yield* Deferred.make<void>()
  const server = yield* Effect.acquireRelease(
    Effect.sync(() =>
      createServer((request) => request.socket.once("close", () => Deferred.doneUnsafe(left, Effect.void)))
    ),
    (server) =>
      Effect.sync(() => {
        server.closeAllConnections()
        server.close()
      }),
  )
  yield* Effect.promise(() => new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve)))
  return { baseUrl: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, left }
})

it.live("what a frozen node does not answer fails and leaves the connection; what changes something is waited for", () =>
  Effect.gen(function*() {
    const { baseUrl, left } = yield* frozen
    const client = yield* makeClient({ baseUrl, token: () => "token", readWithinMs: 200 })
    const failure = yield* Effect.flip(client.camera.cameras({ query: {} }))
    assert.strictEqual(failure._tag, "HttpClientError")
    yield* Deferred.await(left)
    const payload = { username: "admin", password: Redacted.make("secret"), cookie: false }
    const answer = yield* client.auth.login({ payload }).pipe(Effect.timeoutOption("600 millis"))
    assert.strictEqual(answer._tag, "None")
  }))
