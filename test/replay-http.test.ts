/** HLS of replay sessions over HTTP: validators, ranges, what a stranger may not see. */
import { Federated } from "#actors/protocol/bff-federation.ts"
import { routes } from "#http/server.ts"
import { Storage } from "#media/storage.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { HttpRouter } from "effect/http"
import * as HlsParser from "hls-parser"
import { readFileSync } from "node:fs"
import {
  json,
  memoryIdempotency,
  namedTokens,
  noAuth,
  serverOptions,
  testHealth,
  text,
  unaskedServices,
} from "./http-fixtures.ts"
import { record, type Recorded, temporaryStorage } from "./media/recorded.ts"
import { replayServices } from "./replay-fixtures.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")

type Call = (path: string, init?: RequestInit & { readonly token?: string }) => Effect.Effect<Response>

/** The HTTP floor over real files; `use` gets what was recorded. */
const overHttp = <A, E>(
  use: (call: Call, footage: Recorded, storage: Storage["Service"]) => Effect.Effect<A, E>,
  gone: Federated["Service"]["gone"] = () => Effect.succeed(null),
) =>
  Effect.gen(function*() {
    const storage = yield* Storage
    const footage = yield* record(storage, t0, [
      { video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 60, afterMs: 0 },
      { video: "main-640x360-25.h264", audio: "tone-16000.aac", seconds: 20, afterMs: 90_000 },
    ])
    const built = yield* replayServices(storage, footage)
    const { dispose, handler } = HttpRouter.toWebHandler(
      routes(serverOptions).pipe(
        Layer.provide(Layer.succeedContext(built)),
        Layer.provide(Layer.mock(Federated, {
          gone,
          ofReplay: () => Effect.succeed(null),
          unmoved: (_id, _grant, text) => Effect.succeed(text),
          departed: () => Effect.succeed(null),
        })),
        Layer.provide([
          namedTokens,
          noAuth,
          memoryIdempotency,
          testHealth,
          unaskedServices,
          NodeHttpServer.layerHttpServices,
        ]),
        Layer.provideMerge(Logger.layer([])),
      ),
      { disableLogger: true },
    )
    yield* Effect.addFinalizer(() => Effect.promise(dispose))
    const call: Call = (path, { token, ...init } = {}) => {
      const headers = new Headers(init.headers)
      if (token !== undefined) headers.set("authorization", `Bearer ${token}`)
      return Effect.promise(() => handler(new Request(`http://node.test${path}`, { ...init, headers })))
    }
    return yield* use(call, footage, storage)
  }).pipe(Effect.scoped, Effect.provide(temporaryStorage))

const open = (call: Call, footage: Recorded, more: Record<string, unknown> = {}) =>
  Effect.gen(function*() {
    const response = yield* call("/replay/api/v1/replay/uri", {
      method: "POST",
      token: "viewer",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({
        recordingToken: footage.identity.recordingToken,
        start: new Date(footage.startMs).toISOString(),
        end: new Date(footage.endMs).toISOString(),
        ...more,
      }),
    })
    const body = yield* json(response)
    assert.strictEqual(response.status, 201, JSON.stringify(body))
    return {
      response,
      uri: String(body["uri"]),
      sessionId: String(body["sessionId"]),
      expiresAt: String(body["expiresAt"]),
    }
  })

const playlistAt = (call: Call, path: string) =>
  Effect.gen(function*() {
    const response = yield* call(path)
    assert.strictEqual(response.status, 200)
    return HlsParser.parse(yield* text(response)) as HlsParser.types.MediaPlaylist
  })

