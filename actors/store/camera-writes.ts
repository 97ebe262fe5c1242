/** Writing cameras: see `camera.ts`. */
import type {
  CameraChange,
  CameraInformation,
  NewCamera,
  NewChannel,
  NewStream,
  StreamChange,
} from "#schema/camera-change.ts"
import { movedSourceUrl } from "#schema/camera-url.ts"
import {
  CameraNotFound,
  ChannelNotFound,
  ChannelsExhausted,
  maxChannels,
  statusOf,
  StillRecorded,
  StreamExists,
  StreamNotFound,
} from "#schema/camera.ts"
import type { CameraId, ChannelId, EpochMs, StreamId } from "#schema/common.ts"
import type { StaleEpoch } from "#schema/ownership.ts"
import { type DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { uuid7Time } from "#schema/uuid.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { answered, violates } from "./answer.ts"
import { effectiveStatus, type Observation, type StreamRow, type Writer } from "./camera-rows.ts"
import { cameraThings } from "./camera-things.ts"
import { fenced, journaled } from "./fence.ts"

/** Rows of the record slice hold on to the stream they record by this constraint. */
const recordingConstraint = "recording_source"

/** Observations written by one statement: streams of some 250 cameras; more go in several. */
const observationBatch = 500

const nothingTold: CameraInformation = { manufacturer: null, model: null, firmware: null, serial: null }

const matching = (ifMatch: number | null, version: number) =>
  ifMatch === null || ifMatch === version ?
    Effect.void :
    Effect.fail(new VersionConflict({ message: `It has changed in the meantime and is at version ${version} now.` }))

/** A part of a camera that is gone, or that is another owner's, is not there. */
const gone = <E>(instead: E) => (error: CameraNotFound | SqlError.SqlError): E | SqlError.SqlError =>
  error._tag === "CameraNotFound" ? instead : error

/**
 * Statements that several writes are made of. They run inside a transaction, and each locks the camera before its channels and streams: who
 * began with a stream would wait for whoever deletes the camera, and he for him.
 */
const statements = (sql: SqlClient.SqlClient) => {
  const lockCamera = (writer: Writer, id: CameraId) =>
    Effect.gen(function*() {
      const [row] = yield* sql<{ readonly version: number }>`
        SELECT version FROM camera WHERE id = ${id} AND slot = ${writer.slot} FOR UPDATE`
      if (row === undefined) return yield* new CameraNotFound({ id })
      return row.version
    })
  const lockChannel = (writer: Writer, id: ChannelId) =>
    Effect.gen(function*() {
      const [home] = yield* sql<{ readonly id: CameraId }>`
        SELECT camera_id AS id FROM camera_channel WHERE id = ${id}`
      if (home === undefined) return yield* new ChannelNotFound({ id })
      yield* Effect.mapError(lockCamera(writer, home.id), gone(new ChannelNotFound({ id })))
      const [row] = yield* sql<{ readonly version: number }>`
        SELECT version FROM camera_channel WHERE id = ${id} FOR UPDATE`
      if (row === undefined) return yield* new ChannelNotFound({ id })
      return { cameraId: home.id, version: row.version }
    })
  const lockStream = (writer: Writer, id: StreamId) =>
    Effect.gen(function*() {
      const [home] = yield* sql<{ readonly id: CameraId }>`
        SELECT camera_id AS id FROM camera_stream WHERE id = ${id}`
      if (home === undefined) return yield* new StreamNotFound({ id })
      yield* Effect.mapError(lockCamera(writer, home.id), gone(new StreamNotFound({ id })))
      const [row] = yield* sql<{ readonly channel_id: ChannelId; readonly version: number }>`
        SELECT channel_id, version FROM camera_stream WHERE id = ${id} FOR UPDATE`
      if (row === undefined) return yield* new StreamNotFound({ id })
      return { cameraId: home.id, channelId: row.channel_id, version: row.version }
    })
  const touchChannel = (id: ChannelId, nowMs: EpochMs) =>
    sql`UPDATE camera_channel SET version = version + 1, updated_at = ${new Date(nowMs)} WHERE id = ${id}`
  /** What a camera's streams amount to now. */
  const refreshStatus = (id: CameraId) =>
    Effect.gen(function*() {
      const rows = yield* sql<Pick<StreamRow, "status" | "reason"> & { readonly wanted: boolean }>`
        SELECT s.status, s.reason, c.enabled AND h.active AND s.enabled AS wanted
        FROM camera_stream s JOIN camera_channel h ON h.id = s.channel_id JOIN camera c ON c.id = h.camera_id
        WHERE c.id = ${id} ORDER BY h.number, s.role`
      const { reason, status } = statusOf(rows.map((row) => effectiveStatus(row, row.wanted)))
      yield* sql`UPDATE camera SET status = ${status}, reason = ${reason} WHERE id = ${id}`
    })
  const touchCamera = (id: CameraId, nowMs: EpochMs) =>
    Effect.andThen(
      sql`
        UPDATE camera SET version = version + 1, updated_at = ${new Date(nowMs)}, search_text = camera_search_text(id)
        WHERE id = ${id}`,
      refreshStatus(id),
    )
  const insertStream = (nowMs: EpochMs, cameraId: CameraId, channelId: ChannelId, stream: NewStream) =>
    sql`
      INSERT INTO camera_stream (id, camera_id, channel_id, role, source_url, transport, enabled, on_demand, username,
        sealed_password,
        status, reason, created_at, updated_at, version)
      VALUES (${stream.id}, ${cameraId}, ${channelId}, ${stream.role}, ${stream.sourceUrl}, ${stream.transport},
        ${stream.enabled}, ${
      stream.onDemand ?? false
    }, ${stream.username}, ${stream.sealedPassword}, 'registered', '', ${new Date(nowMs)},
        ${new Date(nowMs)}, 1)`
  const insertChannel = (nowMs: EpochMs, cameraId: CameraId, channel: NewChannel, number: number) =>
    Effect.gen(function*() {
      yield* sql`
        INSERT INTO camera_channel (id, camera_id, number, name, active, created_at, updated_at, version)
        VALUES (${channel.id}, ${cameraId}, ${number}, ${channel.name ?? `Channel ${number}`}, ${channel.active},
          ${new Date(nowMs)}, ${new Date(nowMs)}, 1)`
      yield* Effect.forEach(channel.streams, (stream) => insertStream(nowMs, cameraId, channel.id, stream), {
        discard: true,
      })
    })
  /** To another host or port; streams on its old host go with it. */
  const moveCamera = Effect.fnUntraced(
    function*(id: CameraId, to: { readonly host: string; readonly port: number }, nowMs: EpochMs) {
      const [row] = yield* sql<{ readonly host: string | null }>`SELECT host FROM camera WHERE id = ${id}`
      yield* sql`UPDATE camera SET host = ${to.host}, port = ${to.port} WHERE id = ${id}`
      const streams = yield* sql<Pick<StreamRow, "id" | "channel_id" | "source_url">>`
        SELECT id, channel_id, source_url FROM camera_stream WHERE camera_id = ${id}`
      for (const stream of streams) {
        const url = movedSourceUrl(stream.source_url, row?.host ?? "", to.host)
        if (url === stream.source_url) continue
        yield* sql`
          UPDATE camera_stream SET source_url = ${url}, version = version + 1, updated_at = ${new Date(nowMs)}
          WHERE id = ${stream.id}`
        yield* touchChannel(stream.channel_id, nowMs)
      }
    },
  )
  return {
    lockCamera,
    lockChannel,
    lockStream,
    touchChannel,
    touchCamera,
    refreshStatus,
    insertStream,
    insertChannel,
    moveCamera,
  }
}

/** A delete that the record slice forbids says so, instead of failing as a broken constraint. */
const unlessRecorded = <A, R>(id: string, write: Effect.Effect<A, SqlError.SqlError, R>) =>
  Effect.catchTag(
    write,
    "SqlError",
    (error) => Effect.fail(violates(error, recordingConstraint) ? new StillRecorded({ id }) : error),
  )

/** Which camera a write may change, as it is named. */
type Place = { readonly cameraId: CameraId } | { readonly channelId: ChannelId } | { readonly streamId: StreamId }

type Owned = <A, E>(
  writer: Writer,
  place: Place,
  write: Effect.Effect<A, E | SqlError.SqlError, SqlClient.SqlClient>,
) => Effect.Effect<A, Exclude<E, SqlError.SqlError> | StaleEpoch | DependencyUnavailable>

const ofCameras = (sql: SqlClient.SqlClient, parts: ReturnType<typeof statements>, owned: Owned) => ({
  insert: (writer: Writer, camera: NewCamera) =>
    owned(
      writer,
      { cameraId: camera.id },
      Effect.gen(function*() {
        const now = new Date(writer.nowMs)
        // One that is recreated from its footage is as old as it was.
        const made = new Date(uuid7Time(camera.id))
        const told = camera.information ?? nothingTold
        yield* sql`
        INSERT INTO camera (id, slot, home_node_id, name, description, driver, host, port, enabled, username,
          sealed_password, tags, manufacturer, model, firmware, serial, position, status, reason, created_at, updated_at, version)
        SELECT ${camera.id}::text::uuid, ${writer.slot}, ${camera.homeNodeId}::text::uuid, ${camera.name},
          ${camera.description}, ${camera.driver}, ${camera.host}::text, ${camera.port}::integer, ${camera.enabled},
          ${camera.username}, ${camera.sealedPassword}, ${[...(camera.tags ?? [])]}::text[], ${told.manufacturer}::text,
          ${told.model}::text, ${told.firmware}::text, ${told.serial}::text,
          coalesce(max(position) + 1, 0), 'registered', '', ${made}, ${now}, 1 FROM camera`
        yield* Effect.forEach(
          camera.channels,
          (channel, index) => parts.insertChannel(writer.nowMs, camera.id, channel, index + 1),
          { discard: true },
        )
        yield* sql`UPDATE camera SET search_text = camera_search_text(id) WHERE id = ${camera.id}`
        yield* parts.refreshStatus(camera.id)
      }),
    ),
  update: (writer: Writer, id: CameraId, change: CameraChange, ifMatch: number | null) =>
    owned(
      writer,
      { cameraId: id },
      Effect.gen(function*() {
        yield* matching(ifMatch, yield* parts.lockCamera(writer, id))
        yield* sql`
        UPDATE camera SET name = ${change.name}, description = ${change.description}, enabled = ${change.enabled}
        WHERE id = ${id}`
        if (change.tags !== undefined) yield* sql`UPDATE camera SET tags = ${[...change.tags]}::text[] WHERE id = ${id}`
        if (change.username !== undefined) yield* sql`UPDATE camera SET username = ${change.username} WHERE id = ${id}`
        if (change.sealedPassword !== undefined) {
          yield* sql`UPDATE camera SET sealed_password = ${change.sealedPassword} WHERE id = ${id}`
        }
        if (change.endpoint !== undefined) yield* parts.moveCamera(id, change.endpoint, writer.nowMs)
        yield* parts.touchCamera(id, writer.nowMs)
      }),
    ),
  remove: (writer: Writer, id: CameraId, ifMatch: number | null) =>
    owned(
      writer,
      { cameraId: id },
      Effect.andThen(
        Effect.flatMap(parts.lockCamera(writer, id), (version) => matching(ifMatch, version)),
        Effect.asVoid(unlessRecorded(id, sql`DELETE FROM camera WHERE id = ${id}`)),
      ),
    ),
  reorder: (ids: ReadonlyArray<CameraId>) =>
    answered(sql.withTransaction(Effect.gen(function*() {
      // Everybody's place changes, so one order at a time; readers are not held up.
      yield* sql`LOCK TABLE camera IN SHARE ROW EXCLUSIVE MODE`
      const rows = yield* sql<{ readonly id: CameraId }>`SELECT id FROM camera ORDER BY position, id`
      const known = new Set(rows.map((row) => row.id))
      const unknown = ids.find((id) => !known.has(id))
      if (unknown !== undefined) return yield* new CameraNotFound({ id: unknown })
      const named = new Set(ids)
      const order = [...ids, ...rows.map((row) => row.id).filter((id) => !named.has(id))]
      yield* sql`
        UPDATE camera SET position = place.position
        FROM jsonb_to_recordset(${JSON.stringify(order.map((id, position) => ({ id, position })))}::text::jsonb)
          AS place (id uuid, position integer)
        WHERE camera.id = place.id AND camera.position <> place.position`
    }))),
})

const ofChannels = (sql: SqlClient.SqlClient, parts: ReturnType<typeof statements>, owned: Owned) => ({
  addChannel: (writer: Writer, id: CameraId, channel: NewChannel) =>
    owned(
      writer,
      { cameraId: id },
      Effect.gen(function*() {
        yield* parts.lockCamera(writer, id)
        const rows = yield* sql<{ readonly number: number }>`
        SELECT number FROM camera_channel WHERE camera_id = ${id} ORDER BY number`
        if (rows.length >= maxChannels) return yield* new ChannelsExhausted({ cameraId: id, limit: maxChannels })
        yield* parts.insertChannel(writer.nowMs, id, channel, (rows.at(-1)?.number ?? 0) + 1)
        yield* parts.touchCamera(id, writer.nowMs)
      }),
    ),
  updateChannel: (
    writer: Writer,
    id: ChannelId,
    change: { readonly name: string | null; readonly active: boolean | null },
    ifMatch: number | null,
  ) =>
    owned(
      writer,
      { channelId: id },
      Effect.gen(function*() {
        const { cameraId, version } = yield* parts.lockChannel(writer, id)
        yield* matching(ifMatch, version)
        if (change.name !== null) yield* sql`UPDATE camera_channel SET name = ${change.name} WHERE id = ${id}`
        if (change.active === null) yield* sql`UPDATE camera_channel SET active = NOT active WHERE id = ${id}`
        else yield* sql`UPDATE camera_channel SET active = ${change.active} WHERE id = ${id}`
        yield* parts.touchChannel(id, writer.nowMs)
        yield* parts.touchCamera(cameraId, writer.nowMs)
      }),
    ),
  removeChannel: (writer: Writer, id: ChannelId, ifMatch: number | null) =>
    owned(
      writer,
      { channelId: id },
      Effect.gen(function*() {
        const { cameraId, version } = yield* parts.lockChannel(writer, id)
        yield* matching(ifMatch, version)
        yield* unlessRecorded(id, sql`DELETE FROM camera_channel WHERE id = ${id}`)
        yield* parts.touchCamera(cameraId, writer.nowMs)
      }),
    ),
})

const ofStreams = (sql: SqlClient.SqlClient, parts: ReturnType<typeof statements>, owned: Owned) => ({
  addStream: (writer: Writer, id: ChannelId, stream: NewStream) =>
    owned(
      writer,
      { channelId: id },
      Effect.gen(function*() {
        const { cameraId } = yield* parts.lockChannel(writer, id)
        const same = yield* sql`SELECT 1 FROM camera_stream WHERE channel_id = ${id} AND role = ${stream.role}`
        if (same.length > 0) return yield* new StreamExists({ channelId: id, role: stream.role })
        yield* parts.insertStream(writer.nowMs, cameraId, id, stream)
        yield* parts.touchChannel(id, writer.nowMs)
        yield* parts.touchCamera(cameraId, writer.nowMs)
      }),
    ),
  updateStream: (writer: Writer, id: StreamId, change: StreamChange, ifMatch: number | null) =>
    owned(
      writer,
      { streamId: id },
      Effect.gen(function*() {
        const { cameraId, channelId, version } = yield* parts.lockStream(writer, id)
        yield* matching(ifMatch, version)
        yield* sql`
        UPDATE camera_stream SET source_url = ${change.sourceUrl}, transport = ${change.transport},
          enabled = ${change.enabled}, version = version + 1, updated_at = ${new Date(writer.nowMs)} WHERE id = ${id}`
        if (change.onDemand !== undefined) {
          yield* sql`UPDATE camera_stream SET on_demand = ${change.onDemand} WHERE id = ${id}`
        }
        if (
          change.username !== undefined
        ) yield* sql`UPDATE camera_stream SET username = ${change.username} WHERE id = ${id}`
        if (change.sealedPassword !== undefined) {
          yield* sql`UPDATE camera_stream SET sealed_password = ${change.sealedPassword} WHERE id = ${id}`
        }
        yield* parts.touchChannel(channelId, writer.nowMs)
        yield* parts.touchCamera(cameraId, writer.nowMs)
      }),
    ),
  removeStream: (writer: Writer, id: StreamId, ifMatch: number | null) =>
    owned(
      writer,
      { streamId: id },
      Effect.gen(function*() {
        const { cameraId, channelId, version } = yield* parts.lockStream(writer, id)
        yield* matching(ifMatch, version)
        yield* unlessRecorded(id, sql`DELETE FROM camera_stream WHERE id = ${id}`)
        yield* parts.touchChannel(channelId, writer.nowMs)
        yield* parts.touchCamera(cameraId, writer.nowMs)
      }),
    ),
})

const observing =
  (sql: SqlClient.SqlClient, parts: ReturnType<typeof statements>) => (seen: ReadonlyArray<Observation>) =>
    Effect.map(
      Effect.forEach(
        Array.from(
          { length: Math.ceil(seen.length / observationBatch) },
          (_, n) => seen.slice(n * observationBatch, (n + 1) * observationBatch),
        ),
        (batch) =>
          answered(sql.withTransaction(Effect.gen(function*() {
            yield* sql`
          SELECT FROM camera WHERE id IN (
            SELECT s.camera_id FROM camera_stream s
            JOIN jsonb_to_recordset(${
              JSON.stringify(batch)
            }::text::jsonb) AS seen ("streamId" uuid) ON s.id = seen."streamId")
          ORDER BY id FOR NO KEY UPDATE`
            const rows = yield* sql<{ readonly id: string; readonly camera_id: CameraId }>`
          UPDATE camera_stream SET status = seen.status, reason = seen.reason, codec = coalesce(seen.codec, camera_stream.codec),
            width = coalesce(seen.width, camera_stream.width), height = coalesce(seen.height, camera_stream.height),
            audio_codec = CASE WHEN seen.codec IS NULL THEN camera_stream.audio_codec ELSE seen."audioCodec" END
          FROM jsonb_to_recordset(${JSON.stringify(batch)}::text::jsonb)
            AS seen ("streamId" uuid, status text, reason text, codec text, width integer, height integer, "audioCodec" text)
          WHERE camera_stream.id = seen."streamId" RETURNING camera_stream.id, camera_stream.camera_id`
            yield* Effect.forEach(new Set(rows.map((row) => row.camera_id)), parts.refreshStatus, { discard: true })
            return rows.map((row) =>
              row.id
            )
          }))),
      ),
      (written) => new Set(written.flat()),
    )

export const cameraWrites = (sql: SqlClient.SqlClient) => {
  const parts = statements(sql)
  const cameraOf = (place: Place) =>
    "cameraId" in place ?
      Effect.succeed(place.cameraId) :
      Effect.map(
        sql<{ readonly id: CameraId }>`
          SELECT camera_id AS id FROM ${
          "channelId" in place ?
            sql`camera_channel WHERE id = ${place.channelId}` :
            sql`camera_stream WHERE id = ${place.streamId}`
        }`,
        ([row]) => row?.id ?? null,
      )
  const owned: Owned = (writer, place, write) => {
    const look = Effect.map(cameraOf(place), (id) => id === null ? Effect.succeed([]) : cameraThings(sql, id))
    return answered(fenced({ slot: writer.slot, epoch: writer.epoch }, journaled(writer, look, write))).pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
    ) as never
  }
  return {
    ...ofCameras(sql, parts, owned),
    ...ofChannels(sql, parts, owned),
    ...ofStreams(sql, parts, owned),
    observe: observing(sql, parts),
  }
}
