/** Recordings and their ledger on a real PostgreSQL and the real cluster engine; the media doors are stand-ins. */
import { purge } from "#actors/behaviour/record-purge.ts"
import { CameraId, ChannelId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { fakeMedia, footageFile } from "./record-fixtures.ts"
import { eventually, firstPage, folder, front, node, server } from "./record-node.ts"

it.live("a recording: plan, toggle, footage from the disk, deletion with its footage", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const media = fakeMedia()
    const { cameras, context, ownership, recordings, sql } = yield* node({
      url: yield* postgres.start,
      dataFolder: yield* folder,
      media,
    })
    const camera = yield* cameras.create(front)
    const channel = camera.channels[0]!
    const stream = channel.streams[0]!

    const recording = yield* recordings.create({ channelId: channel.id, retentionDays: 7 })
    assert.deepInclude(recording, {
      cameraId: camera.id,
      role: "main",
      mode: "continuous",
      enabled: true,
      state: "waiting",
      retentionDays: 7,
    })
    assert.deepInclude(media.assignments.get(stream.id)!.recording, {
      recordingId: recording.id,
      enabled: true,
      retentionDays: 7,
    })
    assert.strictEqual((yield* Effect.flip(recordings.create({ channelId: channel.id })))._tag, "RecordingExists")
    assert.strictEqual(
      (yield* Effect.flip(recordings.create({ channelId: channel.id, role: "sub", mode: "event" })))._tag,
      "RecordingModeUnsupported",
    )
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
    const of = {
      recordingId: recording.id,
      recordingToken: recording.recordingToken,
      streamId: stream.id,
      channelId: channel.id,
      nodeId: ownership.nodeId,
    }
    media.files.push(
      footageFile(of, "f1", at + 2000, at + 60_000),
      footageFile(of, "f2", at + 70_000, at + 90_000, false),
    )
    media.gaps.push({
      id: "g1",
      recordingId: recording.id,
      startMs: at + 60_000,
      endMs: at + 70_000,
      cause: "camera_offline",
      detail: "refused",
    })
    const coverage = yield* recordings.coverage(recording.id, { start: at - 5000, end: at + 1e9 })
    assert.deepInclude(coverage, { expectedMs: 90_000, recordedMs: 78_000, missingMs: 12_000 })
    assert.deepStrictEqual(coverage.gaps, [
      { start: at, end: at + 2000, cause: "starting" },
      { start: at + 60_000, end: at + 70_000, cause: "camera_offline" },
    ])
    assert.strictEqual(
      (yield* Effect.flip(recordings.coverage(recording.id, { start: at, end: at })))._tag,
      "InvalidInput",
    )
    assert.deepStrictEqual(yield* recordings.bounds(recording.recordingToken), {
      oldestMs: at + 2000,
      newestMs: at + 90_000,
    })
    assert.deepStrictEqual(
      (yield* recordings.files(recording.recordingToken, { start: at, end: at + 65_000 })).map(({ id }) => id),
      ["f1"],
    )

    const history = yield* recordings.eventHistory(recording.id, { start: 0, end: at + 1e9 }, firstPage)
    assert.deepStrictEqual(history.items.map(({ type }) => type), [
      "recording.changed",
      "recording.toggled",
      "recording.created",
    ])

    yield* recordings.remove(recording.id, null)
    assert.isNull(media.assignments.get(stream.id)!.recording)
    for (
      const gone of [
        recordings.get(recording.id),
        recordings.byToken(recording.recordingToken),
        recordings.toggle(recording.id, true, null),
      ]
    ) {
      assert.strictEqual((yield* Effect.flip(gone))._tag, "RecordingNotFound")
    }
    assert.lengthOf((yield* recordings.list({}, firstPage, "all")).items, 0)
    yield* Effect.provideContext(purge, context)
    assert.lengthOf(media.files, 0)
    assert.lengthOf(yield* sql`SELECT 1 FROM recording`, 0)
  }))

