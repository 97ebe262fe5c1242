/**
 * The entity `CameraDevice`: keeps the connection with a camera that has a protocol of its own, and the service `CameraDevices`, which
 * finds it.
 *
 * Invariants
 * 1. A handler answers within {@link handlerLimit}.
 * 2. What was learnt of a device (its clock, its services) is forgotten when its address or credentials change, when it cannot be
 *    reached and when it refuses: the next call connects anew, and what it refused on a kept connection is asked once more.
 * 3. An entity lives within one epoch: its device is told nothing with another one, and nothing while this node has no control of it
 *    ({@link FailoverGate}), however long a command waited for its turn.
 * 4. At most {@link waiting} calls of a camera wait; more are turned away.
 */
import { AccessTokens } from "#actors/protocol/auth.ts"
import { CameraDeviceActor, type CameraDeviceClient, CameraDevices } from "#actors/protocol/camera-device.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { ask } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { type Device, DeviceDrivers } from "#media/device.ts"
import { DeviceDiscovery } from "#media/discovery.ts"
import { CameraUnreachable } from "#schema/camera-device.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { CameraId } from "#schema/common.ts"
import { entityId, parseEntityId, type Slot } from "#schema/ownership.ts"
import { Vault } from "#schema/vault.ts"
import { Duration, Effect, Layer, Semaphore } from "effect"
import { Entity } from "effect/cluster"
import { configHandlers } from "./camera-config.ts"
import { type DeviceOperation, doorOf, requestTimeoutMs } from "./camera-connect.ts"
import { makePictures } from "./camera-picture.ts"
import { makePtzHandlers, type OnDevice } from "./camera-ptz.ts"

/** Shorter than the wait of whoever asks, so that the camera's own word comes first. */
const handlerLimit = Duration.seconds(12)
/** Calls that wait for one camera: a pad that repeats its command five times a second for as long as a call may take. */
const waiting = 64
/** An entity that nobody asks forgets its connection. */
const idleTime = Duration.minutes(10)

interface Held {
  /** Address and sealed credentials, as they stood when it was connected. */
  readonly key: string
  readonly device: Device
}

/** Whether the device may be told something now, by this entity with the epoch in which it began. */
const makeAllow = Effect.fnUntraced(function*(slot: Slot) {
  const [ownership, gate] = yield* Effect.all([Ownership, FailoverGate])
  const epoch = yield* ownership.epochOf(slot)
  const served = { slot, epoch: epoch ?? 0 }
  return (what: "command" | "reset") =>
    (what === "reset" ? gate.mayDelete(served) : gate.mayControl(served)).pipe(
      Effect.catchTag("DependencyUnavailable", ({ message }) =>
        Effect.fail(new CameraUnreachable({ reason: "busy", detail: message }))),
    )
})

