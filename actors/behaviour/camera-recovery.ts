/**
 * The service `CameraRecovery`: makes cameras again, with the ids they had, through their entities.
 *
 * Invariants
 * 1. What is there is not changed; what cannot be made is told in the log and left out.
 * 2. Credentials that all streams of a camera share are the camera's own, as people enter them.
 */
import { CameraRecovery, type FoundCamera, type FoundStream } from "#actors/protocol/camera-recovery.ts"
import { CameraActor } from "#actors/protocol/camera.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { ask, later } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { cameraSecret, type NewCamera, type NewChannel, type NewStream, streamSecret } from "#schema/camera-change.ts"
import type { CameraId } from "#schema/common.ts"
import { entityId, type Slot } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { Effect, Layer, Redacted } from "effect"

/** Stands for the address of a camera that only its footage remembers; no such host can exist (RFC 2606, section 2). */
export const forgottenUrl = "rtsp://recovered.invalid/"

type Source = NonNullable<FoundStream["source"]>

/** The credentials of every stream whose address is known, where they are all the same. */
export const sharedCredentials = (camera: FoundCamera): Pick<Source, "username" | "password"> | null => {
  const sources = camera.channels.flatMap(({ streams }) => streams.flatMap(({ source }) => source ?? []))
  const textOf = ({ password, username }: Pick<Source, "username" | "password">) =>
    JSON.stringify([username, password === null ? null : Redacted.value(password)])
  const [first] = sources
  return first !== undefined && sources.every((source) => textOf(source) === textOf(first)) ? first : null
}

/** Without any stream that is on, the camera itself was switched off. */
export const switchedOn = (camera: FoundCamera): boolean =>
  camera.channels.some(({ streams }) => streams.some(({ source }) => source?.enabled === true))

const making = (vault: Vault["Service"]) => {
  const seal = (context: string, password: Redacted.Redacted | null) =>
    password === null ? Effect.succeed(null) : vault.seal(context, password)
  const newStream = Effect.fnUntraced(function*({ id, role, source }: FoundStream, own: boolean, cameraOn: boolean) {
    const given = own ? source : null
    return {
      id,
      role,
      sourceUrl: source?.url ?? forgottenUrl,
      transport: source?.transport ?? "tcp",
      // In a camera that is off, streams are not off besides.
      enabled: source !== null && (source.enabled || !cameraOn),
      username: given?.username ?? null,
      sealedPassword: yield* seal(streamSecret(id), given?.password ?? null),
    } satisfies NewStream
  })
  const newChannel = Effect.fnUntraced(
    function*({ id, name, streams }: FoundCamera["channels"][number], own: boolean, cameraOn: boolean) {
      return {
        id,
        name: name === "" ? null : name,
        active: true,
        streams: yield* Effect.forEach(streams, (stream) => newStream(stream, own, cameraOn)),
      } satisfies NewChannel
    },
  )
  const newCamera = Effect.fnUntraced(function*(found: FoundCamera, homeNodeId: NewCamera["homeNodeId"]) {
    const shared = sharedCredentials(found)
    const on = switchedOn(found)
    return {
      id: found.id,
      homeNodeId,
      name: found.name,
      description: "",
      driver: "rtsp",
      host: null,
      port: null,
      enabled: on,
      username: shared?.username ?? null,
      sealedPassword: yield* seal(cameraSecret(found.id), shared?.password ?? null),
      channels: yield* Effect.forEach(found.channels, (channel) => newChannel(channel, shared === null, on)),
    } satisfies NewCamera
  })
  return { newStream, newChannel, newCamera }
}

const make = Effect.gen(function*() {
  const [store, ownership, vault, clientOf] = yield* Effect.all([CameraStore, Ownership, Vault, CameraActor.client])
  const { newCamera, newChannel, newStream } = making(vault)

  /** What a known camera lacks. */
  const complete = Effect.fnUntraced(function*(found: FoundCamera, slot: Slot) {
    const client = clientOf(entityId(slot, found.id))
    const known = yield* store.get(found.id)
    let made = false
    for (const channel of found.channels) {
      const existing = known?.channels.find(({ id }) => id === channel.id)
      if (existing === undefined) {
        yield* ask(client.AddChannel({ id: found.id, channel: yield* newChannel(channel, true, true) }))
        made = true
        continue
      }
      for (const stream of channel.streams) {
        if (existing.streams.some(({ id }) => id === stream.id)) continue
        yield* ask(client.AddStream({ channelId: channel.id, stream: yield* newStream(stream, true, true) }))
        made = true
      }
    }
    return made
  })

  const recover = Effect.fn("CameraRecovery.recover")(function*(found: FoundCamera) {
    const home = yield* store.home(found.id)
    if (home !== null) return { ...home, made: yield* complete(found, home.slot) }
    const client = clientOf(ownership.entityId(found.id))
    yield* ask(client.Create({ camera: yield* newCamera(found, ownership.nodeId) }))
    return { cameraId: found.id, slot: ownership.slot, made: true }
  }, (effect, found) =>
    Effect.catchTag(later(effect), [
      "CameraNotFound",
      "ChannelNotFound",
      "ChannelsExhausted",
      "StreamExists",
      "VersionConflict",
    ], (error) =>
      Effect.as(
        Effect.logWarning("A camera could not be made again as it was", {
          cameraId: found.id,
          reason: error.message,
        }),
        null,
      )))

  const raiseEpochs = Effect.fnUntraced(
    function*(captures: ReadonlyArray<{ readonly cameraId: CameraId; readonly epoch: number }>) {
      const mine = (yield* ownership.owners).filter((owner) => owner.nodeId === ownership.nodeId)
      const homes = new Map((yield* store.versions(mine.map(({ slot }) => slot))).map(({ id, slot }) => [id, slot]))
      const unheard = yield* store.strangers(captures.map(({ cameraId }) => cameraId))
      for (const { epoch, slot } of mine) {
        const newest = captures.reduce((most, { cameraId, epoch: told }) => {
          const home = homes.get(cameraId) ?? (unheard.has(cameraId) ? ownership.slot : null)
          return home === slot ? Math.max(most, told) : most
        }, epoch)
        if (newest > epoch) yield* ownership.raise(slot, newest)
      }
    },
    Effect.catchTag("SqlError", () =>
      Effect.fail(
        new DependencyUnavailable({
          dependency: "database",
          message: "The database does not answer; try again in a moment.",
        }),
      )),
  )

  return CameraRecovery.of({
    strangers: store.strangers,
    raiseEpochs,
    recover,
  })
})

export const layer = Layer.effect(CameraRecovery, make)
