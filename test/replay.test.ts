/** Replay sessions: their ids, ends and limits; what requests for media say. */
import { Replays } from "#actors/protocol/replay.ts"
import { acceptsGzip, isFresh, rangeOf } from "#http/handlers/replay-media.ts"
import type { RecordingToken, ReplaySessionId } from "#schema/common.ts"
import type { ReplayUriRequest } from "#schema/replay.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { TestClock } from "effect/testing"
import { principal } from "./http-fixtures.ts"
import { identityOf } from "./media/made-up-files.ts"
import { type Recorded } from "./media/recorded.ts"
import { newWorld, oneRecording, replayLayer } from "./replay-fixtures.ts"

const t0 = Date.parse("2026-03-01T12:00:00.000Z")
const hour = 3_600_000
const { recordingId, recordingToken } = identityOf(1)
const viewer = principal("viewer")
const file = { startMs: t0, endMs: t0 + hour } as Recorded["files"][number]
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
