/**
 * The cameras of one slot as a whole: read for a guardian, and written by one that serves another node's cameras.
 *
 * Invariants
 * 1. They are written in one transaction under the epoch of their slot, and the same cameras written again change nothing but what differs.
 * 2. A camera that is there in another slot is left alone: it belongs to somebody else.
 * 3. What is no longer among the cameras is switched off, not deleted: footage may hang on it.
 */
import type { NewCamera, NewChannel, NewStream } from "#schema/camera-change.ts"
import type { CapabilitySet } from "#schema/camera-offer.ts"
import type { CameraId, ChannelId, EpochMs } from "#schema/common.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"
import { putCapabilities } from "./camera-capability.ts"
import type { CameraRow, ChannelRow, StreamRow, Writer } from "./camera-rows.ts"
import { type CapabilityRow, capabilityRows } from "./camera-things.ts"
import { fenced } from "./fence.ts"

interface Overridden {
  /** What administrators set of it; nothing else is set of it then. */
  readonly capabilities: ReadonlyArray<CapabilitySet>
}

/** A camera with the numbers that its channels have at home. */
export interface PlacedCamera extends Omit<NewCamera, "channels">, Overridden {
  readonly channels: ReadonlyArray<NewChannel & Overridden & { readonly number: number }>
}

export interface SlotRows {
  readonly cameras: ReadonlyArray<CameraRow>
  readonly channels: ReadonlyArray<ChannelRow>
  readonly streams: ReadonlyArray<StreamRow>
  readonly capabilities: ReadonlyArray<CapabilityRow>
}

/** One thing as it should be; what is put below a camera or channel is not meant. */
export type CameraMerge =
  | { readonly put: "camera"; readonly camera: PlacedCamera }
  | { readonly put: "channel"; readonly cameraId: CameraId; readonly channel: PlacedCamera["channels"][number] }
  | {
    readonly put: "stream"
    readonly cameraId: CameraId
    readonly channelId: ChannelId
    readonly stream: NewStream
  }
  | { readonly remove: "channel" | "stream"; readonly cameraId: CameraId; readonly id: string }

export class CameraBundleStore extends Context.Service<CameraBundleStore, {
  /** Another text after every change of what {@link rows} tells, but for what is only observed. */
  readonly mark: (slot: Slot) => Effect.Effect<string, DependencyUnavailable>
  readonly rows: (slot: Slot) => Effect.Effect<SlotRows, DependencyUnavailable>
  /** Answers the cameras that are there now. */
  readonly place: (
    writer: Writer,
    cameras: ReadonlyArray<PlacedCamera>,
  ) => Effect.Effect<ReadonlySet<CameraId>, StaleEpoch | DependencyUnavailable>
  /** When each camera, channel and stream of the slot last changed, by id. */
  readonly changedMs: (slot: Slot) => Effect.Effect<ReadonlyMap<string, EpochMs>, DependencyUnavailable>
  /** Writes or deletes this one camera, channel or stream, and leaves all others as they are. */
  readonly merge: (writer: Writer, change: CameraMerge) => Effect.Effect<void, StaleEpoch | DependencyUnavailable>
  /** All of the slot; nothing may be recorded of them any more. */
  readonly remove: (slot: Slot) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/CameraBundleStore") {
  static readonly layer = Layer.effect(
    CameraBundleStore,
    Effect.map(SqlClient.SqlClient, (sql) => CameraBundleStore.of({ ...reading(sql), ...writing(sql) })),
  )
}

const reading = (sql: SqlClient.SqlClient) => ({
  mark: (slot: Slot) =>
    answered(Effect.map(
      sql<{ readonly mark: string }>`
        SELECT concat_ws('/', count(*), coalesce(sum(version), 0), coalesce(max(updated_at), 'epoch')) AS mark
        FROM camera WHERE slot = ${slot}`,
      ([row]) => row?.mark ?? "",
    )),
  rows: (slot: Slot) =>
    answered(Effect.all({
      cameras: sql<CameraRow>`SELECT * FROM camera WHERE slot = ${slot} ORDER BY position, id`,
      channels: sql<ChannelRow>`
        SELECT * FROM camera_channel WHERE camera_id IN (SELECT id FROM camera WHERE slot = ${slot})
        ORDER BY camera_id, number`,
      streams: sql<StreamRow>`
        SELECT * FROM camera_stream WHERE camera_id IN (SELECT id FROM camera WHERE slot = ${slot})
        ORDER BY channel_id, role`,
      capabilities: Effect.flatMap(
        sql<{ readonly id: CameraId }>`SELECT id FROM camera WHERE slot = ${slot}`,
        (cameras) => capabilityRows(sql, cameras.map(({ id }) => id)),
      ),
    })),
  changedMs: (slot: Slot) =>
    answered(Effect.map(
      sql<{ readonly id: string; readonly at: Date }>`
        WITH own AS (SELECT id, updated_at FROM camera WHERE slot = ${slot})
        SELECT id, updated_at AS at FROM own
        UNION ALL SELECT id, updated_at FROM camera_channel WHERE camera_id IN (SELECT id FROM own)
        UNION ALL SELECT id, updated_at FROM camera_stream WHERE camera_id IN (SELECT id FROM own)`,
      (rows): ReadonlyMap<string, EpochMs> => new Map(rows.map(({ at, id }) => [id, at.getTime()])),
    )),
  remove: (slot: Slot) => answered(Effect.asVoid(sql`DELETE FROM camera WHERE slot = ${slot}`)),
})

