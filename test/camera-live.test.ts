/** Live streams at the HTTP floor: what the media floor says, in words of HTTP; whatever stands in path and query. */
import { StreamAccess } from "#actors/protocol/camera.ts"
import { serverLayer } from "#http/server.ts"
import { LiveAhead, LiveBusy, LiveHls, type LiveSession, LiveSilent, LiveUnknown } from "#media/live-hls.ts"
import {
  StillBusy,
  type StillError,
  StillFailed,
  Stills,
  StillSilent,
  StillUnknown,
  StillUnsupported,
} from "#media/still.ts"
import { StreamTokenInvalid } from "#schema/camera.ts"
import { StreamId } from "#schema/common.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Redacted, Schema } from "effect"
import { HttpServer } from "effect/http"
import { connect } from "node:net"
import {
  json,
  memoryIdempotency,
  namedTokens,
  noAuth,
  serverOptions,
  testHealth,
  text,
  unaskedServices,
  userId,
  webHandler,
} from "./http-fixtures.ts"

const streamId = StreamId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a05")
const other = StreamId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a06")
const sessionId = "abcdefghijklmnopqrstuvwx"

const access = Layer.succeed(
  StreamAccess,
  StreamAccess.of({
    mediaPath: () => Effect.die("not asked"),
    token: () => Effect.die("not asked"),
    beside: () => Effect.succeed(other),
    verify: (token) =>
      Redacted.value(token) === "good" ?
        Effect.succeed({ streamId, sessionId: "login", userId, resource: [], expiresMs: 0 }) :
        Effect.fail(new StreamTokenInvalid()),
  }),
)

const session = (members: Partial<LiveSession>): LiveSession => ({
  id: sessionId,
  streamId,
  holder: "login",
  since: 0,
  master: (media) => Effect.succeed({ text: `#EXTM3U\n${media}live.m3u8\n`, etag: "m" }),
  playlist: (wanted) => Effect.succeed({ text: JSON.stringify(wanted), etag: "p" }),
  file: (name) =>
    Effect.succeed({ name, pieces: [Buffer.from("abc"), Buffer.from("defg")], bytes: 7, takenWithinMs: 30_000 }),
  ended: Effect.never,
  ...members,
})

const services = (
  live: Partial<LiveHls["Service"]>,
  still: Effect.Effect<never, StillError> = Effect.die("not asked"),
) =>
  Layer.mergeAll(
    namedTokens,
    access,
    Layer.succeed(LiveHls, LiveHls.of({ open: () => Effect.die("not asked"), session: () => null, ...live })),
    Layer.succeed(Stills, Stills.of({ newest: () => still })),
  )
const node = (...asked: Parameters<typeof services>) => webHandler({}, services(...asked))

const master = (token: string, id: string = streamId) => `/camera/api/v1/streams/${id}/hls/master.m3u8?token=${token}`
const file = (name: string) => `/camera/api/v1/live/hls/${sessionId}/${name}`

