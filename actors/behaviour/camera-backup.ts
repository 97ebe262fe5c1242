/**
 * The service `CameraBackups`: every camera as people have set it, page by page.
 *
 * Invariants
 * 1. At most {@link pageSize} cameras are in memory; the next are read when the reader has taken these.
 * 2. A password that the vault cannot open is left out and the log tells whose; `hasPassword` still says that there is one.
 */
import { CameraBackups } from "#actors/protocol/camera-backup.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { type BackupCamera, backupSecret, type BackupStream } from "#schema/camera-backup.ts"
import { cameraSecret, streamSecret } from "#schema/camera-change.ts"
import type { Camera } from "#schema/camera.ts"
import { Vault } from "#schema/vault.ts"
import { Effect, Layer, Option, type Redacted, Stream } from "effect"
import { newSeal, type PassphraseSeal } from "./camera-seal.ts"

/** About 100 KiB of a document. */
const pageSize = 100

const plain = (camera: Camera): BackupCamera => ({
  id: camera.id,
  name: camera.name,
  description: camera.description,
  driver: camera.driver,
  host: camera.host,
  port: camera.port,
  enabled: camera.enabled,
  username: camera.username,
  hasPassword: camera.hasPassword,
  sealedPassword: null,
  tags: camera.tags,
  manufacturer: camera.manufacturer,
  model: camera.model,
  firmware: camera.firmware,
  serial: camera.serial,
  channels: camera.channels.map(({ active, id, name, streams }) => ({
    id,
    name,
    active,
    streams: streams.map((stream): BackupStream => ({
      id: stream.id,
      role: stream.role,
      sourceUrl: stream.sourceUrl,
      transport: stream.transport,
      enabled: stream.enabled,
      onDemand: stream.onDemand,
      username: stream.username,
      hasPassword: stream.hasPassword,
      sealedPassword: null,
    })),
  })),
})

const make = Effect.gen(function*() {
  const [store, vault] = yield* Effect.all([CameraStore, Vault])

  /** From the vault's seal to the passphrase's. */
  const resealed = (seal: PassphraseSeal, sealed: string | undefined, context: string, target: string) =>
    sealed === undefined ?
      Effect.succeed(null) :
      vault.open(context, sealed).pipe(
        Effect.map((secret): string | null => seal.seal(target, secret)),
        Effect.catchTag("VaultError", (error) =>
          Effect.as(Effect.logError("A password cannot be exported", { context, reason: error.reason }), null)),
      )
  const withPasswords = Effect.fnUntraced(function*(cameras: ReadonlyArray<BackupCamera>, seal: PassphraseSeal) {
    const secrets = yield* store.secrets(cameras.map(({ id }) => id))
    return yield* Effect.forEach(cameras, (camera) =>
      Effect.gen(function*() {
        const channels = yield* Effect.forEach(camera.channels, (channel) =>
          Effect.map(
            Effect.forEach(channel.streams, (stream) =>
              Effect.map(
                resealed(seal, secrets.get(stream.id), streamSecret(stream.id), backupSecret(camera, stream)),
                (sealedPassword) => ({ ...stream, sealedPassword }),
              )),
            (streams) => ({ ...channel, streams }),
          ))
        const context = cameraSecret(camera.id)
        const sealedPassword = yield* resealed(seal, secrets.get(camera.id), context, backupSecret(camera))
        return { ...camera, sealedPassword, channels }
      }))
  })

  return CameraBackups.of({
    export: Effect.fn("CameraBackups.export")(function*(passphrase: Redacted.Redacted | null) {
      const seal = passphrase === null ? null : yield* newSeal(passphrase)
      const pages = Stream.paginate(
        null as { readonly position: number; readonly id: string } | null,
        Effect.fnUntraced(function*(after) {
          const cameras = yield* store.list({}, pageSize, after, "all")
          const last = cameras.at(-1)
          const page = cameras.map(plain)
          return [
            [seal === null ? page : yield* withPasswords(page, seal)],
            last === undefined || cameras.length < pageSize ?
              Option.none() :
              Option.some({ position: last.position, id: last.id }),
          ] as const
        }),
      )
      return { sealing: seal?.sealing ?? null, pages }
    }),
  })
})

export const layer = Layer.effect(CameraBackups, make)
