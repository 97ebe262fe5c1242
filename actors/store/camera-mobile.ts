/**
 * The store of phones: tickets that wait to be claimed, and what was claimed.
 *
 * Invariants
 * 1. A code is taken by one statement: of two claims at once one gets it.
 * 2. What was claimed goes with its camera.
 */
import type { DeviceUuid, MobileDevice } from "#schema/camera-mobile.ts"
import type { CameraId, EpochMs, StreamId } from "#schema/common.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"

export interface MobileTicketRow {
  readonly deviceUuid: DeviceUuid
  readonly name: string
  readonly description: string
  readonly tags: ReadonlyArray<string>
  readonly codeExpiresAt: Date
  readonly claimedAt: Date | null
  readonly cameraId: CameraId | null
}

/** Tickets that nobody claimed are told as expired for a day. */
const toldMs = 86_400_000

const make = Effect.map(SqlClient.SqlClient, (sql) => {
  const columns = sql`device_uuid AS "deviceUuid", name, description, tags, code_expires_at AS "codeExpiresAt",
    claimed_at AS "claimedAt", camera_id AS "cameraId"`
  return {
    /** False: there are `most` already that wait. */
    prepare: (
      ticket: Pick<MobileTicketRow, "deviceUuid" | "name" | "description" | "tags"> & {
        readonly codeHash: Uint8Array
        readonly expiresMs: EpochMs
      },
      most: number,
      nowMs: EpochMs,
    ) =>
      answered(Effect.gen(function*() {
        yield* sql`
          DELETE FROM camera_mobile WHERE camera_id IS NULL AND code_expires_at < ${new Date(nowMs - toldMs)}`
        const rows = yield* sql`
          INSERT INTO camera_mobile (device_uuid, name, description, tags, code_hash, code_expires_at)
          SELECT ${ticket.deviceUuid}::text::uuid, ${ticket.name}, ${ticket.description}, ${[...ticket.tags]}::text[],
            ${ticket.codeHash}::bytea, ${new Date(ticket.expiresMs)}
          WHERE (SELECT count(*) FROM camera_mobile WHERE code_hash IS NOT NULL AND code_expires_at > ${new Date(
          nowMs,
        )}) < ${most}
          RETURNING 1`
        return rows.length > 0
      })),
    /** The ticket of the code, which is used up by this; null: there is none, or it has expired. */
    take: (codeHash: Uint8Array, nowMs: EpochMs) =>
      answered(Effect.map(
        sql<MobileTicketRow>`
          UPDATE camera_mobile SET code_hash = NULL, claimed_at = ${new Date(nowMs)}
          WHERE code_hash = ${codeHash} AND code_expires_at > ${new Date(nowMs)} RETURNING ${columns}`,
        ([row]) => row ?? null,
      )),
    /** The claim came to nothing: the code is good again. */
    giveBack: (id: DeviceUuid, codeHash: Uint8Array) =>
      answered(sql`
        UPDATE camera_mobile SET code_hash = ${codeHash}, claimed_at = NULL
        WHERE device_uuid = ${id} AND camera_id IS NULL`),
    bind: (
      id: DeviceUuid,
      made: { readonly cameraId: CameraId; readonly streamId: StreamId; readonly secretHash: Uint8Array },
    ) =>
      answered(sql`
        UPDATE camera_mobile SET camera_id = ${made.cameraId}, stream_id = ${made.streamId}, secret_hash = ${made.secretHash}
        WHERE device_uuid = ${id}`),
    get: (id: DeviceUuid) =>
      answered(
        Effect.map(sql<MobileTicketRow>`SELECT ${columns} FROM camera_mobile WHERE device_uuid = ${id}`, ([row]) =>
          row ?? null),
      ),
    /** Answers whether there was one. */
    remove: (id: DeviceUuid) =>
      answered(
        Effect.map(sql`DELETE FROM camera_mobile WHERE device_uuid = ${id} RETURNING 1`, (rows) => rows.length > 0),
      ),
    publisher: (secretHash: Uint8Array) =>
      answered(Effect.map(
        sql<MobileDevice>`
          SELECT device_uuid AS "deviceUuid", camera_id AS "cameraId", stream_id AS "streamId" FROM camera_mobile
          WHERE secret_hash = ${secretHash}`,
        ([row]) => row ?? null,
      )),
    /** Of these, those that are still there. */
    known: (ids: ReadonlyArray<DeviceUuid>) =>
      answered(Effect.map(
        sql<{ readonly id: DeviceUuid }>`
          SELECT device_uuid AS id FROM camera_mobile WHERE device_uuid = ANY (${[
          ...ids,
        ]}::uuid[]) AND camera_id IS NOT NULL`,
        (rows): ReadonlySet<DeviceUuid> => new Set(rows.map(({ id }) => id)),
      )),
  }
})

export class CameraMobileStore
  extends Context.Service<CameraMobileStore, Effect.Success<typeof make>>()("nightjar/actors/CameraMobileStore")
{
  static readonly layer = Layer.effect(CameraMobileStore, make)
}
