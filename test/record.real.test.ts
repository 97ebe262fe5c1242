/** Cameras and recordings on a real PostgreSQL and the real cluster engine; the media doors are stand-ins. */
import { NodeFileSystem } from "@effect/platform-node"
import { assert, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Redacted, Schedule, Scope } from "effect"
import { SqlClient } from "effect/sql"
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as CameraActivation from "#actors/behaviour/camera-activation.ts"
import * as CameraEntity from "#actors/behaviour/camera-entity.ts"
import * as CameraStates from "#actors/behaviour/camera-status.ts"
import * as CameraBehaviour from "#actors/behaviour/camera.ts"
import * as RecordEntity from "#actors/behaviour/record-entity.ts"
import * as RecordLedgerBehaviour from "#actors/behaviour/record-ledger.ts"
import * as RecordPlans from "#actors/behaviour/record-plan.ts"
import { purge } from "#actors/behaviour/record-purge.ts"
import * as RecordStates from "#actors/behaviour/record-status.ts"
import * as RecordBehaviour from "#actors/behaviour/record.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { RecordLedger, Recordings } from "#actors/protocol/record.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import * as Identity from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import * as Cluster from "#cluster/sharding.ts"
import * as Vaults from "#cluster/vault.ts"
import * as Database from "#ops/database.ts"
import { EmbeddedPostgres, layer as postgresLayer } from "#ops/host/postgres.ts"
import type { CameraCreate } from "#schema/camera.ts"
import { ChannelId, RecordingId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { type FakeMedia, fakeMedia, footageFile } from "./record-fixtures.ts"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-record-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

/** A server that can be stopped and started again at the same address. */
const server = Effect.gen(function*() {
  const dataFolder = yield* folder
  let scope: Scope.Closeable | null = null
  const start = Effect.gen(function*() {
    scope = yield* Scope.make()
    const context = yield* Layer.buildWithScope(postgresLayer({ dataFolder, copies: join(dataFolder, "copies") }), scope)
    return yield* Context.get(context, EmbeddedPostgres).url
  })
  const stop = Effect.suspend(() => scope === null ? Effect.void : Scope.close(scope, Exit.void)).pipe(
    Effect.tap(Effect.sync(() => scope = null)),
  )
  yield* Effect.addFinalizer(() => stop)
  return { start, stop }
})

/** The control layer of a node. */
const node = Effect.fnUntraced(function*(options: { readonly url: Redacted.Redacted; readonly dataFolder: string; readonly media: FakeMedia; readonly quiet?: boolean }) {
  mkdirSync(options.dataFolder, { recursive: true })
  const background = options.quiet === true
    ? Layer.mergeAll(CameraEntity.layer, RecordEntity.layer)
    : Layer.mergeAll(CameraEntity.layer, RecordEntity.layer, CameraActivation.layer, CameraStates.layer, RecordStates.layer)
  const services = background.pipe(
    Layer.provideMerge(RecordBehaviour.layer),
    Layer.provideMerge(CameraBehaviour.layer),
    Layer.provideMerge(Layer.mergeAll(RecordPlans.layer, RecordLedgerBehaviour.layer)),
    Layer.provideMerge(Layer.mergeAll(CameraStore.layer, RecordStore.layer, RecordLedgerStore.layer)),
    Layer.provideMerge(Cluster.layer({ name: "test", host: "127.0.0.1", port: 0, allowPublic: false })),
    Layer.provideMerge(Database.layer({ url: options.url, applicationName: "test", maxConnections: 8 })),
    Layer.provideMerge(options.media.layer),
    Layer.provideMerge(Identity.layer({ dataFolder: options.dataFolder })),
    Layer.provideMerge(Vaults.layer({ dataFolder: options.dataFolder, masterKey: null })),
    Layer.provide(NodeFileSystem.layer),
  )
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const context = yield* Layer.buildWithScope(services, scope)
  return {
    context,
    cameras: Context.get(context, Cameras),
    recordings: Context.get(context, Recordings),
    ledger: Context.get(context, RecordLedger),
    ownership: Context.get(context, Ownership),
    sql: Context.get(context, SqlClient.SqlClient),
    end: Scope.close(scope, Exit.void),
  }
})

const eventually = <A, E, R>(what: string, effect: Effect.Effect<A, E, R>, holds: (value: A) => boolean) =>
  effect.pipe(
    Effect.repeat({ schedule: Schedule.spaced("50 millis"), until: holds }),
    Effect.timeoutOrElse({ duration: "30 seconds", orElse: () => Effect.die(new Error(`never came: ${what}`)) }),
  )

const front: CameraCreate = {
  name: "Front door",
  driver: "rtsp",
  username: "admin",
  password: Redacted.make("camera secret"),
  streams: [
    { role: "main", sourceUrl: "rtsp://camera.example:8554/main" },
    { role: "sub", sourceUrl: "rtsp://viewer:p%40ss@camera.example:8554/sub" },
  ],
}
const firstPage = { limit: 100, cursor: null }

it.live("a camera: sealed secrets, states, versions, order, pages, deletion", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const media = fakeMedia()
    const { cameras, recordings, sql } = yield* node({ url: yield* postgres.start, dataFolder: yield* folder, media })

    const made = yield* cameras.create(front)
    assert.deepInclude(made, { name: "Front door", driver: "rtsp", status: "registered", username: "admin", hasPassword: true, version: 1 })
    const [channel] = made.channels
    const [main, sub] = channel!.streams
    assert.deepInclude(main, { role: "main", codec: null, width: null, hasPassword: false, username: null })
    assert.deepInclude(sub, { sourceUrl: "rtsp://camera.example:8554/sub", username: "viewer", hasPassword: true })
    const dump = JSON.stringify([yield* sql`SELECT * FROM camera`, yield* sql`SELECT * FROM camera_stream`])
    assert.notInclude(dump, "camera secret")
    assert.notInclude(dump, "p@ss")

    const assigned = media.assignments.get(main!.id)!
    assert.deepInclude(assigned, { url: "rtsp://camera.example:8554/main", username: "admin", epoch: 1, enabled: true, recording: null })
    assert.strictEqual(Redacted.value(assigned.password!), "camera secret")
    assert.strictEqual(Redacted.value(media.assignments.get(sub!.id)!.password!), "p@ss")

    media.report({
      streamId: main!.id,
      health: "online",
      parameters: {
        video: { codec: "h264", width: 1920, height: 1080, codecs: "avc1.640028", vps: new Uint8Array(), sps: new Uint8Array(), pps: new Uint8Array() },
        audio: null,
      },
    })
    media.report({ streamId: sub!.id, health: "authFailed", reason: "401 Unauthorized" })
    const seen = yield* eventually("its state", cameras.get(made.id), (camera) => camera.status === "degraded")
    assert.deepInclude(seen, { reason: "401 Unauthorized", version: 1 })
    assert.deepInclude(seen.channels[0]!.streams[0], { codec: "h264", width: 1920, height: 1080, status: "online" })
    assert.lengthOf((yield* cameras.list({ status: "degraded" }, firstPage)).items, 1)
    assert.lengthOf((yield* cameras.list({ status: "online" }, firstPage)).items, 0)

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

    const second = yield* cameras.addChannel(made.id, { name: "Garden", streams: [{ role: "main", sourceUrl: "rtsp://camera.example/2" }] })
    assert.deepInclude(second, { number: 2, name: "Garden" })
    assert.strictEqual((yield* Effect.flip(cameras.addStream(second.id, { role: "main", sourceUrl: "rtsp://x/" })))._tag, "StreamExists")
    const third = yield* cameras.addStream(second.id, { role: "sub", sourceUrl: "rtsp://camera.example/2s", transport: "udp" })
    const moved = yield* cameras.updateStream(third.id, { sourceUrl: "rtsp://u:w@camera.example/3s" }, 1)
    assert.deepInclude(moved, { sourceUrl: "rtsp://camera.example/3s", username: "u", hasPassword: true, transport: "tcp", version: 2 })
    assert.strictEqual(media.assignments.get(third.id)!.url, "rtsp://camera.example/3s")
    yield* cameras.removeStream(third.id, 2)
    assert.isFalse(media.assignments.has(third.id))
    yield* cameras.removeChannel(second.id, null)

    const others = yield* Effect.forEach(["B", "C", "D"], (name) => cameras.create({ ...front, name }))
    const ids = [others[2]!.id, made.id]
    const ordered = yield* cameras.reorder(ids)
    assert.deepStrictEqual(ordered.items.map((camera) => camera.name), ["D", "Back door", "B", "C"])
    const page = yield* cameras.list({}, { limit: 3, cursor: null })
    assert.lengthOf(page.items, 3)
    assert.deepStrictEqual((yield* cameras.list({}, { limit: 3, cursor: page.nextCursor })).items.map((camera) => camera.name), ["C"])
    assert.strictEqual((yield* Effect.flip(cameras.list({}, { limit: 3, cursor: "nonsense" })))._tag, "InvalidCursor")
    assert.deepStrictEqual((yield* cameras.list({ text: "DOOR" }, firstPage)).items.map((camera) => camera.name), ["Back door"])
    assert.lengthOf((yield* cameras.list({ text: "EXAMPLE:8554" }, firstPage)).items, 4)
    assert.lengthOf((yield* cameras.list({ text: "%" }, firstPage)).items, 0)

    const recording = yield* recordings.create({ channelId: channel!.id })
    assert.strictEqual((yield* Effect.flip(cameras.remove(made.id, null)))._tag, "StillRecorded")
    assert.strictEqual((yield* Effect.flip(cameras.removeChannel(channel!.id, null)))._tag, "StillRecorded")
    assert.strictEqual((yield* Effect.flip(cameras.removeStream(main!.id, null)))._tag, "StillRecorded")
    yield* recordings.remove(recording.id, null)
    yield* cameras.remove(made.id, null)
    assert.isFalse(media.assignments.has(main!.id))
    assert.strictEqual((yield* Effect.flip(cameras.get(made.id)))._tag, "CameraNotFound")
    assert.strictEqual((yield* Effect.flip(cameras.update(made.id, { name: "x" }, null)))._tag, "CameraNotFound")
    assert.strictEqual((yield* Effect.flip(cameras.create({ name: "o", driver: "onvif", host: "h" })))._tag, "DriverUnsupported")
  }))