it.live(
  "the ledger: batches, deletions, retention, epochs, an outage of minutes, an overflow",
  () =>
    Effect.gen(function*() {
      const postgres = yield* server
      const media = fakeMedia()
      const { cameras, ledger, ownership, recordings, sql } = yield* node({
        url: yield* postgres.start,
        dataFolder: yield* folder,
        media,
      })
      const camera = yield* cameras.create(front)
      const channel = camera.channels[0]!
      const stream = channel.streams[0]!
      const recording = yield* recordings.create({ channelId: channel.id })
      const at = recording.createdAt
      const of = {
        recordingId: recording.id,
        recordingToken: recording.recordingToken,
        streamId: stream.id,
        channelId: channel.id,
        nodeId: ownership.nodeId,
      }
      const rows = sql<
        { readonly id: string; readonly sealed: boolean }
      >`SELECT id, sealed FROM segment_file ORDER BY id`
      const gap = {
        id: "g1",
        recordingId: recording.id,
        startMs: at,
        endMs: null,
        cause: "camera_offline" as const,
        detail: "refused",
      }

      media.write(
        { _tag: "GapOpened", gap, epoch: 1 },
        { _tag: "FileOpened", file: footageFile(of, "f1", at + 1000, at + 1000, false) },
        { _tag: "GapClosed", gap: { ...gap, endMs: at + 1000 }, epoch: 1 },
        { _tag: "FileSealed", file: footageFile(of, "f1", at + 1000, at + 9000) },
        { _tag: "FileOpened", file: footageFile(of, "f2", at + 9000, at + 9000, false) },
        {
          _tag: "FileOpened",
          file: footageFile({ ...of, recordingId: RecordingId.make(yield* uuid7) }, "stranger", at, at + 1, false),
        },
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

      media.write({ _tag: "FileDeleted", file: footageFile(of, "f1", at + 1000, at + 9000), reason: "retention" }, {
        _tag: "FileOpened",
        file: footageFile(of, "f3", at + 12_000, at + 20_000),
      }, { _tag: "FileDeleted", file: footageFile(of, "f3", at + 12_000, at + 20_000), reason: "missing" })
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
      assert.strictEqual(
        (yield* Effect.flip(cameras.update(camera.id, { name: "x" }, null)))._tag,
        "DependencyUnavailable",
      )
      for (let n = 0; n < 1200; n++) {
        media.write({ _tag: "FileSealed", file: footageFile(of, `o${n}`, at + 40_000 + n, at + 40_001 + n) })
      }
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
      yield* eventually("the rebuilt index", rows, (all) =>
        all.some(({ id }) => id === "p1") && all.some(({ id }) =>
          id === "p2"
        ))
      assert.lengthOf(media.journal, 0)
      assert.lengthOf(yield* sql`SELECT 1 FROM recording_gap WHERE id = 'g9'`, 1)

      // One more overflow while the entries behind the first are being read.
      media.files.push(footageFile(of, "p3", at + 100_000, at + 101_000))
      media.overflow()
      media.onSecondRead(() => {
        media.files.push(footageFile(of, "p4", at + 101_000, at + 102_000))
        media.overflow()
      })
      media.write({ _tag: "FileOpened", file: footageFile(of, "p5", at + 102_000, at + 102_000, false) })
      yield* eventually("the index rebuilt twice", rows, (all) => all.some(({ id }) => id === "p4"))
      assert.includeMembers((yield* rows).map(({ id }) => id), ["p3", "p4"])

      // Rebuilt from nothing.
      yield* sql`DELETE FROM segment_file`
      yield* sql`DELETE FROM recording_gap`
      const report = yield* ledger.reindex(() => undefined)
      assert.deepInclude(report, { files: media.files.length, removed: 0, unknown: 0 })
      assert.deepStrictEqual((yield* rows).map(({ id }) => id).sort(), media.files.map(({ id }) => id).sort())
    }),
  120_000,
)

it.live("a database that knows nothing of what is recorded stops none of it", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const url = yield* postgres.start
    const dataFolder = yield* folder
    const media = fakeMedia()
    const first = yield* node({ url, dataFolder, media })
    const camera = yield* first.cameras.create(front)
    const recording = yield* first.recordings.create({ channelId: camera.channels[0]!.id })
    const before = new Map(media.assignments)
    yield* first.end

    // As a backup from before the recording was made has it, then one from before the camera was.
    for (const table of ["recording", "camera"] as const) {
      const quiet = yield* node({ url, dataFolder, media, quiet: true })
      yield* quiet.sql`DELETE FROM ${quiet.sql(table)}`
      yield* quiet.sql`DELETE FROM recording_gone`
      yield* quiet.sql`DELETE FROM camera_gone`
      yield* quiet.end
      const calls = media.calls.length
      const next = yield* node({ url, dataFolder, media })
      // A camera that is known is started by the first round; of one that is not, nothing can be seen to happen.
      yield* table === "camera" ?
        Effect.sleep("1 second") :
        eventually("its start", Effect.sync(() => media.calls.length), (now) => now >= calls + 2)
      yield* next.end
      assert.deepStrictEqual(media.assignments, before)
    }
    assert.deepStrictEqual(media.calls.filter((call) => call.startsWith("withdraw")), [])
    assert.strictEqual([...before.values()].filter((one) => one.recording?.recordingId === recording.id).length, 1)
  }))

