/** Reading cameras: see `camera.ts`. */
import type { CameraHome, ChannelPlace } from "#schema/camera-change.ts"
import type { Camera, CameraFilter } from "#schema/camera.ts"
import type { CameraId, ChannelId, StreamId } from "#schema/common.ts"
import type { Slot } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered } from "./answer.ts"
import {
  assemble,
  type CameraRow,
  type CaptureRow,
  type ChannelRow,
  type EndpointRow,
  type StreamRow,
} from "./camera-rows.ts"

/** More words than that narrow no further. */
const mostWords = 8

/** A pattern of LIKE that finds the word wherever it stands; nothing in the word is a pattern. */
const containing = (word: string) => `%${word.replaceAll(/[\\%_]/g, "\\$&")}%`

/** Conditions of a list. */
const conditions = (
  sql: SqlClient.SqlClient,
  filter: CameraFilter,
  after: { readonly position: number; readonly id: string } | null,
  within: Reach,
) => [
  sql`TRUE`,
  ...(filter.status === undefined ? [] : [sql`status = ${filter.status}`]),
  ...(filter.driver === undefined ? [] : [sql`driver = ${filter.driver}`]),
  ...(filter.enabled === undefined ? [] : [sql`enabled = ${filter.enabled}`]),
  ...(filter.tag === undefined ? [] : [sql`tags @> ARRAY[${filter.tag}]::text[]`]),
  ...(filter.text ?? "").split(/\s+/).filter((word) => word !== "").slice(0, mostWords).map((word) =>
    sql`search_text LIKE lower(${containing(word)})`
  ),
  ...(within === "all" ? [] : [sql`id IN (
    SELECT unnest(${[...within.camera]}::uuid[])
    UNION SELECT camera_id FROM camera_channel WHERE camera_channel.id = ANY (${[...within.channel]}::uuid[])
  )`]),
  ...(after === null ? [] : [sql`(position, id) > (${after.position}, ${after.id}::text::uuid)`]),
]

