/** Cameras on a real PostgreSQL and the real cluster engine; the media doors are stand-ins. */
import { assert, it } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import { fakeMedia } from "./record-fixtures.ts"
import { eventually, firstPage, folder, front, node, server } from "./record-node.ts"

it.live("a camera: sealed secrets, states, versions, order, pages, deletion", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const media = fakeMedia()
    const { cameras, recordings, sql } = yield* node({ url: yield* postgres.start, dataFolder: yield* folder, media })

    const made = yield* cameras.create(front)
    assert.deepInclude(made, {
      name: "Front door",
      driver: "rtsp",
      status: "registered",
      username: "admin",
      hasPassword: true,
      version: 1,
    })
    const [channel] = made.channels
    const [main, sub] = channel!.streams
    assert.deepInclude(main, { role: "main", codec: null, width: null, hasPassword: false, username: null })
    assert.deepInclude(sub, { sourceUrl: "rtsp://camera.example:8554/sub", username: "viewer", hasPassword: true })
    const dump = JSON.stringify([yield* sql`SELECT * FROM camera`, yield* sql`SELECT * FROM camera_stream`])
    assert.notInclude(dump, "camera secret")
    assert.notInclude(dump, "p@ss")

    const assigned = media.assignments.get(main!.id)!
    assert.deepInclude(assigned, {
      url: "rtsp://camera.example:8554/main",
      username: "admin",
      epoch: 1,
      enabled: true,
      recording: null,
    })
    assert.strictEqual(Redacted.value(assigned.password!), "camera secret")
    assert.strictEqual(Redacted.value(media.assignments.get(sub!.id)!.password!), "p@ss")

    media.report({
      streamId: main!.id,
      health: "online",
      parameters: {
        video: {
          codec: "h264",
          width: 1920,
          height: 1080,
          codecs: "avc1.640028",
          vps: new Uint8Array(),
          sps: new Uint8Array(),
          pps: new Uint8Array(),
        },
        audio: null,
      },
    })
    media.report({ streamId: sub!.id, health: "authFailed", reason: "401 Unauthorized" })
    const seen = yield* eventually("its state", cameras.get(made.id), (camera) => camera.status === "degraded")
    assert.deepInclude(seen, { reason: "401 Unauthorized", version: 1 })
    assert.deepInclude(seen.channels[0]!.streams[0], { codec: "h264", width: 1920, height: 1080, status: "online" })
    assert.lengthOf((yield* cameras.list({ status: "degraded" }, firstPage, "all")).items, 1)
    assert.lengthOf((yield* cameras.list({ status: "online" }, firstPage, "all")).items, 0)

    const renamed = yield* cameras.update(made.id, { name: "Back door", username: "root" }, 1)
    assert.deepInclude(renamed, { name: "Back door", username: "root", hasPassword: true, version: 2 })
    assert.strictEqual((yield* Effect.flip(cameras.update(made.id, { name: "x" }, 1)))._tag, "VersionConflict")
    assert.strictEqual(media.assignments.get(main!.id)!.username, "root")
    assert.isFalse((yield* cameras.update(made.id, { name: "Back door", password: null }, null)).hasPassword)
    assert.isNull(media.assignments.get(main!.id)!.password)

    const off = yield* cameras.toggleChannel(channel!.id, null, null)
    assert.deepInclude(off, { active: false, status: "disabled" })
    assert.isFalse(media.assignments.get(main!.id)!.enabled)
    assert.strictEqual((yield* cameras.get(made.id)).status, "disabled")
    assert.isTrue((yield* cameras.toggleChannel(channel!.id, true, null)).active)

    const second = yield* cameras.addChannel(made.id, {
      name: "Garden",
      streams: [{ role: "main", sourceUrl: "rtsp://camera.example/2" }],
    })
    assert.deepInclude(second, { number: 2, name: "Garden" })
    assert.strictEqual(
      (yield* Effect.flip(cameras.addStream(second.id, { role: "main", sourceUrl: "rtsp://x/" })))._tag,
      "StreamExists",
    )
    const third = yield* cameras.addStream(second.id, {
      role: "sub",
      sourceUrl: "rtsp://camera.example/2s",
      transport: "udp",
    })
    const moved = yield* cameras.updateStream(third.id, { sourceUrl: "rtsp://u:w@camera.example/3s" }, 1)
    assert.deepInclude(moved, {
      sourceUrl: "rtsp://camera.example/3s",
      username: "u",
      hasPassword: true,
      transport: "tcp",
      version: 2,
    })
    assert.strictEqual(media.assignments.get(third.id)!.url, "rtsp://camera.example/3s")
    yield* cameras.removeStream(third.id, 2)
    assert.isFalse(media.assignments.has(third.id))
    yield* cameras.removeChannel(second.id, null)

    const others = yield* Effect.forEach(["B", "C", "D"], (name) => cameras.create({ ...front, name }))
    const ids = [others[2]!.id, made.id]
    const ordered = yield* cameras.reorder(ids)
    assert.deepStrictEqual(ordered.items.map((camera) => camera.name), ["D", "Back door", "B", "C"])
    const page = yield* cameras.list({}, { limit: 3, cursor: null }, "all")
    assert.lengthOf(page.items, 3)
    assert.deepStrictEqual(
      (yield* cameras.list({}, { limit: 3, cursor: page.nextCursor }, "all")).items.map((camera) => camera.name),
      ["C"],
    )
    assert.strictEqual(
      (yield* Effect.flip(cameras.list({}, { limit: 3, cursor: "nonsense" }, "all")))._tag,
      "InvalidCursor",
    )
    assert.deepStrictEqual(
      (yield* cameras.list({ text: "DOOR" }, firstPage, "all")).items.map((camera) => camera.name),
      [
        "Back door",
      ],
    )
    assert.lengthOf((yield* cameras.list({ text: "EXAMPLE:8554" }, firstPage, "all")).items, 4)
    assert.lengthOf((yield* cameras.list({ text: "%" }, firstPage, "all")).items, 0)

    // A state that comes in while its camera is being deleted waits for that; neither is cut off.
    const [leaving] = others
    yield* sql.withTransaction(Effect.gen(function*() {
      yield* sql`SELECT FROM camera WHERE id = ${leaving!.id} FOR UPDATE`
      media.report({ streamId: leaving!.channels[0]!.streams[0]!.id, health: "online" })
      yield* eventually(
        "somebody who waits",
        sql<{ readonly waiting: number }>`SELECT count(*)::int AS waiting FROM pg_locks WHERE NOT granted`,
        ([row]) => row!.waiting > 0,
      )
      // Beyond `deadlock_timeout` of who waits, it is who deletes that would be cut off.
      yield* Effect.sleep("1500 millis")
      yield* sql`DELETE FROM camera WHERE id = ${leaving!.id}`
    }))

    const recording = yield* recordings.create({ channelId: channel!.id })
    assert.strictEqual((yield* Effect.flip(cameras.remove(made.id, null)))._tag, "StillRecorded")
    assert.strictEqual((yield* Effect.flip(cameras.removeChannel(channel!.id, null)))._tag, "StillRecorded")
    assert.strictEqual((yield* Effect.flip(cameras.removeStream(main!.id, null)))._tag, "StillRecorded")
    yield* recordings.remove(recording.id, null)
    yield* cameras.remove(made.id, null)
    assert.isFalse(media.assignments.has(main!.id))
    assert.strictEqual((yield* Effect.flip(cameras.get(made.id)))._tag, "CameraNotFound")
    assert.strictEqual((yield* Effect.flip(cameras.update(made.id, { name: "x" }, null)))._tag, "CameraNotFound")
    assert.strictEqual(
      (yield* Effect.flip(cameras.create({ name: "o", driver: "mobile", host: "h" })))._tag,
      "DriverUnsupported",
    )
  }))