it.live("a recording: plan, toggle, footage from the disk, deletion with its footage", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const media = fakeMedia()
    const { cameras, context, ownership, recordings, sql } = yield* node({ url: yield* postgres.start, dataFolder: yield* folder, media })
    const camera = yield* cameras.create(front)
    const channel = camera.channels[0]!
    const stream = channel.streams[0]!

    const recording = yield* recordings.create({ channelId: channel.id, retentionDays: 7 })
    assert.deepInclude(recording, { cameraId: camera.id, role: "main", mode: "continuous", enabled: true, state: "waiting", retentionDays: 7 })
    assert.deepInclude(media.assignments.get(stream.id)!.recording, { recordingId: recording.id, enabled: true, retentionDays: 7 })
    assert.strictEqual((yield* Effect.flip(recordings.create({ channelId: channel.id })))._tag, "RecordingExists")
    assert.strictEqual((yield* Effect.flip(recordings.create({ channelId: channel.id, role: "sub", mode: "event" })))._tag, "RecordingModeUnsupported")
    const nowhere = ChannelId.make(yield* uuid7)
    assert.strictEqual((yield* Effect.flip(recordings.create({ channelId: nowhere })))._tag, "RecordingChannelNotFound")

    media.report({ streamId: stream.id, health: "online", recordingState: "recording" })
    yield* eventually("its state", recordings.get(recording.id), ({ state }) => state === "recording")
    const off = yield* recordings.toggle(recording.id, null, null)
    assert.deepInclude(off, { enabled: false, state: "disabled", version: 2 })
    assert.isFalse(media.assignments.get(stream.id)!.recording!.enabled)
    assert.strictEqual((yield* Effect.flip(recordings.toggle(recording.id, true, 1)))._tag, "VersionConflict")
    yield* recordings.update(recording.id, { maxBytes: 1e9 }, 2)
    assert.deepInclude(media.assignments.get(stream.id)!.recording, { enabled: true, maxBytes: 1e9, retentionDays: 30 })

    const at = recording.createdAt
    const of = { recordingId: recording.id, recordingToken: recording.recordingToken, streamId: stream.id, channelId: channel.id, nodeId: ownership.nodeId }
    media.files.push(footageFile(of, "f1", at + 2000, at + 60_000), footageFile(of, "f2", at + 70_000, at + 90_000, false))
    media.gaps.push({ id: "g1", recordingId: recording.id, startMs: at + 60_000, endMs: at + 70_000, cause: "camera_offline", detail: "refused" })
    const coverage = yield* recordings.coverage(recording.id, { start: at - 5000, end: at + 1e9 })
    assert.deepInclude(coverage, { expectedMs: 90_000, recordedMs: 78_000, missingMs: 12_000 })
    assert.deepStrictEqual(coverage.gaps, [
      { start: at, end: at + 2000, cause: "starting" },
      { start: at + 60_000, end: at + 70_000, cause: "camera_offline" },
    ])
    assert.strictEqual((yield* Effect.flip(recordings.coverage(recording.id, { start: at, end: at })))._tag, "InvalidInput")
    assert.deepStrictEqual(yield* recordings.bounds(recording.recordingToken), { oldestMs: at + 2000, newestMs: at + 90_000 })
    assert.deepStrictEqual((yield* recordings.files(recording.recordingToken, { start: at, end: at + 65_000 })).map(({ id }) => id), ["f1"])

    const history = yield* recordings.eventHistory(recording.id, { start: 0, end: at + 1e9 }, firstPage)
    assert.deepStrictEqual(history.items.map(({ type }) => type), ["recording.changed", "recording.toggled", "recording.created"])

    yield* recordings.remove(recording.id, null)
    assert.isNull(media.assignments.get(stream.id)!.recording)
    for (const gone of [recordings.get(recording.id), recordings.byToken(recording.recordingToken), recordings.toggle(recording.id, true, null)]) {
      assert.strictEqual((yield* Effect.flip(gone))._tag, "RecordingNotFound")
    }
    assert.lengthOf((yield* recordings.list({}, firstPage)).items, 0)
    yield* Effect.provideContext(purge, context)
    assert.lengthOf(media.files, 0)
    assert.lengthOf(yield* sql`SELECT 1 FROM recording`, 0)
  }))

