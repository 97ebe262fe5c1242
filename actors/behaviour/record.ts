/**
 * The service `Recordings`: completes and checks what people ask, sends changes to the entity of the recording, and answers
 * what is there and what is missing from the disk of this node and from what other nodes have told the database.
 *
 * Invariants
 * 1. Of its own footage a node's disk and ledger are the truth, never the database: a lag of the journal is seen by nobody.
 * 2. Spans and gaps of one answer come from one computation (`record-coverage.ts`).
 */
import { Clock, Effect, Layer, Schema } from "effect"
import { Cameras } from "#actors/protocol/camera.ts"
import { type Footage, RecordingActor, Recordings } from "#actors/protocol/record.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import type { StoredRecording } from "#actors/store/record-rows.ts"
import { ask } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, EpochMs, type Interval, type PageRequest, RecordingId, RecordingToken } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { entityId } from "#schema/ownership.ts"
import { InvalidInput } from "#schema/problem.ts"
import {
  type RecordingChange,
  RecordingChannelNotFound,
  type RecordingCreate,
  type RecordingFilter,
  RecordingModeUnsupported,
  RecordingNotFound,
  type RecordingSettings,
  type RecordingUpdate,
} from "#schema/record-config.ts"
import { uuid7 } from "#schema/uuid.ts"
import { beginOf, expectedWithin, footageOf, lengthOf } from "./record-coverage.ts"

const listCursor = cursorOf("recordings", RecordingId)
const eventCursor = cursorOf("recording-events", Schema.Struct({ timeMs: EpochMs, id: Schema.String }))

const checkedInterval = (interval: Interval): Effect.Effect<Interval, InvalidInput> =>
  interval.end <= interval.start
    ? Effect.fail(InvalidInput.at("/query/end", "must lie after the start"))
    : Effect.succeed({ start: Math.max(interval.start, allTime.start), end: Math.min(interval.end, allTime.end) })

const completed = (input: RecordingUpdate, settings: RecordingSettings): Effect.Effect<RecordingChange, RecordingModeUnsupported> => {
  const mode = input.mode ?? "continuous"
  if (mode !== "continuous") return Effect.fail(new RecordingModeUnsupported({ mode }))
  return Effect.succeed({
    mode,
    enabled: input.enabled ?? true,
    retentionDays: input.retentionDays ?? settings.defaultRetentionDays,
    maxBytes: input.maxBytes ?? settings.defaultMaxBytes,
    preEventSeconds: input.preEventSeconds ?? 0,
    postEventSeconds: input.postEventSeconds ?? 0,
    schedule: input.schedule ?? null,
  })
}

/** What is stored and missing, from this node's disk and ledger, and from the database for other nodes. */
const makeFootage = Effect.gen(function*() {
  const [ledger, ownership, supervisor, storage] = yield* Effect.all([RecordLedgerStore, Ownership, RecorderSupervisor, Storage])
  const { nodeId } = ownership

  const bounds = Effect.fnUntraced(function*(id: RecordingId) {
    const others = yield* ledger.bounds(id, nodeId)
    const own = storage.files(id, allTime)
    const first = own[0]
    if (first === undefined) return others
    const newestMs = own.reduce((newest, file) => Math.max(newest, file.endMs), 0)
    return {
      oldestMs: Math.min(first.startMs, others?.oldestMs ?? first.startMs),
      newestMs: Math.max(newestMs, others?.newestMs ?? 0),
    }
  })
  /** A fragment was stored in the last seconds; of its own streams this node knows better than the database. */
  const isRecording = ({ recording }: StoredRecording) =>
    Effect.map(supervisor.assignments, (assignments) => {
      const own = assignments.find((assignment) => assignment.recording?.recordingId === recording.id)
      const status = own === undefined ? null : supervisor.status(own.streamId)
      return (status?.recordingState ?? recording.state) === "recording"
    })
  const files = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const told = yield* ledger.footage(id, interval)
    const others = told.files.filter((file) => file.nodeId !== nodeId)
    return [...storage.files(id, interval), ...others].sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1))
  })
  const gaps = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const told = yield* ledger.footage(id, interval)
    const own = supervisor.gaps(id, interval).map((gap) => ({ ...gap, nodeId }))
    const known = new Set(own.map((gap) => gap.id))
    // Of its own gaps the database may not have heard yet that one has ended.
    const rest = told.gaps.filter((gap) => !known.has(gap.id) && (gap.nodeId !== nodeId || gap.endMs !== null))
    return [...own, ...rest]
  })
  const footage = Effect.fnUntraced(function*(of: StoredRecording, interval: Interval) {
    const { recording } = of
    const asked = yield* checkedInterval(interval)
    const [seen, running, nowMs] = yield* Effect.all([bounds(recording.id), isRecording(of), Clock.currentTimeMillis])
    const facts = {
      createdMs: recording.createdAt,
      keptFromMs: of.keptFromMs,
      oldestMs: seen?.oldestMs ?? null,
      newestMs: seen?.newestMs ?? null,
      recording: running,
      nowMs,
    }
    const expected = expectedWithin(asked, facts)
    const known = expected === null ? { spans: [], gaps: [] } : footageOf({
      expected,
      beginMs: beginOf(facts),
      files: yield* files(recording.id, expected),
      gaps: yield* gaps(recording.id, expected),
    })
    return { recordingId: recording.id, recordingToken: recording.recordingToken, expected, ...known } satisfies Footage
  })
  return { bounds, files, gaps, footage, refreshed: storage.usage }
})

