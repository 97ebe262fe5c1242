/** Replay sessions, and HLS over HTTP: validators, ranges, ends of sessions, what a stranger may not see. */
import { Federated } from "#actors/protocol/bff-federation.ts"
import { Replays } from "#actors/protocol/replay.ts"
import { acceptsGzip, isFresh, rangeOf } from "#http/handlers/replay-media.ts"
import { routes } from "#http/server.ts"
import { Storage } from "#media/storage.ts"
import type { RecordingToken, ReplaySessionId } from "#schema/common.ts"
import type { ReplayUriRequest } from "#schema/replay.ts"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger } from "effect"
import { HttpRouter } from "effect/http"
import { TestClock } from "effect/testing"
import * as HlsParser from "hls-parser"
import { readFileSync } from "node:fs"
import {
  json,
  memoryIdempotency,
  namedTokens,
  noAuth,
  principal,
  serverOptions,
  testHealth,
  text,
  unaskedServices,
} from "./http-fixtures.ts"
import { identityOf } from "./media/made-up-files.ts"
import { record, type Recorded, temporaryStorage } from "./media/recorded.ts"
import { newWorld, oneRecording, replayLayer, replayServices } from "./replay-fixtures.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")
const hour = 3_600_000
const { recordingId, recordingToken } = identityOf(1)
const viewer = principal("viewer")

const file = { startMs: t0, endMs: t0 + hour } as Recorded["files"][number]

/** Two hours after the footage began. */
const service = (world = newWorld()) =>
  replayLayer(world, "test").pipe(
    Layer.provide(oneRecording({ recordingId, recordingToken }, () => [file])),
    Layer.provide(Layer.effectDiscard(TestClock.setTime(t0 + 2 * hour))),
  )

const ask = (more: Partial<ReplayUriRequest> = {}): ReplayUriRequest => ({
  recordingToken,
  start: t0,
  end: t0 + hour,
  ...more,
})