it.live("the ledger: batches, deletions, retention, epochs, an outage of minutes, an overflow", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const media = fakeMedia()
    const { cameras, ledger, ownership, recordings, sql } = yield* node({ url: yield* postgres.start, dataFolder: yield* folder, media })
    const camera = yield* cameras.create(front)
    const channel = camera.channels[0]!
    const stream = channel.streams[0]!
    const recording = yield* recordings.create({ channelId: channel.id })
    const at = recording.createdAt
    const of = { recordingId: recording.id, recordingToken: recording.recordingToken, streamId: stream.id, channelId: channel.id, nodeId: ownership.nodeId }
    const rows = sql<{ readonly id: string; readonly sealed: boolean }>`SELECT id, sealed FROM segment_file ORDER BY id`
    const gap = { id: "g1", recordingId: recording.id, startMs: at, endMs: null, cause: "camera_offline" as const, detail: "refused" }

    media.write(
      { _tag: "GapOpened", gap, epoch: 1 },
      { _tag: "FileOpened", file: footageFile(of, "f1", at + 1000, at + 1000, false) },
      { _tag: "GapClosed", gap: { ...gap, endMs: at + 1000 }, epoch: 1 },
      { _tag: "FileSealed", file: footageFile(of, "f1", at + 1000, at + 9000) },
      { _tag: "FileOpened", file: footageFile(of, "f2", at + 9000, at + 9000, false) },
      { _tag: "FileOpened", file: footageFile({ ...of, recordingId: RecordingId.make(yield* uuid7) }, "stranger", at, at + 1, false) },
    )
    yield* eventually("an empty journal", Effect.sync(() => media.journal.length), (left) => left === 0)
    assert.deepStrictEqual(yield* rows, [{ id: "f1", sealed: true }, { id: "f2", sealed: false }])
    assert.lengthOf(yield* sql`SELECT 1 FROM recording_gap WHERE end_at IS NOT NULL`, 1)
    const events = yield* recordings.eventHistory(recording.id, { start: 0, end: at + 1e9 }, firstPage)
    assert.includeMembers(events.items.map(({ type }) => type), ["recording.gap.opened", "recording.gap.closed"])

    // A newer owner has written the row: what the older one still has to say of it is refused.
    yield* sql`UPDATE segment_file SET epoch = 2 WHERE id = 'f2'`
    media.write({ _tag: "FileSealed", file: footageFile(of, "f2", at + 9000, at + 99_000) })
    yield* eventually("an empty journal", Effect.sync(() => media.journal.length), (left) => left === 0)
    assert.deepStrictEqual(yield* rows, [{ id: "f1", sealed: true }, { id: "f2", sealed: false }])

    media.write(
      { _tag: "FileDeleted", file: footageFile(of, "f1", at + 1000, at + 9000), reason: "retention" },
      { _tag: "FileOpened", file: footageFile(of, "f3", at + 12_000, at + 20_000) },
      { _tag: "FileDeleted", file: footageFile(of, "f3", at + 12_000, at + 20_000), reason: "missing" },
    )
    yield* eventually("an empty journal", Effect.sync(() => media.journal.length), (left) => left === 0)
    assert.deepStrictEqual(yield* rows, [{ id: "f2", sealed: false }])
    media.files.push(footageFile(of, "f2", at + 9000, at + 11_000), footageFile(of, "f4", at + 20_000, at + 30_000))
    media.report({ streamId: stream.id, health: "online", recordingState: "recording" })
    const coverage = yield* recordings.coverage(recording.id, { start: at, end: at + 1e9 })
    assert.deepInclude(coverage, { expectedMs: 21_000, recordedMs: 12_000 })
    assert.deepStrictEqual(coverage.gaps, [
      { start: at + 11_000, end: at + 12_000, cause: "node_down" },
      { start: at + 12_000, end: at + 20_000, cause: "segment_missing" },
    ])

    // The database goes away; capture goes on and fills the journal; then it catches up, completely.
    const calls = media.calls.length
    yield* postgres.stop
    assert.strictEqual((yield* Effect.flip(recordings.get(recording.id)))._tag, "DependencyUnavailable")
    assert.strictEqual((yield* Effect.flip(cameras.update(camera.id, { name: "x" }, null)))._tag, "DependencyUnavailable")
    for (let n = 0; n < 1200; n++) media.write({ _tag: "FileSealed", file: footageFile(of, `o${n}`, at + 40_000 + n, at + 40_001 + n) })
    yield* Effect.sleep("3 seconds")
    assert.lengthOf(media.journal, 1200)
    assert.deepStrictEqual(media.calls.slice(calls).filter((call) => call.startsWith("withdraw")), [])
    yield* postgres.start
    yield* eventually("an empty journal", Effect.sync(() => media.journal.length), (left) => left === 0)
    assert.lengthOf(yield* rows, 1201)

    // An overflow: what the journal lost is taken from the disk, and what the disk has lost from the index.
    media.files.push(footageFile(of, "p1", at + 90_000, at + 95_000))
    media.gaps.push({ ...gap, id: "g9", startMs: at + 80_000, endMs: at + 90_000, cause: "disk_full" })
    media.write({ _tag: "FileOpened", file: footageFile(of, "lost", at + 96_000, at + 97_000) })
    media.overflow()
    media.write({ _tag: "FileOpened", file: footageFile(of, "p2", at + 95_000, at + 95_000, false) })
    yield* eventually("the rebuilt index", rows, (all) => all.some(({ id }) => id === "p1") && all.some(({ id }) => id === "p2"))
    assert.lengthOf(media.journal, 0)
    assert.lengthOf(yield* sql`SELECT 1 FROM recording_gap WHERE id = 'g9'`, 1)

    // Rebuilt from nothing.
    yield* sql`DELETE FROM segment_file`
    yield* sql`DELETE FROM recording_gap`
    const report = yield* ledger.reindex()
    assert.deepInclude(report, { files: media.files.length, removed: 0, unknown: 0 })
    assert.deepStrictEqual((yield* rows).map(({ id }) => id).sort(), media.files.map(({ id }) => id).sort())
  }), 120_000)

