/**
 * The service `Recordings`: completes and checks what people ask, sends changes to the entity of the recording, and answers
 * what is there and what is missing.
 *
 * Invariants
 * 1. Every send has a time limit (`ask`).
 * 2. An answer about footage comes from one computation (`record-footage.ts`).
 */
import { Cameras } from "#actors/protocol/camera.ts"
import { LicenseGate } from "#actors/protocol/license.ts"
import { RecordingActor, Recordings } from "#actors/protocol/record.ts"
import { RecordStore } from "#actors/store/record.ts"
import { ask } from "#cluster/ask.ts"
import {
  allTime,
  EpochMs,
  type Interval,
  type NodeId,
  type PageRequest,
  RecordingId,
  RecordingToken,
} from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { entityId } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
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
import { Clock, Effect, Layer, Schema } from "effect"
import { lengthOf } from "./record-coverage.ts"
import { checkedInterval, makeFootage } from "./record-footage.ts"

const listCursor = cursorOf("recordings", RecordingId)
const eventCursor = cursorOf("recording-events", Schema.Struct({ timeMs: EpochMs, id: Schema.String }))

const completed = (
  input: RecordingUpdate,
  settings: RecordingSettings,
): Effect.Effect<RecordingChange, RecordingModeUnsupported> => {
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

type Store = RecordStore["Service"]

const finding = (store: Store) => (by: { readonly id: RecordingId } | { readonly token: RecordingToken }) =>
  Effect.flatMap(store.get(by), (found) =>
    found === null ?
      Effect.fail(new RecordingNotFound({ id: "id" in by ? by.id : by.token })) :
      Effect.succeed(found))

const listing = (store: Store) =>
  Effect.fnUntraced(function*(filter: RecordingFilter, request: PageRequest, within: Reach) {
    const after = yield* listCursor.decode(request.cursor)
    const rows = yield* store.list(filter, request.limit + 1, after, within)
    return pageFrom({
      rows,
      limit: request.limit,
      cursor: listCursor,
      position: ({ recording }) => recording.id,
      item: ({ recording }) => recording,
    })
  })

/** What happened to a recording and what it does now. */
const telling = (store: Store, media: Effect.Success<typeof makeFootage>) => {
  const one = finding(store)
  return {
    eventStatus: Effect.fnUntraced(function*(id: RecordingId) {
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
    }),
    eventHistory: Effect.fnUntraced(function*(id: RecordingId, interval: Interval, request: PageRequest) {
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
    }),
  }
}

/** What is stored of a recording. */
const showing = (store: Store, media: Effect.Success<typeof makeFootage>) => {
  const one = finding(store)
  const footage = (token: RecordingToken, interval: Interval) =>
    Effect.flatMap(one({ token }), (found) => media.footage(found, interval))
  return {
    footage,
    holders: (token: RecordingToken, interval: Interval, present: ReadonlySet<NodeId>) =>
      Effect.flatMap(one({ token }), (found) => media.holders(found, interval, present)),
    spans: (token: RecordingToken, interval: Interval) => Effect.map(footage(token, interval), ({ spans }) => spans),
    gaps: (token: RecordingToken, interval: Interval) => Effect.map(footage(token, interval), ({ gaps }) => gaps),
    files: Effect.fnUntraced(function*(token: RecordingToken, interval: Interval) {
      const asked = yield* checkedInterval(interval)
      const { recording } = yield* one({ token })
      return yield* media.files(recording.id, asked)
    }),
    bounds: (token: RecordingToken) => Effect.flatMap(one({ token }), ({ recording }) => media.bounds(recording.id)),
    coverage: Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
      const found = yield* one({ id })
      const { expected, gaps, recordingToken, spans } = yield* media.footage(found, interval)
      return {
        recordingToken,
        ...interval,
        expectedMs: expected === null ? 0 : expected.end - expected.start,
        recordedMs: lengthOf(spans),
        missingMs: lengthOf(gaps),
        gaps,
      }
    }),
    refreshPartitions: () => media.usage,
  }
}

const make = Effect.gen(function*() {
  const [store, cameras, clientOf, media] = yield* Effect.all([
    RecordStore,
    Cameras,
    RecordingActor.client,
    makeFootage,
  ])
  const gate = yield* LicenseGate
  const one = finding(store)
  const list = listing(store)
  const owner = (id: RecordingId) => Effect.map(one({ id }), ({ slot }) => clientOf(entityId(slot, id)))

  const create = Effect.fn("Recordings.create")(function*(input: RecordingCreate) {
    yield* gate.mayAdd("recordings")
    const change = yield* completed(input, yield* store.settings())
    const role = input.role ?? "main"
    const { channelId } = input
    const home = yield* Effect.catchTag(
      cameras.homeOf(channelId),
      "ChannelNotFound",
      () => Effect.fail(new RecordingChannelNotFound({ channelId, role })),
    )
    const id = RecordingId.make(yield* uuid7)
    const recordingToken = RecordingToken.make(yield* uuid7)
    const recording = { id, recordingToken, cameraId: home.cameraId, channelId, role, ...change }
    return yield* ask(clientOf(entityId(home.slot, id)).Create({ recording }))
  })
  const update = Effect.fn("Recordings.update")(
    function*(id: RecordingId, input: RecordingUpdate, ifMatch: number | null) {
      const client = yield* owner(id)
      const change = yield* completed(input, yield* store.settings())
      return yield* ask(client.Update({ id, change, ifMatch }))
    },
  )

  return Recordings.of({
    ...telling(store, media),
    ...showing(store, media),
    list,
    get: (id) => Effect.map(one({ id }), ({ recording }) => recording),
    byToken: (token) => Effect.map(one({ token }), ({ recording }) => recording),
    create,
    update,
    toggle: (id, enabled, ifMatch) =>
      Effect.flatMap(owner(id), (client) => ask(client.Toggle({ id, enabled, ifMatch }))),
    remove: (id, ifMatch) => Effect.flatMap(owner(id), (client) => ask(client.Delete({ id, ifMatch }))),
    missing: store.missing,
    settings: store.settings,
    updateSettings: store.updateSettings,
  })
})

export const layer = Layer.effect(Recordings, make)