/** The device, connected when it is first needed. */
const makeConnection = Effect.gen(function*() {
  const [store, vault, drivers] = yield* Effect.all([CameraStore, Vault, DeviceDrivers])
  const address = yield* Entity.CurrentAddress
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a camera`))
  const id = CameraId.make(home.id)
  const allow = yield* makeAllow(home.slot)
  const connecting = yield* Semaphore.make(1)
  let held: Held | null = null

  const device = Effect.fnUntraced(function*(operation: DeviceOperation) {
    const { driver, key, options } = yield* doorOf({ store, vault, drivers }, id, operation)
    if (held !== null && held.key === key) return held.device
    const made = yield* driver.connect({ ...yield* options(requestTimeoutMs), allow })
    held = { key, device: made }
    return made
  })

  const on: OnDevice = (operation, work) => {
    const once = Semaphore.withPermit(connecting)(device(operation)).pipe(
      Effect.flatMap(work),
      Effect.tapError((error) =>
        Effect.sync(() => {
          if (error._tag === "CameraUnreachable" || error._tag === "CameraAuthFailed") held = null
        })
      ),
    )
    return Effect.suspend(() => {
      const before = held
      // A clock that was set meanwhile makes our signatures stale: what a kept connection was refused is asked once more on a new one.
      return Effect.catchIf(once, (error) => error._tag === "CameraAuthFailed" && before !== null, () => once)
    }).pipe(Effect.timeoutOrElse({
      duration: handlerLimit,
      orElse: () => {
        held = null
        return Effect.fail(new CameraUnreachable({ reason: "timeout", detail: "it did not answer in time" }))
      },
    }))
  }
  return { on, config: configHandlers(on, store, id) }
})

export interface CameraDeviceOptions {
  /** How long a camera is kept for whoever moved it last. */
  readonly holdMs: number
}

const makeHandlers = Effect.fnUntraced(function*({ holdMs }: CameraDeviceOptions) {
  const { config, on } = yield* makeConnection
  const ptz = yield* makePtzHandlers(on, yield* AccessTokens, { holdMs, limit: handlerLimit })
  return CameraDeviceActor.of({
    Capabilities: () => on("capabilities", (device) => device.capabilities),
    Channels: () => on("channels", (device) => device.channels),
    Profiles: () => on("profiles", (device) => device.profiles),
    VideoEncoders: () => on("video encoders", (device) => device.videoEncoders),
    VideoEncoder: ({ payload }) => on("video encoders", (device) => device.videoEncoder(payload.token)),
    VideoEncoderOptions: ({ payload }) => on("video encoders", (device) => device.videoEncoderOptions(payload.token)),
    SetVideoEncoder: ({ payload }) =>
      on("video encoders", (device) => device.setVideoEncoder(payload.token, payload.change)),
    ReadClock: () => on("date and time", (device) => device.clock),
    SetClock: ({ payload }) => on("date and time", (device) => device.setClock(payload.change)),
    Reboot: () => on("a restart", (device) => device.reboot),
    Imaging: ({ payload }) => on("imaging", (device) => device.imaging(payload.source)),
    ImagingOptions: ({ payload }) => on("imaging", (device) => device.imagingOptions(payload.source)),
    SetImaging: ({ payload }) => on("imaging", (device) => device.setImaging(payload.source, payload.change)),
    ...ptz,
    ...config,
  })
})

/** Calls of one camera run side by side; the driver lets them to the device one by one. */
export const entityLayer = (options: CameraDeviceOptions) =>
  CameraDeviceActor.toLayer(makeHandlers(options), {
    maxIdleTime: idleTime,
    concurrency: waiting,
    mailboxCapacity: waiting,
    disableFatalDefects: true,
  })

const make = Effect.gen(function*() {
  const [store, vault, drivers] = yield* Effect.all([CameraStore, Vault, DeviceDrivers])
  const clientOf = yield* CameraDeviceActor.client
  const { probe } = yield* DeviceDiscovery
  const askCamera: CameraDevices["Service"]["ask"] = <A, E extends { readonly _tag: string }>(
    id: CameraId,
    message: (camera: CameraDeviceClient) => Effect.Effect<A, E>,
  ) =>
    Effect.gen(function*() {
      const home = yield* store.home(id)
      if (home === null) return yield* new CameraNotFound({ id })
      return yield* ask(message(clientOf(entityId(home.slot, id))))
    }) as never
  const picture = yield* makePictures({
    store,
    vault,
    drivers,
    uriOf: (id, profile) => Effect.map(askCamera(id, (camera) => camera.Snapshot({ profile })), ({ uri }) => uri),
  })
  return CameraDevices.of({
    ask: askCamera,
    picture,
    discover: Effect.fn("CameraDevices.discover")(function*(waitMs: number) {
      const found = yield* probe(waitMs)
      const known = yield* store.atHosts([...new Set(found.map(({ host }) => host))])
      return found.map((device) => ({
        ...device,
        cameraId: known.find(({ host, port }) => host === device.host && port === device.port)?.id ?? null,
      }))
    }),
  })
})

export const layer = Layer.effect(CameraDevices, make)
