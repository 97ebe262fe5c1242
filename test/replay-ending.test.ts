/** What is under way when a sign-in ends: a body in the middle is cut off, and its player does not wait for the rest. */
import { sendMedia } from "#http/handlers/replay-media.ts"
import type { HlsMedia } from "#media/hls.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Layer, Logger, Stream } from "effect"
import { HttpRouter, HttpServer } from "effect/http"
import { createServer } from "node:http"

it.live("closes the connection of a segment that is being sent, and of no other", () =>
  Effect.gen(function*() {
    const ended = yield* Deferred.make<void>()
    let closed = 0
    const media: HlsMedia = {
      kind: "media",
      contentType: "video/mp4",
      etag: "1",
      bytes: 1000,
      // The first half comes, the second is long in coming.
      read: () =>
        Stream.concat(Stream.make(new Uint8Array(500)), Stream.never).pipe(
          Stream.ensuring(Effect.sync(() => void closed++)),
        ),
    }
    const whole: HlsMedia = { ...media, read: () => Stream.make(new Uint8Array(1000)) }
    const served = Layer.mergeAll(
      HttpRouter.add("GET", "/mine", sendMedia(media, Deferred.await(ended))),
      HttpRouter.add("GET", "/other", sendMedia(whole, Effect.never)),
    )
    const server = yield* Layer.build(
      HttpRouter.serve(served, { disableLogger: true, disableListenLog: true }).pipe(
        Layer.provideMerge(NodeHttpServer.layer(() => createServer(), { host: "127.0.0.1", port: 0 })),
      ),
    )
    const { address } = yield* Effect.provide(HttpServer.HttpServer, server)
    const base = `http://127.0.0.1:${"port" in address ? address.port : 0}`
    const response = yield* Effect.promise(() => fetch(`${base}/mine`))
    const reader = response.body!.getReader()
    const first = yield* Effect.promise(() => reader.read())
    assert.strictEqual(first.value?.length, 500)
    yield* Deferred.succeed(ended, undefined)
    const rest = yield* Effect.promise(() => reader.read().then(() => "more", () => "cut off"))
    assert.strictEqual(rest, "cut off")
    assert.strictEqual(closed, 1, "what it read from is closed")
    const other = yield* Effect.promise(async () => (await (await fetch(`${base}/other`)).arrayBuffer()).byteLength)
    assert.strictEqual(other, 1000)
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([]))))
