/**
 * Rows of the camera tables as things with fields, for whoever compares configurations.
 *
 * Invariants
 * 1. A `password` is here as the vault sealed it.
 */
import type { CapabilitySet } from "#schema/camera-offer.ts"
import type { CameraId, ChannelId } from "#schema/common.ts"
import type { Thing } from "#schema/federation-journal.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { CameraRow, ChannelRow, StreamRow } from "./camera-rows.ts"

export interface CapabilityRow extends CapabilitySet {
  readonly cameraId: CameraId
  readonly channelId: ChannelId | null
}

/** All that is set of these cameras and their channels, by name. */
export const capabilityRows = (sql: SqlClient.SqlClient, cameras: ReadonlyArray<CameraId>) =>
  sql<CapabilityRow>`
    SELECT camera_id AS "cameraId", channel_id AS "channelId", name, supported, set_by AS by FROM camera_capability
    WHERE camera_id = ANY (${cameras}::uuid[]) ORDER BY name`

/** What of `rows` is set of the camera, or of one channel of it. */
export const setsOf = (
  rows: ReadonlyArray<CapabilityRow>,
  { cameraId, channelId }: Pick<CapabilityRow, "cameraId" | "channelId">,
) =>
  rows.filter((row) => row.cameraId === cameraId && row.channelId === channelId)
    .map(({ by, name, supported }): CapabilitySet => ({ name, supported, by }))

/** One camera, its channels and streams; nothing if it is not there. */
export const cameraThings = (sql: SqlClient.SqlClient, id: CameraId) =>
  Effect.gen(function*() {
    const cameras = yield* sql<CameraRow>`SELECT * FROM camera WHERE id = ${id}`
    const channels = yield* sql<ChannelRow>`SELECT * FROM camera_channel WHERE camera_id = ${id}`
    const streams = yield* sql<StreamRow>`SELECT * FROM camera_stream WHERE camera_id = ${id}`
    const sets = yield* capabilityRows(sql, [id])
    const of = { cameraId: id, channelId: null }
    return [
      ...cameras.map((row): Thing => ({
        ...of,
        kind: "camera",
        id: row.id,
        fields: {
          homeNodeId: row.home_node_id,
          name: row.name,
          description: row.description,
          driver: row.driver,
          host: row.host,
          port: row.port,
          enabled: row.enabled,
          username: row.username,
          password: row.sealed_password,
          tags: [...row.tags],
          manufacturer: row.manufacturer,
          model: row.model,
          firmware: row.firmware,
          serial: row.serial,
          capabilities: setsOf(sets, { cameraId: row.id, channelId: null }),
        },
      })),
      ...channels.map(({ active, camera_id: cameraId, id, name, number }): Thing => ({
        ...of,
        kind: "channel",
        id,
        fields: { number, name, active, capabilities: setsOf(sets, { cameraId, channelId: id }) },
      })),
      ...streams.map((row): Thing => ({
        ...of,
        kind: "stream",
        id: row.id,
        channelId: row.channel_id,
        fields: {
          role: row.role,
          sourceUrl: row.source_url,
          transport: row.transport,
          enabled: row.enabled,
          onDemand: row.on_demand,
          username: row.username,
          password: row.sealed_password,
        },
      })),
    ]
  })