describe("sessions", () => {
  it.effect("have an id that nobody guesses, and end when their time is over", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const session = yield* replays.open(viewer, ask())
      assert.match(session.sessionId, /^[A-Za-z0-9_-]{32}$/)
      assert.strictEqual(session.uri, `/replay/api/v1/hls/${session.sessionId}/master.m3u8`)
      assert.notInclude(JSON.stringify([...world.rows]), session.sessionId, "the id itself is kept nowhere")
      assert.strictEqual(session.expiresAt, t0 + 8 * hour)
      const another = yield* replays.open(viewer, ask())
      assert.notStrictEqual(another.sessionId, session.sessionId)

      const grant = yield* replays.grant(session.sessionId)
      assert.deepInclude(grant, { recordingId, start: t0, end: t0 + hour, speed: 1, createdAt: t0 + 2 * hour })
      yield* TestClock.setTime(t0 + 8 * hour)
      const ended = yield* Effect.flip(replays.grant(session.sessionId))
      assert.deepInclude(ended, { _tag: "ReplaySessionEnded", state: "expired" })
      assert.strictEqual((yield* replays.session(session.sessionId)).state, "expired")
      const unknown = yield* Effect.flip(replays.grant("x".repeat(32) as ReplaySessionId))
      assert.strictEqual(unknown._tag, "ReplaySessionNotFound")
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("end when they are revoked, here at once and after a revocation elsewhere soon", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const here = yield* replays.open(viewer, ask())
      assert.strictEqual(yield* replays.revokeUser(viewer.userId), 1)
      assert.deepInclude(yield* Effect.flip(replays.grant(here.sessionId)), {
        _tag: "ReplaySessionEnded",
        state: "revoked",
      })

      const elsewhere = yield* replays.open(viewer, ask())
      for (const [digest, row] of world.rows) world.rows.set(digest, { ...row, revokedAt: t0 })
      yield* replays.grant(elsewhere.sessionId)
      yield* TestClock.adjust(10_000)
      assert.strictEqual((yield* Effect.flip(replays.grant(elsewhere.sessionId)))._tag, "ReplaySessionEnded")
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("go with their sign-in: at once where its end was heard of, soon where it was not", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const heard = yield* replays.open({ ...viewer, sessionId: "heard" }, ask())
      const missed = yield* replays.open({ ...viewer, sessionId: "missed" }, ask())
      const other = yield* replays.open(viewer, ask())
      world.endedSignIns.heard.add("heard")
      const revoked = { _tag: "ReplaySessionEnded", state: "revoked" } as const
      assert.deepInclude(yield* Effect.flip(replays.grant(heard.sessionId)), revoked)
      world.endedSignIns.written.add("heard").add("missed")
      yield* replays.grant(missed.sessionId)
      yield* TestClock.adjust(10_000)
      assert.deepInclude(yield* Effect.flip(replays.grant(missed.sessionId)), revoked)
      assert.strictEqual((yield* replays.session(missed.sessionId)).state, "revoked")
      // Also where what was heard is forgotten after ten minutes.
      world.endedSignIns.heard.clear()
      yield* TestClock.adjust("15 minutes")
      assert.deepInclude(yield* Effect.flip(replays.grant(heard.sessionId)), revoked)
      assert.strictEqual((yield* replays.grant(other.sessionId)).loginSessionId, viewer.sessionId)
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("play on while the database is away, until their time is over", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const { sessionId } = yield* replays.open(viewer, ask())
      for (let i = 0; i < 100; i++) yield* replays.grant(sessionId)
      assert.strictEqual(world.reads, 0, "asked for every segment, read from memory")
      world.away = true
      yield* TestClock.adjust(5 * 60_000)
      yield* replays.grant(sessionId)
      assert.strictEqual((yield* Effect.flip(replays.open(viewer, ask())))._tag, "DependencyUnavailable")
      assert.strictEqual(
        (yield* Effect.flip(replays.grant("y".repeat(32) as ReplaySessionId)))._tag,
        "DependencyUnavailable",
      )
      yield* TestClock.adjust(6 * hour)
      assert.strictEqual((yield* Effect.flip(replays.grant(sessionId)))._tag, "ReplaySessionEnded")
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("are held up for half a second now and then by a database that hangs, not longer", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const { sessionId } = yield* replays.open(viewer, ask())
      world.hanging = true
      yield* TestClock.adjust(10_000)
      const asked = yield* Effect.forkChild(replays.grant(sessionId))
      yield* TestClock.adjust(500)
      assert.strictEqual((yield* Fiber.join(asked)).recordingId, recordingId)
      // For the next ten seconds nobody waits at all: the clock stands still.
      assert.strictEqual((yield* replays.grant(sessionId)).recordingId, recordingId)
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("are limited in number, length and place in time", () => {
    const world = newWorld()
    return Effect.gen(function*() {
      const replays = yield* Replays
      const refused = (more: Partial<ReplayUriRequest>) =>
        Effect.map(Effect.flip(replays.open(viewer, ask(more))), (error) => error._tag)
      assert.strictEqual(yield* refused({ end: t0 }), "InvalidInput")
      assert.strictEqual(yield* refused({ start: t0 + 3 * hour, end: t0 + 4 * hour }), "InvalidInput")
      assert.strictEqual(yield* refused({ start: t0 - 200 * hour }), "InvalidInput")
      assert.strictEqual(yield* refused({ start: t0 - 2 * hour, end: t0 - hour }), "FootageNotFound")
      assert.strictEqual(
        yield* refused({ recordingToken: recordingId as string as RecordingToken }),
        "RecordingNotFound",
      )

      const config = yield* replays.config()
      const stale = yield* Effect.flip(replays.updateConfig({ ...config, sessionsPerUser: 2 }, config.version + 1))
      assert.strictEqual(stale._tag, "VersionConflict")
      yield* replays.updateConfig({ ...config, sessionsPerUser: 2 }, config.version)
      const first = yield* replays.open(viewer, ask())
      yield* TestClock.adjust(1_000)
      const second = yield* replays.open(viewer, ask())
      yield* TestClock.adjust(1_000)
      yield* replays.open(viewer, ask())
      assert.strictEqual((yield* replays.session(first.sessionId)).state, "revoked")
      assert.strictEqual((yield* replays.session(second.sessionId)).state, "active")
    }).pipe(Effect.provide(service(world)))
  })

  it.effect("come with what there is to replay", () =>
    Effect.gen(function*() {
      const replays = yield* Replays
      const info = yield* replays.info(recordingToken)
      assert.deepInclude(info, { oldest: t0, newest: t0 + hour, growing: true })
      assert.strictEqual(info.coverage?.recordedMs, hour)
    }).pipe(Effect.provide(service())))
})

describe("requests", () => {
  it("name ranges as RFC 9110 has them", () => {
    assert.deepStrictEqual(rangeOf("bytes=0-99", 1000), { from: 0, to: 100 })
    assert.deepStrictEqual(rangeOf("bytes=900-", 1000), { from: 900, to: 1000 })
    assert.deepStrictEqual(rangeOf("bytes=-100", 1000), { from: 900, to: 1000 })
    assert.deepStrictEqual(rangeOf("bytes=-5000", 1000), { from: 0, to: 1000 })
    assert.deepStrictEqual(rangeOf("bytes=0-5000", 1000), { from: 0, to: 1000 })
    assert.strictEqual(rangeOf("bytes=1000-", 1000), "unsatisfiable")
    assert.strictEqual(rangeOf("bytes=-0", 1000), "unsatisfiable")
    for (
      const ignored of [undefined, "", "bytes=", "bytes=-", "bytes=5-4", "items=0-1", "bytes=0-1,3-4", "bytes=a-b"]
    ) {
      assert.isNull(rangeOf(ignored, 1000), ignored ?? "none")
    }
  })

  it("know validators and codings", () => {
    assert.isTrue(isFresh(`"a", W/"b"`, `W/"b"`))
    assert.isTrue(isFresh("*", `"b"`))
    assert.isFalse(isFresh(`"a"`, `"b"`))
    assert.isFalse(isFresh(undefined, `"b"`))
    assert.isTrue(acceptsGzip("br, gzip;q=0.5"))
    assert.isTrue(acceptsGzip("*"))
    assert.isFalse(acceptsGzip("gzip;q=0, br"))
    assert.isFalse(acceptsGzip(undefined))
  })
})

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
