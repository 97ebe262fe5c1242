/**
 * SQL of what administrators set of a camera's capabilities.
 *
 * Invariants
 * 1. It is written under the epoch of the camera's slot, and is a change of the camera: its version grows.
 */
import type { CapabilityChange, CapabilitySet } from "#schema/camera-offer.ts"
import { CameraNotFound } from "#schema/camera.ts"
import type { CameraId, ChannelId } from "#schema/common.ts"
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"
import type { Writer } from "./camera-rows.ts"
import { cameraThings } from "./camera-things.ts"
import { fenced, journaled } from "./fence.ts"

/** A camera, or one of its channels. */
export interface CapabilityPlace {
  readonly cameraId: CameraId
  readonly channelId: ChannelId | null
}

/** Of these cameras or channels that is set which `rows` say, and nothing else. */
export const putCapabilities = Effect.fnUntraced(
  function*(
    sql: SqlClient.SqlClient,
    now: Date,
    places: ReadonlyArray<CapabilityPlace & { readonly capabilities: ReadonlyArray<CapabilitySet> }>,
  ) {
    const whose = JSON.stringify(places.map(({ cameraId, channelId }) => ({ cameraId, channelId })))
    const sets = JSON.stringify(places.flatMap(({ cameraId, capabilities, channelId }) =>
      capabilities.map((set) => ({ ...set, cameraId, channelId }))
    ))
    yield* sql`
    DELETE FROM camera_capability c USING jsonb_to_recordset(${whose}::text::jsonb) AS p ("cameraId" uuid, "channelId" uuid)
    WHERE c.camera_id = p."cameraId" AND c.channel_id IS NOT DISTINCT FROM p."channelId"`
    yield* sql`
    INSERT INTO camera_capability (camera_id, channel_id, name, supported, set_by, set_at)
    SELECT s."cameraId", s."channelId", s.name, s.supported, s.by, ${now}::timestamptz
    FROM jsonb_to_recordset(${sets}::text::jsonb)
      AS s ("cameraId" uuid, "channelId" uuid, name text, supported text, by text)
    ON CONFLICT DO NOTHING`
  },
)

export const cameraCapabilities = (sql: SqlClient.SqlClient) => ({
  capabilities: ({ cameraId, channelId }: CapabilityPlace) =>
    answered(sql<CapabilitySet>`
      SELECT name, supported, set_by AS by FROM camera_capability
      WHERE camera_id = ${cameraId} AND channel_id IS NOT DISTINCT FROM ${channelId}::text::uuid ORDER BY name`),
  setCapability: (
    writer: Writer,
    { cameraId, channelId }: CapabilityPlace,
    { name, supported }: CapabilityChange,
    by: string,
  ) =>
    answered(
      fenced(
        { slot: writer.slot, epoch: writer.epoch },
        journaled(
          writer,
          Effect.succeed(cameraThings(sql, cameraId)),
          Effect.gen(function*() {
            const at = new Date(writer.nowMs)
            const rows = yield* sql`
            UPDATE camera SET version = version + 1, updated_at = ${at}
            WHERE id = ${cameraId} AND slot = ${writer.slot} RETURNING id`
            if (rows.length === 0) return yield* new CameraNotFound({ id: cameraId })
            yield* sql`
            DELETE FROM camera_capability
            WHERE camera_id = ${cameraId} AND channel_id IS NOT DISTINCT FROM ${channelId}::text::uuid AND name = ${name}`
            if (supported === "asTold") return
            yield* sql`
            INSERT INTO camera_capability (camera_id, channel_id, name, supported, set_by, set_at)
            VALUES (${cameraId}, ${channelId}::text::uuid, ${name}, ${supported}, ${by}, ${at})`
          }),
        ),
      ),
    ),
})
