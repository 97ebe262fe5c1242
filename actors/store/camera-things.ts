/**
 * Rows of the camera tables as things with fields, for whoever compares configurations.
 *
 * Invariants
 * 1. A `password` is here as the vault sealed it.
 */
import type { CameraId } from "#schema/common.ts"
import type { Thing } from "#schema/federation-journal.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { CameraRow, ChannelRow, StreamRow } from "./camera-rows.ts"

/** One camera, its channels and streams; nothing if it is not there. */
export const cameraThings = (sql: SqlClient.SqlClient, id: CameraId) =>
  Effect.gen(function*() {
    const cameras = yield* sql<CameraRow>`SELECT * FROM camera WHERE id = ${id}`
    const channels = yield* sql<ChannelRow>`SELECT * FROM camera_channel WHERE camera_id = ${id}`
    const streams = yield* sql<StreamRow>`SELECT * FROM camera_stream WHERE camera_id = ${id}`
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
        },
      })),
      ...channels.map(({ active, id, name, number }): Thing => ({
        ...of,
        kind: "channel",
        id,
        fields: { number, name, active },
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