describe("over HTTP", () => {
  it.live("a session plays with nothing but its path", () =>
    overHttp((call, footage, storage) =>
      Effect.gen(function*() {
        const { expiresAt, response, sessionId, uri } = yield* open(call, footage)
        assert.strictEqual(response.headers.get("location"), `/replay/api/v1/replay/session/${sessionId}`)
        assert.isAbove(Date.parse(expiresAt), t0)
        const base = uri.slice(0, -"master.m3u8".length)
        const master = yield* call(uri)
        assert.strictEqual(master.headers.get("content-type"), "application/vnd.apple.mpegurl")
        assert.strictEqual(master.headers.get("cache-control"), "private, no-cache")
        assert.include(yield* text(master), "playlist.m3u8")
        const playlist = yield* playlistAt(call, `${base}playlist.m3u8`)
        assert.strictEqual(playlist.segments.filter((segment) => segment.discontinuity).length, 1)

        const init = yield* call(base + playlist.segments[0]!.map.uri)
        assert.strictEqual(init.status, 200)
        assert.strictEqual(init.headers.get("content-type"), "video/mp4")
        const whole = Buffer.concat(
          yield* Effect.forEach(playlist.segments, (segment) =>
            Effect.flatMap(call(base + segment.uri), (answer) => {
              assert.strictEqual(answer.status, 200)
              assert.strictEqual(answer.headers.get("cache-control"), "private, max-age=31536000, immutable")
              return Effect.promise(async () => Buffer.from(await answer.arrayBuffer()))
            })),
        )
        const stored = footage.files.map((one) => readFileSync(storage.path(one)))
        const offsets = yield* Effect.forEach(footage.files, (one) =>
          Effect.map(storage.index(one), (entries) => entries[0]!.offset))
        assert.isTrue(
          whole.equals(Buffer.concat(stored.map((bytes, i) => bytes.subarray(offsets[i])))),
          "byte for byte what was stored",
        )

        const session = yield* call(`/replay/api/v1/replay/session/${sessionId}`, { token: "viewer" })
        assert.strictEqual((yield* json(session))["state"], "active")
      })
    ))

  it.live("media know ranges, validators and HEAD", () =>
    overHttp((call, footage) =>
      Effect.gen(function*() {
        const { uri } = yield* open(call, footage)
        const base = uri.slice(0, -"master.m3u8".length)
        const [segment] = (yield* playlistAt(call, `${base}playlist.m3u8`)).segments
        const path = base + segment!.uri
        const whole = yield* call(path)
        const bytes = Buffer.from(yield* Effect.promise(() => whole.arrayBuffer()))
        const etag = whole.headers.get("etag")!
        assert.strictEqual(whole.headers.get("accept-ranges"), "bytes")
        assert.strictEqual(Number(whole.headers.get("content-length")), bytes.length)

        const part = yield* call(path, { headers: { range: "bytes=100-299" } })
        assert.strictEqual(part.status, 206)
        assert.strictEqual(part.headers.get("content-range"), `bytes 100-299/${bytes.length}`)
        assert.isTrue(Buffer.from(yield* Effect.promise(() => part.arrayBuffer())).equals(bytes.subarray(100, 300)))

        const beyond = yield* call(path, { headers: { range: `bytes=${bytes.length}-` } })
        assert.strictEqual(beyond.status, 416)
        assert.strictEqual(beyond.headers.get("content-range"), `bytes */${bytes.length}`)
        assert.strictEqual((yield* json(beyond))["code"], "range_not_satisfiable")

        const same = yield* call(path, { headers: { "if-none-match": etag } })
        assert.strictEqual(same.status, 304)
        const changed = yield* call(path, { headers: { range: "bytes=0-9", "if-range": `"other"` } })
        assert.strictEqual(changed.status, 200)
        yield* text(changed)

        const head = yield* call(path, { method: "HEAD" })
        assert.strictEqual(head.status, 200)
        assert.strictEqual(head.headers.get("etag"), etag)
        assert.strictEqual(Number(head.headers.get("content-length")), bytes.length)
        assert.strictEqual((yield* text(head)).length, 0)
      })
    ))

  it.live("playlists are validated and compressed", () =>
    overHttp((call, footage) =>
      Effect.gen(function*() {
        const { uri } = yield* open(call, footage)
        const path = uri.replace("master", "playlist")
        const plain = yield* call(path)
        const etag = plain.headers.get("etag")!
        assert.match(etag, /^W\/"/)
        assert.strictEqual(plain.headers.get("vary"), "accept-encoding")
        assert.strictEqual((yield* call(path, { headers: { "if-none-match": etag } })).status, 304)
        const packed = yield* call(path, { headers: { "accept-encoding": "gzip" } })
        assert.strictEqual(packed.headers.get("content-encoding"), "gzip")
        const bytes = new Uint8Array(yield* Effect.promise(() => packed.arrayBuffer()))
        const unpacked = yield* Effect.promise(() =>
          new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text()
        )
        assert.strictEqual(unpacked, yield* text(plain))
      })
    ))

  it.live("subtitles tell the clock and the gap; the metadata file says that it goes", () =>
    overHttp((call, footage) =>
      Effect.gen(function*() {
        const { sessionId, uri } = yield* open(call, footage)
        const base = uri.slice(0, -"master.m3u8".length)
        const playlist = yield* playlistAt(call, `${base}subtitle-playlist.m3u8`)
        const cues = yield* Effect.forEach(
          playlist.segments,
          (segment) => Effect.flatMap(call(base + segment.uri), text),
        )
        assert.include(cues[0], "2026-03-01 12:00:00 UTC")
        assert.include(cues.at(-1), "Nothing recorded for 1 min 30 s: camera offline")

        const metadata = yield* call(`${base}metadata.vtt`)
        assert.match(metadata.headers.get("deprecation") ?? "", /^@\d+$/)
        assert.isAbove(
          Date.parse(metadata.headers.get("sunset") ?? ""),
          Number(metadata.headers.get("deprecation")!.slice(1)) * 1000,
        )
        assert.strictEqual(
          metadata.headers.get("link"),
          `</replay/api/v1/hls/${sessionId}/subtitle-playlist.m3u8>; rel="successor-version"`,
        )
        assert.include(yield* text(metadata), "camera_offline")
      })
    ))

  it.live("footage that has all gone to another node is shown from there, where one has it", () =>
    Effect.gen(function*() {
      const asked = (gone?: Federated["Service"]["gone"]) =>
        overHttp((call, footage, storage) =>
          Effect.gen(function*() {
            const { uri } = yield* open(call, footage)
            assert.strictEqual((yield* call(uri)).status, 200)
            yield* Effect.forEach(footage.files, (file) => storage.remove(file))
            const playlist = yield* call(uri.replace("master", "playlist"))
            return [playlist.status, yield* text(playlist)] as const
          }), gone)
      const there = yield* asked((_id, { recordingToken }, name) =>
        Effect.succeed({ text: `#EXTM3U\n# ${name} of ${recordingToken}\n`, etag: "there" })
      )
      assert.deepStrictEqual(there[0], 200)
      assert.match(there[1], /^#EXTM3U\n# playlist.m3u8 of [0-9a-f-]{36}\n$/)
      const nowhere = yield* asked()
      assert.deepStrictEqual(nowhere[0], 404)
      assert.include(nowhere[1], "footage_not_found")
    }))

  it.live("strangers get nothing", () =>
    overHttp((call, footage) =>
      Effect.gen(function*() {
        const { uri } = yield* open(call, footage)
        const unknown = yield* call(`/replay/api/v1/hls/${"A".repeat(32)}/master.m3u8`)
        assert.strictEqual(unknown.status, 404)
        assert.strictEqual((yield* json(unknown))["code"], "replay_session_not_found")
        const file = yield* call(uri.replace("master.m3u8", "passwd"))
        assert.strictEqual(file.status, 404)
        assert.strictEqual((yield* json(file))["code"], "replay_file_not_found")
        const body = JSON.stringify({ recordingToken: footage.identity.recordingToken, start: "2026-03-01T12:00:00Z" })
        const headers = { "content-type": "application/json" }
        assert.strictEqual((yield* call("/replay/api/v1/replay/uri", { method: "POST", headers, body })).status, 401)
        const config = yield* call("/replay/api/v1/replay/config", { token: "viewer" })
        assert.strictEqual(config.headers.get("etag"), `"1"`)
        const { version: _, ...update } = yield* json(config)
        const put = {
          method: "PUT",
          headers: { ...headers, "if-match": `"1"` },
          body: JSON.stringify({ ...update, sessionSeconds: 60 }),
        }
        assert.strictEqual((yield* call("/replay/api/v1/replay/config", { ...put, token: "operator" })).status, 403)
        assert.strictEqual((yield* call("/replay/api/v1/replay/config", { ...put, token: "admin" })).status, 200)
        assert.strictEqual((yield* call("/replay/api/v1/replay/config", { ...put, token: "admin" })).status, 412)
        const short = yield* open(call, footage)
        assert.isBelow(Date.parse(short.expiresAt) - Date.now(), 61_000)
      })
    ))
})
