/**
 * The service `CameraBundles`.
 *
 * Invariants
 * 1. A password that the vault cannot open is left out of an export and the log tells whose.
 * 2. A camera that cannot be started is told in the log and tried again by the activation loop.
 */
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import type { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { CameraBundleStore, type CameraMerge, type PlacedCamera, type SlotRows } from "#actors/store/camera-bundle.ts"
import { setsOf } from "#actors/store/camera-things.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { moving } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { RecorderSupervisor } from "#media/recorder.ts"
import { cameraSecret, streamSecret } from "#schema/camera-change.ts"
import type { CameraId } from "#schema/common.ts"
import type { BundledCamera, BundledStream } from "#schema/federation-bundle.ts"
import { cameraOf, channelOf, streamOf, type Thing } from "#schema/federation-journal.ts"
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
          capabilities: setsOf(rows.capabilities, { cameraId: row.id, channelId: null }),
          channels: yield* Effect.forEach(channels, (channel) =>
            Effect.map(
              Effect.forEach(rows.streams.filter((stream) => stream.channel_id === channel.id), streamOf),
              (streams) => ({
                id: channel.id,
                number: channel.number,
                name: channel.name,
                active: channel.active,
                capabilities: setsOf(rows.capabilities, { cameraId: row.id, channelId: channel.id }),
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
  const stream = ({ password, ...stream }: typeof BundledStream.Type) =>
    Effect.map(seal(streamSecret(stream.id), password), (sealedPassword) => ({ ...stream, sealedPassword }))
  const camera = Effect.fnUntraced(function*({ password, ...camera }: BundledCamera): Effect.fn.Return<PlacedCamera> {
    return {
      ...camera,
      sealedPassword: yield* seal(cameraSecret(camera.id), password),
      channels: yield* Effect.forEach(
        camera.channels,
        (channel) => Effect.map(Effect.forEach(channel.streams, stream), (streams) => ({ ...channel, streams })),
      ),
    }
  })
  return { camera, stream }
}

/** One thing as the store writes it; a recording is none of its. */
const merging =
  ({ camera, stream }: ReturnType<typeof sealing>) => (thing: Thing): Effect.Effect<CameraMerge | null> => {
    const { cameraId, channelId } = thing
    if (thing.kind === "camera") {
      return Effect.map(camera(cameraOf(thing)), (camera) => ({ put: "camera" as const, camera }))
    }
    if (thing.kind === "channel") {
      return Effect.succeed({ put: "channel", cameraId, channel: { ...channelOf(thing), streams: [] } })
    }
    if (thing.kind === "recording" || channelId === null) return Effect.succeed(null)
    return Effect.map(stream(streamOf(thing)), (stream) => ({ put: "stream" as const, cameraId, channelId, stream }))
  }

const make = Effect.gen(function*() {
  const [bundles, cameras, ownership, vault] = yield* Effect.all([CameraBundleStore, CameraStore, Ownership, Vault])
  const services = yield* Effect.context<Ownership | CameraStore | RecordingPlans | RecorderSupervisor | Vault>()
  const open = exporting(vault)
  const sealed = sealing(vault)
  const mergeOf = merging(sealed)
  const writer = Effect.fnUntraced(function*(slot: Slot, nowMs: number) {
    const epoch = yield* ownership.epochOf(slot)
    return epoch === null ? yield* moving() : { slot, epoch, nowMs }
  })

  return CameraBundles.of({
    mark: bundles.mark,
    ids: (slot) => Effect.map(cameras.versions([slot]), (rows) => rows.map(({ id }) => id)),
    export: (slot) => Effect.flatMap(bundles.rows(slot), open),
    place: Effect.fn("CameraBundles.place")(function*(slot: Slot, cameras: ReadonlyArray<BundledCamera>) {
      const by = yield* writer(slot, yield* Clock.currentTimeMillis)
      return yield* bundles.place(by, yield* Effect.forEach(cameras, sealed.camera))
    }),
    changedMs: bundles.changedMs,
    put: Effect.fn("CameraBundles.put")(function*(slot: Slot, thing: Thing, atMs: number) {
      const change = yield* mergeOf(thing)
      if (change !== null) yield* bundles.merge(yield* writer(slot, atMs), change)
    }),
    delete: Effect.fn("CameraBundles.delete")(function*(slot: Slot, { cameraId, id, kind }: Thing) {
      if (kind !== "channel" && kind !== "stream") return
      yield* bundles.merge(yield* writer(slot, yield* Clock.currentTimeMillis), { remove: kind, cameraId, id })
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