const make = Effect.gen(function*() {
  const [store, cameras] = yield* Effect.all([RecordStore, Cameras])
  const clientOf = yield* RecordingActor.client
  const media = yield* makeFootage

  const one = (by: { readonly id: RecordingId } | { readonly token: RecordingToken }) =>
    Effect.flatMap(store.get(by), (found) =>
      found === null ? Effect.fail(new RecordingNotFound({ id: "id" in by ? by.id : by.token })) : Effect.succeed(found))
  const owner = (id: RecordingId) => Effect.map(one({ id }), ({ slot }) => clientOf(entityId(slot, id)))
  const page = Effect.fnUntraced(function*(filter: RecordingFilter, request: PageRequest) {
    const after = yield* listCursor.decode(request.cursor)
    const rows = yield* store.list(filter, request.limit + 1, after)
    return pageFrom({
      rows,
      limit: request.limit,
      cursor: listCursor,
      position: ({ recording }) => recording.id,
      item: ({ recording }) => recording,
    })
  })

  const create = Effect.fn("Recordings.create")(function*(input: RecordingCreate) {
    const change = yield* completed(input, yield* store.settings())
    const role = input.role ?? "main"
    const { channelId } = input
    const home = yield* Effect.catchTag(cameras.homeOf(channelId), "ChannelNotFound", () =>
      Effect.fail(new RecordingChannelNotFound({ channelId, role })))
    const id = RecordingId.make(yield* uuid7)
    const recordingToken = RecordingToken.make(yield* uuid7)
    const recording = { id, recordingToken, cameraId: home.cameraId, channelId, role, ...change }
    return yield* ask(clientOf(entityId(home.slot, id)).Create({ recording }))
  })
  const eventStatus = Effect.fnUntraced(function*(id: RecordingId) {
    const { recording } = yield* one({ id })
    const nowMs = yield* Clock.currentTimeMillis
    const open = (yield* media.gaps(id, { start: nowMs, end: nowMs + 1 })).find((gap) => gap.endMs === null)
    const [lastEvent] = yield* store.events(id, allTime, 1, null)
    return {
      recordingId: id,
      mode: recording.mode,
      state: recording.state,
      eventActive: false,
      openGap: open === undefined ? null : { since: open.startMs, cause: open.cause, detail: open.detail },
      lastEvent: lastEvent ?? null,
    }
  })
  const eventHistory = Effect.fnUntraced(function*(id: RecordingId, interval: Interval, request: PageRequest) {
    const asked = yield* checkedInterval(interval)
    yield* one({ id })
    const after = yield* eventCursor.decode(request.cursor)
    const rows = yield* store.events(id, asked, request.limit + 1, after)
    return pageFrom({
      rows,
      limit: request.limit,
      cursor: eventCursor,
      position: (event) => ({ timeMs: event.time, id: event.id }),
      item: (event) => event,
    })
  })
  const footage = (token: RecordingToken, interval: Interval) =>
    Effect.flatMap(one({ token }), (found) => media.footage(found, interval))
  const coverage = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const { expected, gaps, recordingToken, spans } = yield* Effect.flatMap(one({ id }), (found) => media.footage(found, interval))
    return {
      recordingToken,
      ...interval,
      expectedMs: expected === null ? 0 : expected.end - expected.start,
      recordedMs: lengthOf(spans),
      missingMs: lengthOf(gaps),
      gaps,
    }
  })

  return Recordings.of({
    list: page,
    byChannel: (channelId, request) => page({ channelId }, request),
    get: (id) => Effect.map(one({ id }), ({ recording }) => recording),
    byToken: (token) => Effect.map(one({ token }), ({ recording }) => recording),
    create,
    update: (id, input, ifMatch) =>
      Effect.gen(function*() {
        const client = yield* owner(id)
        const change = yield* completed(input, yield* store.settings())
        return yield* ask(client.Update({ id, change, ifMatch }))
      }),
    toggle: (id, enabled, ifMatch) => Effect.flatMap(owner(id), (client) => ask(client.Toggle({ id, enabled, ifMatch }))),
    remove: (id, ifMatch) => Effect.flatMap(owner(id), (client) => ask(client.Delete({ id, ifMatch }))),
    eventStatus,
    eventHistory,
    settings: store.settings,
    updateSettings: store.updateSettings,
    refreshPartitions: () => media.refreshed,
    coverage,
    footage,
    spans: (token, interval) => Effect.map(footage(token, interval), ({ spans }) => spans),
    gaps: (token, interval) => Effect.map(footage(token, interval), ({ gaps }) => gaps),
    files: (token, interval) =>
      Effect.gen(function*() {
        const asked = yield* checkedInterval(interval)
        const { recording } = yield* one({ token })
        return yield* media.files(recording.id, asked)
      }),
    bounds: (token) => Effect.flatMap(one({ token }), ({ recording }) => media.bounds(recording.id)),
  })
})

export const layer = Layer.effect(Recordings, make)