describe("live HLS", () => {
  it.effect("is opened by the token of its stream, on behalf of the token's session", () =>
    Effect.gen(function*() {
      const holders: Array<string> = []
      const call = yield* node({
        open: (id, holder, beside) =>
          Effect.gen(function*() {
            assert.deepStrictEqual([id, beside], [streamId, other])
            assert.isTrue(yield* holder.holds)
            holders.push(holder.id)
            return session({})
          }),
      })
      const answer = yield* call(master("good"))
      assert.strictEqual(answer.status, 200)
      assert.include(yield* text(answer), `/camera/api/v1/live/hls/${sessionId}/live.m3u8`)
      assert.deepStrictEqual(holders, ["login"])
      for (const path of [master("bad"), master("good", other), master("")]) {
        assert.strictEqual((yield* call(path)).status, 401, path)
      }
    }).pipe(Effect.scoped))

  it.effect("answers for the variant that is asked for, and 404 for one that the session does not offer", () =>
    Effect.gen(function*() {
      const call = yield* node({
        session: () =>
          session({
            playlist: (_wanted, variant) => Effect.succeed(variant === "first" ? null : { text: variant, etag: "p" }),
          }),
      })
      assert.strictEqual(yield* text(yield* call(file("other.m3u8"))), "second")
      const answer = yield* call(file("live.m3u8"))
      assert.deepStrictEqual([answer.status, (yield* json(answer))["code"]], [404, "live_file_not_found"])
    }).pipe(Effect.scoped))

  it.effect("tells why there is none", () =>
    Effect.gen(function*() {
      for (
        const [error, status, code] of [
          [new LiveUnknown(), 404, "stream_not_found"],
          [new LiveBusy({ message: "full" }), 429, "too_many_requests"],
        ] as const
      ) {
        const call = yield* node({ open: () => Effect.fail(error) })
        const answer = yield* call(master("good"))
        assert.deepStrictEqual([answer.status, (yield* json(answer))["code"]], [status, code])
      }
      const silent = yield* node({
        open: () => Effect.succeed(session({ master: () => Effect.fail(new LiveSilent()) })),
      })
      assert.strictEqual((yield* silent(master("good"))).status, 503)
    }).pipe(Effect.scoped))

  it.effect("sends pieces as one file, whole or a range, and what is gone is 404", () =>
    Effect.gen(function*() {
      const call = yield* node({ session: () => session({}) })
      const whole = yield* call(file("part-1.m4s"))
      assert.deepStrictEqual([whole.status, whole.headers.get("content-type")], [200, "video/iso.segment"])
      assert.strictEqual(yield* text(whole), "abcdefg")
      for (const [range, expected] of [["bytes=2-4", "cde"], ["bytes=3-", "defg"], ["bytes=-2", "fg"]] as const) {
        const part = yield* call(file("part-1.m4s"), { headers: { range } })
        assert.deepStrictEqual([part.status, yield* text(part)], [206, expected])
      }
      const gone = yield* node({ session: () => session({ file: () => Effect.succeed(null) }) })
      assert.strictEqual((yield* gone(file("part-1.m4s"))).status, 404)
      const nobody = yield* node({})
      assert.strictEqual((yield* json(yield* nobody(file("live.m3u8"))))["code"], "live_session_not_found")
    }).pipe(Effect.scoped))

  it.effect("ends what is waited for with its session", () =>
    Effect.gen(function*() {
      const call = yield* node({ session: () => session({ playlist: () => Effect.never, ended: Effect.void }) })
      assert.strictEqual((yield* call(file("live.m3u8?_HLS_msn=5"))).status, 404)
    }).pipe(Effect.scoped))

  it.effect("hands on what a player waits for, and refuses what is too far ahead", () =>
    Effect.gen(function*() {
      const call = yield* node({ session: () => session({}) })
      for (
        const [query, wanted] of [["", "null"], ["?_HLS_msn=7", `{"segment":7,"part":null}`], [
          "?_HLS_msn=7&_HLS_part=0",
          `{"segment":7,"part":0}`,
        ]] as const
      ) assert.strictEqual(yield* text(yield* call(file(`live.m3u8${query}`))), wanted)
      const ahead = yield* node({
        session: () => session({ playlist: () => Effect.fail(new LiveAhead({ message: "too far" })) }),
      })
      assert.strictEqual((yield* ahead(file("live.m3u8?_HLS_msn=7"))).status, 400)
    }).pipe(Effect.scoped))

  it.effect.prop(
    "answers any query and any name without a fault of its own",
    [Schema.String, Schema.String],
    ([a, b]) =>
      Effect.gen(function*() {
        const call = yield* node({ session: () => session({ file: () => Effect.succeed(null) }) })
        const [one, two] = [encodeURIComponent(a.toWellFormed()), encodeURIComponent(b.toWellFormed())]
        for (
          const path of [
            file(`live.m3u8?_HLS_msn=${one}&_HLS_part=${two}`),
            file(`${one}.m4s`),
            master(one),
            `/camera/api/v1/live/hls/${one === "" ? "x" : one}/live.m3u8`,
            `/camera/api/v1/streams/${streamId}/snapshot.jpg?width=${one}`,
          ]
        ) assert.isBelow((yield* call(path)).status, 500, path)
      }).pipe(Effect.scoped),
    { arbitrary: { runs: 25 } },
  )
})

describe("a client that takes nothing", () => {
  it.live("is cut off, so that it holds what it asked for no longer than it may", () =>
    Effect.gen(function*() {
      const piece = Buffer.alloc(16 << 20)
      const bytes = 4 * piece.length
      const big = session({
        file: (name) => Effect.succeed({ name, pieces: [piece, piece, piece, piece], bytes, takenWithinMs: 500 }),
      })
      const server = yield* Layer.build(
        serverLayer(serverOptions).pipe(
          Layer.provide(services({ session: () => big })),
          Layer.provide([noAuth, memoryIdempotency, testHealth, unaskedServices]),
          Layer.provide(Logger.layer([])),
        ),
      )
      const { address } = Context.get(server, HttpServer.HttpServer)
      const socket = connect("port" in address ? address.port : 0, "127.0.0.1")
      const ended = yield* Effect.callback<boolean>((resume) => {
        socket.on("error", () => {})
        socket.on("close", () => resume(Effect.succeed(true)))
        socket.write(`GET ${file("segment-1.m4s")} HTTP/1.1\r\nHost: node.test\r\n\r\n`)
        // It reads nothing, and wakes up long after; what the kernels held is all it finds.
        const late = setTimeout(() => socket.resume(), 3_000)
        return Effect.sync(() => {
          clearTimeout(late)
          socket.destroy()
        })
      }).pipe(Effect.timeoutOrElse({ duration: 15_000, orElse: () => Effect.succeed(false) }))
      assert.isTrue(ended)
      assert.isBelow(socket.bytesRead, bytes)
    }).pipe(Effect.scoped), 30_000)
})

describe("the newest picture", () => {
  it.effect("is for those who may watch, and tells why there is none", () =>
    Effect.gen(function*() {
      const path = `/camera/api/v1/streams/${streamId}/snapshot.jpg?width=320`
      for (
        const [error, status, code] of [
          [new StillUnknown(), 404, "stream_not_found"],
          [new StillSilent(), 503, "camera_unreachable"],
          [new StillUnsupported({ reason: "no package" }), 501, "not_supported"],
          [new StillFailed({ reason: "broken" }), 503, "dependency_unavailable"],
          [new StillBusy(), 429, "too_many_requests"],
        ] as const
      ) {
        const call = yield* node({}, Effect.fail(error))
        const answer = yield* call(path, { token: "viewer" })
        assert.deepStrictEqual([answer.status, (yield* json(answer))["code"]], [status, code])
        assert.strictEqual((yield* call(path)).status, 401)
      }
    }).pipe(Effect.scoped))
})