it.live("an older backup of the database is brought up to date by itself", () =>
  Effect.gen(function*() {
    const postgres = yield* server
    const url = yield* postgres.start
    const dataFolder = yield* folder
    const media = fakeMedia()
    const first = yield* node({ url, dataFolder, media })
    const { nodeId, slot } = first.ownership
    const camera = yield* first.cameras.create(front)
    const channel = camera.channels[0]!
    // Taken over and given back: captures have a later epoch than the backup knows.
    yield* first.ownership.move(slot, nodeId, 1)
    yield* eventually("the new epoch", Effect.sync(() => [...media.assignments.values()]), (all) =>
      all.length === 2 && all.every(({ epoch }) =>
        epoch === 2
      ))
    const recording = yield* first.recordings.create({ channelId: channel.id, retentionDays: 12 })
    const of = {
      recordingId: recording.id,
      recordingToken: recording.recordingToken,
      streamId: channel.streams.find(({ role }) => role === "main")!.id,
      channelId: channel.id,
      nodeId,
      epoch: 2,
    }
    const at = recording.createdAt
    const shed = {
      cameraId: CameraId.make(yield* uuid7),
      cameraName: "Shed",
      channelName: "Gate",
      role: "main" as const,
    }
    const lost = {
      recordingId: RecordingId.make(yield* uuid7),
      recordingToken: RecordingToken.make(yield* uuid7),
      streamId: StreamId.make(yield* uuid7),
      channelId: ChannelId.make(yield* uuid7),
      nodeId,
    }
    media.files.push(footageFile(of, "f1", at, at + 5000), footageFile(lost, "s1", at, at + 5000))
    media.origins.set("s1", shed)
    media.gaps.push({
      id: "g1",
      recordingId: recording.id,
      startMs: at + 5000,
      endMs: at + 6000,
      cause: "camera_frozen",
      detail: "",
    })
    media.write({ _tag: "FileSealed", file: media.files[0]! })
    yield* eventually("an empty journal", Effect.sync(() => media.journal.length), (left) => left === 0)
    const assigned = new Map(media.assignments)
    // The backup is from before the recording: neither it nor what it stored is there, nor was it ever deleted.
    yield* first.sql`DELETE FROM recording`
    yield* first.sql`DELETE FROM recording_gone`
    yield* first.sql`UPDATE recording_journal SET position = position - 1`
    yield* first.sql`UPDATE group_owner SET epoch = 1`
    yield* first.end

    const second = yield* node({ url, dataFolder, media })
    yield* eventually(
      "the rows",
      second.sql<{ readonly id: string }>`SELECT id FROM segment_file ORDER BY id`,
      (rows) => rows.length === 2,
    )
    const back = yield* second.recordings.get(recording.id)
    assert.deepInclude(back, {
      recordingToken: recording.recordingToken,
      createdAt: recording.createdAt,
      enabled: true,
      retentionDays: 12,
    })
    assert.deepInclude(yield* second.recordings.get(lost.recordingId), { enabled: false, cameraId: shed.cameraId })
    assert.deepInclude(yield* second.cameras.get(shed.cameraId), { name: "Shed", enabled: false, status: "disabled" })
    assert.strictEqual(yield* second.ownership.epochOf(slot), 2)
    // The position is the last to be written.
    yield* eventually("the position", second.ledger.position(), (position) => position! >= media.acknowledged())
    assert.lengthOf(yield* second.sql`SELECT 1 FROM recording_gap WHERE id = 'g1'`, 1)
    for (const [id, assignment] of assigned) {
      assert.deepStrictEqual(media.assignments.get(id)!.recording, assignment.recording)
    }
    assert.deepStrictEqual(media.calls.filter((call) => call.startsWith("withdraw")), [])

    // As a job, and again: nothing is left to do; what was deleted stays so.
    yield* second.recordings.remove(lost.recordingId, null)
    const job = yield* second.rebuilds.start()
    const ended = yield* eventually("its end", second.rebuilds.get(job.id), ({ state }) => state !== "running")
    assert.deepInclude(ended, { state: "ready", progress: 1, error: null })
    assert.deepInclude(ended.report, { added: 0, corrected: 0, recordingsRecovered: 0 })
    assert.strictEqual((yield* Effect.flip(second.recordings.get(lost.recordingId)))._tag, "RecordingNotFound")
    assert.strictEqual((yield* Effect.flip(second.rebuilds.get(yield* uuid7)))._tag, "IndexRebuildNotFound")
  }))

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
    yield* eventually(
      "the changed capture",
      Effect.sync(() => [...media.assignments.values()]),
      (all) => all.every((assignment) => assignment.url === "rtsp://elsewhere/" && assignment.cameraId === kept.id),
    )
    assert.strictEqual((yield* second.cameras.get(kept.id)).homeNodeId, second.ownership.nodeId)
    assert.isNotEmpty(readdirSync(dataFolder))
    assert.notInclude(readFileSync(join(dataFolder, "identity.json"), "utf8"), "camera secret")

    // Moved away by another: nothing is written or assigned here any more.
    yield* second.sql`UPDATE group_owner SET epoch = 2`
    const stale = yield* Effect.flip(second.cameras.update(kept.id, { name: "x" }, null))
    assert.strictEqual(stale._tag, "DependencyUnavailable")
    assert.strictEqual((yield* second.cameras.get(kept.id)).name, "Front door")
  }))