it.live("a restart of control stops nothing; what was deleted meanwhile is withdrawn after a successful read", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const url = yield* postgres.start
    const dataFolder = yield* folder
    const media = fakeMedia()
    const first = yield* node({ url, dataFolder, media })
    const kept = yield* first.cameras.create(front)
    const doomed = yield* first.cameras.create({ ...front, name: "Doomed" })
    assert.strictEqual(media.assignments.size, 4)
    yield* first.end
    assert.strictEqual(media.assignments.size, 4)
    assert.deepStrictEqual(media.calls.filter((call) => call.startsWith("withdraw")), [])

    const quiet = yield* node({ url, dataFolder, media, quiet: true })
    yield* quiet.sql`DELETE FROM camera WHERE id = ${doomed.id}`
    yield* quiet.sql`UPDATE camera_stream SET source_url = 'rtsp://elsewhere/' WHERE camera_id = ${kept.id}`
    yield* quiet.end
    const second = yield* node({ url, dataFolder, media })
    yield* eventually("the withdrawn captures", Effect.sync(() => media.assignments.size), (size) => size === 2)
    yield* eventually("the changed capture", Effect.sync(() => [...media.assignments.values()]), (all) =>
      all.every((assignment) => assignment.url === "rtsp://elsewhere/" && assignment.cameraId === kept.id))
    assert.strictEqual((yield* second.cameras.get(kept.id)).homeNodeId, second.ownership.nodeId)
    assert.isNotEmpty(readdirSync(dataFolder))
    assert.notInclude(readFileSync(join(dataFolder, "identity.json"), "utf8"), "camera secret")

    // Moved away by another: nothing is written or assigned here any more.
    yield* second.sql`UPDATE group_owner SET epoch = 2`
    const stale = yield* Effect.flip(second.cameras.update(kept.id, { name: "x" }, null))
    assert.strictEqual(stale._tag, "DependencyUnavailable")
    assert.strictEqual((yield* second.cameras.get(kept.id)).name, "Front door")
  }))