interface OwnStreams {
  readonly id: CameraId
  readonly channels: ReadonlyArray<{ readonly id: ChannelId; readonly streams: ReadonlyArray<NewStream> }>
}

const json = (rows: ReadonlyArray<object>) => JSON.stringify(rows)

const writing = (sql: SqlClient.SqlClient) => {
  const putCameras = (writer: Writer, cameras: ReadonlyArray<PlacedCamera>) =>
    sql<{ readonly id: CameraId }>`
      INSERT INTO camera (id, slot, home_node_id, name, description, driver, host, port, enabled, username, sealed_password, tags,
        manufacturer, model, firmware, serial, position, status, reason, created_at, updated_at, version)
      SELECT c.id, ${writer.slot}::text, c."homeNodeId", c.name, c.description, c.driver, c.host, c.port, c.enabled, c.username,
        c."sealedPassword", c.tags, c.manufacturer, c.model, c.firmware, c.serial,
        (SELECT coalesce(max(position) + 1, 0) FROM camera) + c.place, 'registered', '', ${new Date(
      writer.nowMs,
    )}::timestamptz,
        ${new Date(writer.nowMs)}::timestamptz, 1
      FROM jsonb_to_recordset(${
      json(cameras.map(({ capabilities: _capabilities, channels: _channels, information, ...camera }, place) => ({
        ...camera,
        ...information,
        tags: camera.tags ?? [],
        place,
      })))
    }::text::jsonb) AS c (id uuid, "homeNodeId" uuid, name text, description text, driver text, host text, port integer,
        enabled boolean, username text, "sealedPassword" text, tags text[], manufacturer text, model text, firmware text,
        serial text, place integer)
      ON CONFLICT (id) DO UPDATE SET name = excluded.name, description = excluded.description, driver = excluded.driver,
        host = excluded.host, port = excluded.port, enabled = excluded.enabled, username = excluded.username,
        sealed_password = excluded.sealed_password, tags = excluded.tags, manufacturer = excluded.manufacturer,
        model = excluded.model, firmware = excluded.firmware, serial = excluded.serial, updated_at = excluded.updated_at,
        version = camera.version + 1
      WHERE camera.slot = excluded.slot
      RETURNING id`
  const putChannels = (now: Date, cameras: ReadonlyArray<Pick<PlacedCamera, "id" | "channels">>) =>
    sql`
      INSERT INTO camera_channel (id, camera_id, number, name, active, created_at, updated_at, version)
      SELECT h.id, h."cameraId", h.number, h.name, h.active, ${now}::timestamptz, ${now}::timestamptz, 1
      FROM jsonb_to_recordset(${
      json(cameras.flatMap(({ channels, id }) =>
        channels.map(({ capabilities: _capabilities, streams: _streams, ...channel }) => ({
          ...channel,
          name: channel.name ?? `Channel ${channel.number}`,
          cameraId: id,
        }))
      ))
    }::text::jsonb) AS h (id uuid, "cameraId" uuid, number integer, name text, active boolean)
      ON CONFLICT (id) DO UPDATE SET number = excluded.number, name = excluded.name, active = excluded.active,
        updated_at = excluded.updated_at, version = camera_channel.version + 1
      WHERE camera_channel.camera_id = excluded.camera_id`
  const overridesOf = ({ capabilities, channels, id }: Pick<PlacedCamera, "id" | "capabilities" | "channels">) => [
    { cameraId: id, channelId: null, capabilities },
    ...channels.map((channel) => ({ cameraId: id, channelId: channel.id, capabilities: channel.capabilities })),
  ]
  const putStreams = (now: Date, cameras: ReadonlyArray<OwnStreams>) =>
    sql`
      INSERT INTO camera_stream (id, camera_id, channel_id, role, source_url, transport, enabled, on_demand, username,
        sealed_password, status, reason, created_at, updated_at, version)
      SELECT s.id, s."cameraId", s."channelId", s.role, s."sourceUrl", s.transport, s.enabled, s."onDemand", s.username,
        s."sealedPassword", 'registered', '', ${now}::timestamptz, ${now}::timestamptz, 1
      FROM jsonb_to_recordset(${
      json(cameras.flatMap(({ channels, id }) =>
        channels.flatMap((channel) =>
          channel.streams.map((stream) => ({
            ...stream,
            onDemand: stream.onDemand ?? false,
            cameraId: id,
            channelId: channel.id,
          }))
        )
      ))
    }::text::jsonb) AS s (id uuid, "cameraId" uuid, "channelId" uuid, role text, "sourceUrl" text, transport text,
        enabled boolean, "onDemand" boolean, username text, "sealedPassword" text)
      ON CONFLICT (id) DO UPDATE SET source_url = excluded.source_url, transport = excluded.transport,
        enabled = excluded.enabled, on_demand = excluded.on_demand, username = excluded.username,
        sealed_password = excluded.sealed_password, updated_at = excluded.updated_at, version = camera_stream.version + 1
      WHERE camera_stream.camera_id = excluded.camera_id`
  /** What the cameras do not name any more. */
  const switchOff = (writer: Writer, cameras: ReadonlyArray<PlacedCamera>) =>
    Effect.gen(function*() {
      const streams = cameras.flatMap(({ channels }) =>
        channels.flatMap((channel) => channel.streams.map(({ id }) => id))
      )
      yield* sql`
        UPDATE camera SET enabled = false, version = version + 1
        WHERE slot = ${writer.slot} AND enabled AND NOT id = ANY (${cameras.map(({ id }) => id)}::uuid[])`
      yield* sql`
        UPDATE camera_stream SET enabled = false, version = version + 1
        WHERE camera_id IN (SELECT id FROM camera WHERE slot = ${writer.slot}) AND enabled
          AND NOT id = ANY (${streams}::uuid[])`
    })
  const owned = <A, E, R>(writer: Writer, write: Effect.Effect<A, E, R>) =>
    answered(fenced({ slot: writer.slot, epoch: writer.epoch }, write)).pipe(
      Effect.provideService(SqlClient.SqlClient, sql),
    )
  const mergeOne = (writer: Writer, change: CameraMerge) => {
    const now = new Date(writer.nowMs)
    if ("remove" in change) {
      return change.remove === "channel" ?
        sql`DELETE FROM camera_channel WHERE id = ${change.id} AND camera_id = ${change.cameraId}` :
        sql`DELETE FROM camera_stream WHERE id = ${change.id} AND camera_id = ${change.cameraId}`
    }
    const { put } = change
    if (put === "camera") {
      const { camera } = change
      return Effect.andThen(
        putCameras(writer, [camera]),
        putCapabilities(sql, now, overridesOf({ ...camera, channels: [] })),
      )
    }
    const { cameraId: id } = change
    if (put === "stream") {
      return putStreams(now, [{ id, channels: [{ id: change.channelId, streams: [change.stream] }] }])
    }
    const { channel } = change
    return Effect.andThen(
      putChannels(now, [{ id, channels: [channel] }]),
      putCapabilities(sql, now, [{ cameraId: id, channelId: channel.id, capabilities: channel.capabilities }]),
    )
  }
  return {
    place: (writer: Writer, cameras: ReadonlyArray<PlacedCamera>) =>
      owned(
        writer,
        Effect.gen(function*() {
          const now = new Date(writer.nowMs)
          const placed = new Set((yield* putCameras(writer, cameras)).map(({ id }) => id))
          const ours = cameras.filter(({ id }) => placed.has(id))
          yield* putChannels(now, ours)
          yield* putStreams(now, ours)
          yield* putCapabilities(sql, now, ours.flatMap(overridesOf))
          yield* switchOff(writer, ours)
          yield* sql`UPDATE camera SET search_text = camera_search_text(id) WHERE slot = ${writer.slot}`
          return placed
        }),
      ),
    merge: (writer: Writer, change: CameraMerge) =>
      owned(
        writer,
        Effect.gen(function*() {
          const id = "camera" in change ? change.camera.id : change.cameraId
          yield* sql`SELECT FROM camera WHERE id = ${id} AND slot = ${writer.slot} FOR UPDATE`
          yield* mergeOne(writer, change)
          yield* sql`
            UPDATE camera SET version = version + 1, search_text = camera_search_text(id)
            WHERE id = ${id} AND slot = ${writer.slot}`
        }),
      ),
  }
}