export const cameraReads = (sql: SqlClient.SqlClient) => {
  const complete = (cameras: ReadonlyArray<CameraRow>): Effect.Effect<ReadonlyArray<Camera>, SqlError.SqlError> => {
    if (cameras.length === 0) return Effect.succeed([])
    const ids = sql.in(cameras.map((camera) => camera.id))
    return Effect.map(
      Effect.all({
        channels: sql<ChannelRow>`SELECT * FROM camera_channel WHERE camera_id IN ${ids}`,
        streams: sql<StreamRow>`SELECT * FROM camera_stream WHERE camera_id IN ${ids}`,
      }),
      (rows) => assemble({ cameras, ...rows }),
    )
  }
  const captured = (scope: { readonly slots: ReadonlyArray<Slot> } | { readonly cameraId: CameraId }) =>
    "slots" in scope ? sql`c.slot IN ${sql.in(scope.slots)}` : sql`c.id = ${scope.cameraId}`
  return {
    list: (
      filter: CameraFilter,
      limit: number,
      after: { readonly position: number; readonly id: string } | null,
      within: Reach,
    ) =>
      answered(Effect.flatMap(
        sql<CameraRow>`
          SELECT * FROM camera WHERE ${
          sql.and(conditions(sql, filter, after, within))
        } ORDER BY position, id LIMIT ${limit}`,
        complete,
      )),
    get: (id: CameraId) =>
      answered(
        sql<CameraRow>`SELECT * FROM camera WHERE id = ${id}`.pipe(
          Effect.flatMap(complete),
          Effect.map(([camera]) => camera ?? null),
        ),
      ),
    cameraOf: (of: { readonly channelId: ChannelId } | { readonly streamId: StreamId }) =>
      answered(Effect.map(
        "channelId" in of ?
          sql<{ readonly camera_id: CameraId }>`SELECT camera_id FROM camera_channel WHERE id = ${of.channelId}` :
          sql<{ readonly camera_id: CameraId }>`SELECT camera_id FROM camera_stream WHERE id = ${of.streamId}`,
        ([row]) => row?.camera_id ?? null,
      )),
    placeOf: (of: { readonly channelId: ChannelId } | { readonly streamId: StreamId }) =>
      answered(Effect.map(
        "channelId" in of ?
          sql<ChannelPlace>`
            SELECT id AS "channelId", camera_id AS "cameraId" FROM camera_channel WHERE id = ${of.channelId}` :
          sql<ChannelPlace>`
            SELECT channel_id AS "channelId", camera_id AS "cameraId" FROM camera_stream WHERE id = ${of.streamId}`,
        ([row]) => row ?? null,
      )),
    missing: (cameras: ReadonlyArray<CameraId>, channels: ReadonlyArray<ChannelId>) =>
      cameras.length + channels.length === 0 ?
        Effect.succeed(new Set<string>()) :
        answered(Effect.map(
          sql<{ readonly id: string }>`
          SELECT 'camera:' || told.id AS id FROM unnest(${[...cameras]}::uuid[]) AS told (id)
          WHERE NOT EXISTS (SELECT 1 FROM camera WHERE camera.id = told.id)
          UNION ALL
          SELECT 'channel:' || told.id FROM unnest(${[...channels]}::uuid[]) AS told (id)
          WHERE NOT EXISTS (SELECT 1 FROM camera_channel WHERE camera_channel.id = told.id)`,
          (rows): ReadonlySet<string> => new Set(rows.map((row) => row.id)),
        )),
    endpoint: (id: CameraId) =>
      answered(Effect.map(
        sql<EndpointRow>`
          SELECT driver, host, port, username, sealed_password AS "sealedPassword",
            ARRAY(SELECT id::text FROM camera_channel WHERE camera_id = camera.id) AS channels,
            (SELECT coalesce(json_agg(json_build_object(
              'name', name, 'supported', supported, 'by', set_by, 'channelId', channel_id)), '[]'::json)
              FROM camera_capability WHERE camera_id = camera.id) AS capabilities
          FROM camera WHERE id = ${id}`,
        ([row]) => row ?? null,
      )),
    secrets: (ids: ReadonlyArray<CameraId>) =>
      answered(Effect.map(
        sql<{ readonly id: string; readonly sealed: string }>`
          SELECT id, sealed_password AS sealed FROM camera
          WHERE id = ANY (${[...ids]}::uuid[]) AND sealed_password IS NOT NULL
          UNION ALL
          SELECT id, sealed_password FROM camera_stream
          WHERE camera_id = ANY (${[...ids]}::uuid[]) AND sealed_password IS NOT NULL`,
        (rows): ReadonlyMap<string, string> => new Map(rows.map(({ id, sealed }) => [id, sealed])),
      )),
    atHosts: (hosts: ReadonlyArray<string>) =>
      answered(sql<{ readonly id: CameraId; readonly host: string; readonly port: number }>`
        SELECT id, host, port FROM camera WHERE host = ANY (${[...hosts]}::text[]) ORDER BY id`),
    home: (id: CameraId) =>
      answered(
        Effect.map(sql<CameraHome>`SELECT id AS "cameraId", slot FROM camera WHERE id = ${id}`, ([row]) => row ?? null),
      ),
    count: () =>
      answered(Effect.map(
        sql<{ readonly cameras: number; readonly channels: number }>`
          SELECT (SELECT count(*)::integer FROM camera) AS cameras, (SELECT count(*)::integer FROM camera_channel) AS channels`,
        ([row]) => row ?? { cameras: 0, channels: 0 },
      )),
    strangers: (ids: ReadonlyArray<CameraId | StreamId>) =>
      ids.length === 0 ? Effect.succeed(new Set<string>()) : answered(Effect.map(
        sql<{ readonly id: string }>`
          SELECT told.id FROM jsonb_array_elements_text(${JSON.stringify(ids)}::text::jsonb) AS told (id)
          WHERE NOT EXISTS (SELECT 1 FROM camera WHERE camera.id = told.id::uuid)
            AND NOT EXISTS (SELECT 1 FROM camera_stream WHERE camera_stream.id = told.id::uuid)
            AND NOT EXISTS (SELECT 1 FROM camera_gone WHERE camera_gone.id = told.id::uuid)`,
        (rows): ReadonlySet<string> => new Set(rows.map((row) => row.id)),
      )),
    captures: (scope: { readonly slots: ReadonlyArray<Slot> } | { readonly cameraId: CameraId }) =>
      answered(sql<CaptureRow>`
        SELECT c.id AS "cameraId", h.id AS "channelId", s.id AS "streamId", c.driver, s.role, s.source_url AS url,
          s.transport, c.enabled AND h.active AND s.enabled AS enabled, s.on_demand AS "onDemand", c.username AS "cameraUsername",
          c.sealed_password AS "cameraPassword", s.username AS "streamUsername", s.sealed_password AS "streamPassword",
          c.name AS "cameraName", h.name AS "channelName"
        FROM camera_stream s JOIN camera_channel h ON h.id = s.channel_id JOIN camera c ON c.id = h.camera_id
        WHERE ${captured(scope)} ORDER BY s.id`),
    listened: (slots: ReadonlyArray<Slot>) =>
      answered(sql<{ readonly id: CameraId; readonly version: number }>`
        SELECT id, version FROM camera
        WHERE slot IN ${sql.in(slots)} AND enabled AND host IS NOT NULL
          AND NOT EXISTS (
            SELECT 1 FROM camera_capability c
            WHERE c.camera_id = camera.id AND c.channel_id IS NULL AND c.name = 'events' AND c.supported = 'no'
          )
        ORDER BY id`),
    versions: (slots: ReadonlyArray<Slot>) =>
      answered(sql<{ readonly id: CameraId; readonly slot: Slot; readonly version: number }>`
        SELECT id, slot, version FROM camera WHERE slot IN ${sql.in(slots)} ORDER BY id`),
  }
}
