/**
 * The store of recordings: configuration, states, events, settings. The index of footage is in `record-ledger.ts`.
 *
 * Invariants
 * 1. What a person changes of a recording is written under the epoch of its slot (`fenced`); a stale owner writes nothing.
 * 2. A recording was created when its id was made: one that is recreated from its footage is as old as it was.
 * 3. A recording that is being deleted is found by nobody but `deleting`, and keeps nothing but its footage.
 */
import type { CameraId, EpochMs, Interval, NodeId, RecordingId, RecordingToken } from "#schema/common.ts"
import type { EventEnvelope } from "#schema/event.ts"
import { recordingThings } from "#schema/federation-journal.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
import { type DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import {
  type NewRecording,
  type RecordingChange,
  RecordingChannelNotFound,
  RecordingExists,
  type RecordingFilter,
  RecordingNotFound,
  type RecordingPlan,
  type RecordingSettings,
  type RecordingSettingsUpdate,
} from "#schema/record-config.ts"
import type { RecordingState } from "#schema/record.ts"
import { uuid7Time } from "#schema/uuid.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { answered, violates } from "./answer.ts"
import { fenced, journaled } from "./fence.ts"
import {
  configurationOf,
  eventOf,
  type EventRow,
  recordingOf,
  type RecordingRow,
  settingsOf,
  type SettingsRow,
  type StoredRecording,
} from "./record-rows.ts"

/** Who writes, and when. */
export interface Writer {
  readonly slot: Slot
  readonly epoch: number
  readonly nowMs: EpochMs
}

/** What happened to a recording, before it is stored; `id` is the same when the same fact is told twice. */
export interface NewEvent {
  readonly id: string
  readonly recordingId: RecordingId
  readonly nodeId: NodeId
  readonly type: string
  readonly timeMs: EpochMs
  readonly data: EventEnvelope["data"]
}

export interface ObservedState {
  readonly recordingId: RecordingId
  readonly state: RecordingState
  readonly reason: string
}

/** Newest first: events older than this one follow. */
export interface EventPosition {
  readonly timeMs: EpochMs
  readonly id: string
}

type Read<A> = Effect.Effect<A, DependencyUnavailable>
type Write<A, E = never> = Effect.Effect<A, E | StaleEpoch | DependencyUnavailable>

export class RecordStore extends Context.Service<RecordStore, {
  /** By id, which is the order of creation; begins behind `after`. */
  readonly list: (
    filter: RecordingFilter,
    limit: number,
    after: RecordingId | null,
    within: Reach,
  ) => Read<ReadonlyArray<StoredRecording>>
  readonly get: (by: { readonly id: RecordingId } | { readonly token: RecordingToken }) => Read<StoredRecording | null>
  /** Of these, those that are not there or are being deleted, as `kind:id`. */
  readonly missing: (ids: ReadonlyArray<RecordingId>) => Read<ReadonlySet<string>>
  /** Of these, those that the database has never heard of: neither there, nor being deleted, nor deleted. */
  readonly strangers: (ids: ReadonlyArray<RecordingId>) => Read<ReadonlySet<RecordingId>>
  readonly plans: (cameraIds: ReadonlyArray<CameraId>) => Read<ReadonlyArray<RecordingPlan>>
  readonly insert: (writer: Writer, recording: NewRecording) => Write<void, RecordingExists | RecordingChannelNotFound>
  readonly update: (
    writer: Writer,
    id: RecordingId,
    change: RecordingChange,
    ifMatch: number | null,
  ) => Write<void, RecordingNotFound | VersionConflict>
  /** `null` flips. */
  readonly toggle: (
    writer: Writer,
    id: RecordingId,
    enabled: boolean | null,
    ifMatch: number | null,
  ) => Write<void, RecordingNotFound | VersionConflict>
  /** From now on nobody finds it; answers the camera it recorded. */
  readonly markDeleted: (
    writer: Writer,
    id: RecordingId,
    ifMatch: number | null,
  ) => Write<CameraId, RecordingNotFound | VersionConflict>
  /** Recordings of these slots whose footage is to be deleted; at most `limit`. */
  readonly deleting: (slots: ReadonlyArray<Slot>, limit: number) => Read<ReadonlyArray<RecordingId>>
  /** Forgets a recording that was marked deleted, with everything that was kept of it. */
  readonly purge: (id: RecordingId) => Read<void>
  /** Answers whose rows there are. */
  readonly observe: (seen: ReadonlyArray<ObservedState>) => Read<ReadonlySet<string>>
  readonly addEvents: (events: ReadonlyArray<NewEvent>) => Read<void>
  readonly events: (
    id: RecordingId,
    interval: Interval,
    limit: number,
    after: EventPosition | null,
  ) => Read<ReadonlyArray<EventEnvelope>>
  /** Deletes events older than the settings say. */
  readonly pruneEvents: (nowMs: EpochMs) => Read<void>
  readonly settings: () => Read<RecordingSettings>
  readonly updateSettings: (
    update: RecordingSettingsUpdate,
    ifMatch: number | null,
  ) => Effect.Effect<RecordingSettings, VersionConflict | DependencyUnavailable>
}>()("nightjar/actors/RecordStore") {
  static readonly layer = Layer.effect(
    RecordStore,
    Effect.map(SqlClient.SqlClient, (sql) =>
      RecordStore.of({ ...reading(sql), ...writing(sql), ...observing(sql), ...configuring(sql) })),
  )
}

const matching = (ifMatch: number | null, version: number) =>
  ifMatch === null || ifMatch === version ?
    Effect.void :
    Effect.fail(new VersionConflict({ message: `It has changed in the meantime and is at version ${version} now.` }))

const reading = (sql: SqlClient.SqlClient) => ({
  list: (filter: RecordingFilter, limit: number, after: RecordingId | null, within: Reach) =>
    answered(Effect.map(
      sql<RecordingRow>`
        SELECT * FROM recording WHERE ${
        sql.and([
          sql`deleted_at IS NULL`,
          ...(filter.cameraId === undefined ? [] : [sql`camera_id = ${filter.cameraId}`]),
          ...(filter.channelId === undefined ? [] : [sql`channel_id = ${filter.channelId}`]),
          ...(filter.state === undefined ?
            [] :
            [sql`CASE WHEN enabled THEN state ELSE 'disabled' END = ${filter.state}`]),
          ...(within === "all" ? [] : [sql`(
            id = ANY (${[...within.recording]}::uuid[]) OR channel_id = ANY (${[...within.channel]}::uuid[])
            OR camera_id = ANY (${[...within.camera]}::uuid[])
          )`]),
          ...(after === null ? [] : [sql`id > ${after}`]),
        ])
      } ORDER BY id LIMIT ${limit}`,
      (rows) => rows.map(recordingOf),
    )),
  get: (by: { readonly id: RecordingId } | { readonly token: RecordingToken }) =>
    answered(Effect.map(
      sql<RecordingRow>`
        SELECT * FROM recording
        WHERE deleted_at IS NULL AND ${"id" in by ? sql`id = ${by.id}` : sql`token = ${by.token}`}`,
      ([row]) => row === undefined ? null : recordingOf(row),
    )),
  missing: (ids: ReadonlyArray<RecordingId>) =>
    ids.length === 0 ? Effect.succeed(new Set<string>()) : answered(Effect.map(
      sql<{ readonly id: string }>`
        SELECT 'recording:' || told.id AS id FROM unnest(${[...ids]}::uuid[]) AS told (id)
        WHERE NOT EXISTS (SELECT 1 FROM recording WHERE recording.id = told.id AND deleted_at IS NULL)`,
      (rows): ReadonlySet<string> => new Set(rows.map((row) => row.id)),
    )),
  plans: (cameraIds: ReadonlyArray<CameraId>): Read<ReadonlyArray<RecordingPlan>> =>
    cameraIds.length === 0 ?
      Effect.succeed([]) :
      answered(
        Effect.map(
          sql<RecordingRow>`SELECT * FROM recording WHERE deleted_at IS NULL AND camera_id IN ${
            sql.in(cameraIds)
          } ORDER BY id`,
          (rows) =>
            rows.map((row) => ({
              recordingId: row.id,
              recordingToken: row.token,
              cameraId: row.camera_id,
              channelId: row.channel_id,
              role: row.role,
              enabled: row.enabled,
              retentionDays: row.retention_days,
              maxBytes: Number(row.max_bytes),
            })),
        ),
      ),
  strangers: (ids: ReadonlyArray<RecordingId>): Read<ReadonlySet<RecordingId>> =>
    ids.length === 0 ? Effect.succeed(new Set()) : answered(Effect.map(
      sql<{ readonly id: RecordingId }>`
        SELECT told.id FROM jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb) AS told (id)
        WHERE NOT EXISTS (SELECT 1 FROM recording WHERE recording.id = told.id::uuid)
          AND NOT EXISTS (SELECT 1 FROM recording_gone WHERE recording_gone.id = told.id::uuid)`,
      (rows) => new Set(rows.map((row) => row.id)),
    )),
  deleting: (slots: ReadonlyArray<Slot>, limit: number): Read<ReadonlyArray<RecordingId>> =>
    slots.length === 0 ? Effect.succeed([]) : answered(Effect.map(
      sql<{ readonly id: RecordingId }>`
        SELECT id FROM recording WHERE deleted_at IS NOT NULL AND slot IN ${
        sql.in(slots)
      } ORDER BY deleted_at LIMIT ${limit}`,
      (rows) => rows.map((row) => row.id),
    )),
  events: (id: RecordingId, interval: Interval, limit: number, after: EventPosition | null) =>
    answered(Effect.map(
      sql<EventRow>`
        SELECT * FROM recording_event
        WHERE recording_id = ${id} AND at >= ${new Date(interval.start)} AND at < ${new Date(interval.end)} AND ${
        after === null ? sql`TRUE` : sql`(at, id) < (${new Date(after.timeMs)}, ${after.id})`
      } ORDER BY at DESC, id DESC LIMIT ${limit}`,
      (rows) => rows.map(eventOf),
    )),
  settings: () =>
    answered(Effect.flatMap(sql<SettingsRow>`SELECT * FROM recording_settings`, ([row]) =>
      row === undefined ?
        Effect.die(new Error("the settings of recordings are missing")) :
        Effect.succeed(settingsOf(row)))),
})

const writing = (sql: SqlClient.SqlClient) => {
  const things = (id: RecordingId) =>
    Effect.map(
      sql<RecordingRow>`SELECT * FROM recording WHERE id = ${id} AND deleted_at IS NULL`,
      (rows) => recordingThings(rows.map(configurationOf)),
    )
  const owned = <A, E>(
    writer: Writer,
    id: RecordingId,
    write: Effect.Effect<A, E | SqlError.SqlError, SqlClient.SqlClient>,
  ) =>
    answered(fenced({ slot: writer.slot, epoch: writer.epoch }, journaled(writer, Effect.succeed(things(id)), write)))
      .pipe(Effect.provideService(SqlClient.SqlClient, sql)) as Effect.Effect<
        A,
        Exclude<E, SqlError.SqlError> | StaleEpoch | DependencyUnavailable
      >
  const locked = (writer: Writer, id: RecordingId, ifMatch: number | null) =>
    Effect.gen(function*() {
      const [row] = yield* sql<{ readonly version: number; readonly camera_id: CameraId }>`
        SELECT version, camera_id FROM recording
        WHERE id = ${id} AND slot = ${writer.slot} AND deleted_at IS NULL FOR UPDATE`
      if (row === undefined) return yield* new RecordingNotFound({ id })
      yield* matching(ifMatch, row.version)
      return row.camera_id
    })
  const touch = (id: RecordingId, nowMs: EpochMs) =>
    sql`UPDATE recording SET version = version + 1, updated_at = ${new Date(nowMs)} WHERE id = ${id}`
  return {
    insert: (writer: Writer, made: NewRecording) =>
      owned(
        writer,
        made.id,
        sql`
        INSERT INTO recording (id, token, slot, camera_id, channel_id, role, mode, enabled, state, reason, retention_days,
          max_bytes, pre_event_seconds, post_event_seconds, schedule, created_at, updated_at, version)
        VALUES (${made.id}, ${made.recordingToken}, ${writer.slot}, ${made.cameraId}, ${made.channelId}, ${made.role},
          ${made.mode}, ${made.enabled}, 'waiting', '', ${made.retentionDays}, ${made.maxBytes}, ${made.preEventSeconds},
          ${made.postEventSeconds}, ${made.schedule === null ? null : JSON.stringify(made.schedule)}::text::jsonb,
          ${new Date(uuid7Time(made.id))}, ${new Date(writer.nowMs)}, 1)`.pipe(
          Effect.mapError((error) => {
            if (violates(error, "recording_stream")) {
              return new RecordingExists({ channelId: made.channelId, role: made.role })
            }
            if (violates(error, "recording_source")) {
              return new RecordingChannelNotFound({ channelId: made.channelId, role: made.role })
            }
            return error
          }),
          Effect.asVoid,
        ),
      ),
    update: (writer: Writer, id: RecordingId, change: RecordingChange, ifMatch: number | null) =>
      owned(
        writer,
        id,
        Effect.gen(function*() {
          yield* locked(writer, id, ifMatch)
          yield* sql`
          UPDATE recording SET mode = ${change.mode}, enabled = ${change.enabled}, retention_days = ${change.retentionDays},
            max_bytes = ${change.maxBytes}, pre_event_seconds = ${change.preEventSeconds},
            post_event_seconds = ${change.postEventSeconds},
            schedule = ${change.schedule === null ? null : JSON.stringify(change.schedule)}::text::jsonb
          WHERE id = ${id}`
          yield* touch(id, writer.nowMs)
        }),
      ),
    toggle: (writer: Writer, id: RecordingId, enabled: boolean | null, ifMatch: number | null) =>
      owned(
        writer,
        id,
        Effect.gen(function*() {
          yield* locked(writer, id, ifMatch)
          if (enabled === null) yield* sql`UPDATE recording SET enabled = NOT enabled WHERE id = ${id}`
          else yield* sql`UPDATE recording SET enabled = ${enabled} WHERE id = ${id}`
          yield* touch(id, writer.nowMs)
        }),
      ),
    markDeleted: (writer: Writer, id: RecordingId, ifMatch: number | null) =>
      owned(
        writer,
        id,
        Effect.gen(function*() {
          const cameraId = yield* locked(writer, id, ifMatch)
          yield* sql`UPDATE recording SET deleted_at = ${new Date(writer.nowMs)}, channel_id = NULL WHERE id = ${id}`
          return cameraId
        }),
      ),
    purge: (id: RecordingId) =>
      answered(Effect.asVoid(sql`DELETE FROM recording WHERE id = ${id} AND deleted_at IS NOT NULL`)),
  }
}

const observing = (sql: SqlClient.SqlClient) => ({
  observe: (seen: ReadonlyArray<ObservedState>) =>
    answered(Effect.map(
      sql<{ readonly id: string }>`
      UPDATE recording SET state = seen.state, reason = seen.reason
      FROM jsonb_to_recordset(${
        JSON.stringify(seen)
      }::text::jsonb) AS seen ("recordingId" uuid, state text, reason text)
      WHERE recording.id = seen."recordingId" RETURNING recording.id`,
      (rows) => new Set(rows.map((row) => row.id)),
    )),
  addEvents: (events: ReadonlyArray<NewEvent>): Read<void> =>
    events.length === 0 ? Effect.void : answered(Effect.asVoid(sql`
      INSERT INTO recording_event (id, recording_id, node_id, type, at, data)
      SELECT e.id, e."recordingId", e."nodeId", e.type, e.at, e.data
      FROM jsonb_to_recordset(${
      JSON.stringify(events.map((event) => ({ ...event, at: new Date(event.timeMs).toISOString() })))
    }::text::jsonb) AS e (id text, "recordingId" uuid, "nodeId" uuid, type text, at timestamptz, data jsonb)
      JOIN recording r ON r.id = e."recordingId"
      ON CONFLICT (id) DO NOTHING`)),
  pruneEvents: (nowMs: EpochMs) =>
    answered(Effect.asVoid(sql`
      DELETE FROM recording_event
      WHERE at < ${new Date(
      nowMs,
    )}::timestamptz - (SELECT event_history_days FROM recording_settings) * INTERVAL '1 day'`)),
})

const configuring = (sql: SqlClient.SqlClient) => ({
  updateSettings: (update: RecordingSettingsUpdate, ifMatch: number | null) =>
    answered(sql.withTransaction(Effect.gen(function*() {
      const [row] = yield* sql<SettingsRow>`SELECT * FROM recording_settings FOR UPDATE`
      if (row === undefined) return yield* Effect.die(new Error("the settings of recordings are missing"))
      yield* matching(ifMatch, row.version)
      const next = { ...settingsOf(row), ...update, version: row.version + 1 }
      yield* sql`
        UPDATE recording_settings SET default_retention_days = ${next.defaultRetentionDays},
          default_max_bytes = ${next.defaultMaxBytes}, event_history_days = ${next.eventHistoryDays}, version = ${next.version}`
      return next
    }))),
})
