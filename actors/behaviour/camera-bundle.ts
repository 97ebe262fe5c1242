/**
 * The service `CameraBundles`.
 *
 * Invariants
 * 1. A password that the vault cannot open is left out of an export and the log tells whose.
 * 2. A camera that cannot be started is told in the log and tried again by the activation loop.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import type { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { CameraBundleStore, type PlacedCamera, type SlotRows } from "#actors/store/camera-bundle.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { moving } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { RecorderSupervisor } from "#media/recorder.ts"
import { cameraSecret, streamSecret } from "#schema/camera-change.ts"
import type { CameraId } from "#schema/common.ts"
import type { BundledCamera } from "#schema/federation-bundle.ts"
import type { Slot } from "#schema/ownership.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, Redacted } from "effect"
import { reconcile } from "./camera-entity.ts"

/** Cameras started at once. */
const concurrency = 8

const exporting = (vault: Vault["Service"]) => {
  const opened = (context: string, sealed: string | null) =>
    sealed === null ?
      Effect.succeed(null) :
      vault.open(context, sealed).pipe(
        Effect.map((secret): string | null => Redacted.value(secret)),
        Effect.catchTag("VaultError", (error) =>
          Effect.as(
            Effect.logError("A password cannot be given to a guardian", { context, reason: error.reason }),
            null,
          )),
      )
  const streamOf = Effect.fnUntraced(function*(row: SlotRows["streams"][number]) {
    return {
      id: row.id,
      role: row.role,
      sourceUrl: row.source_url,
      transport: row.transport,
      enabled: row.enabled,
      onDemand: row.on_demand,
      username: row.username,
      password: yield* opened(streamSecret(row.id), row.sealed_password),
    }
  })
  return (rows: SlotRows) =>
    Effect.forEach(
      rows.cameras,
      Effect.fnUntraced(function*(row): Effect.fn.Return<BundledCamera> {
        const channels = rows.channels.filter((channel) => channel.camera_id === row.id)
        return {
          id: row.id,
          homeNodeId: row.home_node_id,
          name: row.name,
          description: row.description,
          driver: row.driver,
          host: row.host,
          port: row.port,
          enabled: row.enabled,
          username: row.username,
          password: yield* opened(cameraSecret(row.id), row.sealed_password),
          tags: row.tags,
          information: {
            manufacturer: row.manufacturer,
            model: row.model,
            firmware: row.firmware,
            serial: row.serial,
          },
          channels: yield* Effect.forEach(channels, (channel) =>
            Effect.map(
              Effect.forEach(rows.streams.filter((stream) => stream.channel_id === channel.id), streamOf),
              (streams) => ({
                id: channel.id,
                number: channel.number,
                name: channel.name,
                active: channel.active,
                streams,
              }),
            )),
        }
      }),
    )
}

const sealing = (vault: Vault["Service"]) => {
  const seal = (context: string, password: string | null) =>
    password === null ? Effect.succeed(null) : vault.seal(context, Redacted.make(password))
  return Effect.fnUntraced(function*({ password, ...camera }: BundledCamera): Effect.fn.Return<PlacedCamera> {
    return {
      ...camera,
      sealedPassword: yield* seal(cameraSecret(camera.id), password),
      channels: yield* Effect.forEach(
        camera.channels,
        (channel) =>
          Effect.map(
            Effect.forEach(
              channel.streams,
              ({ password: own, ...stream }) =>
                Effect.map(seal(streamSecret(stream.id), own), (sealedPassword) => ({ ...stream, sealedPassword })),
            ),
            (streams) => ({ ...channel, streams }),
          ),
      ),
    }
  })
}

const make = Effect.gen(function*() {
  const [bundles, cameras, ownership, vault] = yield* Effect.all([CameraBundleStore, CameraStore, Ownership, Vault])
  const services = yield* Effect.context<Ownership | CameraStore | RecordingPlans | RecorderSupervisor | Vault>()
  const open = exporting(vault)
  const seal = sealing(vault)

  return CameraBundles.of({
    mark: bundles.mark,
    ids: (slot) => Effect.map(cameras.versions([slot]), (rows) => rows.map(({ id }) => id)),
    export: (slot) => Effect.flatMap(bundles.rows(slot), open),
    place: Effect.fn("CameraBundles.place")(function*(slot: Slot, cameras: ReadonlyArray<BundledCamera>) {
      const epoch = yield* ownership.epochOf(slot)
      if (epoch === null) return yield* moving()
      const sealed = yield* Effect.forEach(cameras, seal)
      return yield* bundles.place({ slot, epoch, nowMs: yield* Clock.currentTimeMillis }, sealed)
    }),
    start: Effect.fn("CameraBundles.start")(function*(slot: Slot, cameras: ReadonlyArray<CameraId>) {
      yield* Effect.forEach(
        cameras,
        (id) =>
          Effect.provideContext(reconcile(slot, id), services).pipe(Effect.catchCause((cause) =>
            Effect.logWarning("A camera of another node could not be started; it will be tried again", {
              cameraId: id,
              cause,
            })
          )),
        { concurrency, discard: true },
      )
    }),
    remove: bundles.remove,
  })
})

export const layer = Layer.effect(CameraBundles, make)
