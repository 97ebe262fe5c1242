/**
 * The entity `Camera`: the single writer of a camera's configuration, and the hand that assigns its captures on the node that
 * serves it. A control facade: when it stops, captures go on.
 *
 * Invariants
 * 1. A handler answers within its time limit, with `DependencyUnavailable` if it must.
 * 2. A configuration that was written is not taken back because the capture could not be assigned: the activation loop
 *    (`camera-activation.ts`) assigns it later.
 * 3. Nothing is assigned, withdrawn or written without the epoch with which this node serves the camera's slot.
 */
import { Clock, Duration, Effect } from "effect"
import { Entity } from "effect/cluster"
import { CameraActor } from "#actors/protocol/camera.ts"
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { type Camera, CameraNotFound, type Channel, ChannelNotFound, type CameraStream, StreamNotFound } from "#schema/camera.ts"
import type { CameraId, ChannelId, StreamId } from "#schema/common.ts"
import { parseEntityId, type StaleEpoch } from "#schema/ownership.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Vault } from "#schema/vault.ts"
import { compose } from "./camera-assignment.ts"

/** Longest wait of a handler: several statements and a write to the local disk; more means that something is away. */
const handlerLimit = Duration.seconds(10)

/** This node does not serve the camera (any more); who asks again reaches its owner. */
const moved = () => new DependencyUnavailable({ dependency: "node", message: "The camera is moving to another node; try again." })

/** Answers in time, and tells a former owner's caller to ask again. */
const limited = <A, E, R>(work: Effect.Effect<A, E | StaleEpoch, R>): Effect.Effect<A, Exclude<E, StaleEpoch> | DependencyUnavailable, R> =>
  Effect.timeoutOrElse(work, {
    duration: handlerLimit,
    orElse: () => Effect.fail(new DependencyUnavailable({ dependency: "database", message: "The camera's owner did not answer in time." })),
  }).pipe(Effect.catchTag("StaleEpoch" as never, () => Effect.fail(moved()))) as never

/** Assigns what the database says of the camera, and withdraws what it no longer says. */
export const reconcile = Effect.fnUntraced(function*(slot: Parameters<Ownership["Service"]["epochOf"]>[0], id: CameraId) {
  const [ownership, store, plans, supervisor] = yield* Effect.all([Ownership, CameraStore, RecordingPlans, RecorderSupervisor])
  const epoch = yield* ownership.epochOf(slot)
  if (epoch === null) return yield* moved()
  const [rows, planned, current] = yield* Effect.all([
    store.captures({ cameraId: id }),
    plans.ofCameras([id]),
    supervisor.assignments,
  ])
  const wanted = yield* compose(rows, planned, { nodeId: ownership.nodeId, epoch })
  const kept = new Set(wanted.map((assignment) => assignment.streamId))
  const gone = current.filter((assignment) => assignment.cameraId === id && !kept.has(assignment.streamId))
  yield* Effect.forEach(wanted, (assignment) => supervisor.assign(assignment), { discard: true })
  yield* Effect.forEach(gone, (assignment) => supervisor.withdraw(assignment.streamId, epoch), { discard: true })
}, Effect.catchTag("StaleAssignment", (stale) =>
  Effect.logWarning("A capture is already assigned with a newer epoch", { streamId: stale.streamId, epoch: stale.epoch, inForce: stale.inForce })))

const handlers = Effect.gen(function*() {
  const store = yield* CameraStore
  const ownership = yield* Ownership
  const services = yield* Effect.context<Ownership | CameraStore | RecordingPlans | RecorderSupervisor | Vault>()
  const address = yield* Entity.CurrentAddress
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a camera`))
  const { slot } = home

  const start = (id: CameraId) => Effect.provideContext(reconcile(slot, id), services)
  const writer = Effect.gen(function*() {
    const epoch = yield* ownership.epochOf(slot)
    if (epoch === null) return yield* moved()
    return { slot, epoch, nowMs: yield* Clock.currentTimeMillis }
  })
  /** After a write: assigns, and leaves what fails to the activation loop. */
  const assign = (id: CameraId) =>
    Effect.catchCause(start(id), (cause) => Effect.logWarning("A changed camera will be assigned later", { cameraId: id, cause }))
  const camera = (id: CameraId): Effect.Effect<Camera, CameraNotFound | DependencyUnavailable> =>
    Effect.flatMap(store.get(id), (found) => found === null ? Effect.fail(new CameraNotFound({ id })) : Effect.succeed(found))
  const channel = (id: ChannelId): Effect.Effect<Channel, ChannelNotFound | DependencyUnavailable> =>
    Effect.gen(function*() {
      const cameraId = yield* store.cameraOf({ channelId: id })
      const found = cameraId === null ? null : yield* store.get(cameraId)
      return found?.channels.find((one) => one.id === id) ?? (yield* new ChannelNotFound({ id }))
    })
  const stream = (id: StreamId): Effect.Effect<CameraStream, StreamNotFound | DependencyUnavailable> =>
    Effect.gen(function*() {
      const cameraId = yield* store.cameraOf({ streamId: id })
      const found = cameraId === null ? null : yield* store.get(cameraId)
      return found?.channels.flatMap((one) => one.streams).find((one) => one.id === id) ?? (yield* new StreamNotFound({ id }))
    })
  const cameraId = home.id as CameraId

  return CameraActor.of({
    Start: ({ payload }) => limited(start(payload.id)),
    Create: ({ payload: { camera: made } }) =>
      limited(Effect.gen(function*() {
        yield* store.insert(yield* writer, made)
        yield* assign(made.id)
        return yield* Effect.catchTag(camera(made.id), "CameraNotFound", (gone) => Effect.die(gone))
      })),
    Update: ({ payload: { change, id, ifMatch } }) =>
      limited(Effect.gen(function*() {
        yield* store.update(yield* writer, id, change, ifMatch)
        yield* assign(id)
        return yield* camera(id)
      })),
    Delete: ({ payload: { id, ifMatch } }) =>
      limited(Effect.gen(function*() {
        yield* store.remove(yield* writer, id, ifMatch)
        yield* assign(id)
      })),
    AddChannel: ({ payload: { channel: made, id } }) =>
      limited(Effect.gen(function*() {
        yield* store.addChannel(yield* writer, id, made)
        yield* assign(id)
        return yield* channel(made.id).pipe(Effect.catchTag("ChannelNotFound", () => Effect.fail(new CameraNotFound({ id }))))
      })),
    UpdateChannel: ({ payload: { active, channelId, ifMatch, name } }) =>
      limited(Effect.gen(function*() {
        yield* store.updateChannel(yield* writer, channelId, { name, active }, ifMatch)
        yield* assign(cameraId)
        return yield* channel(channelId)
      })),
    ToggleChannel: ({ payload: { active, channelId, ifMatch } }) =>
      limited(Effect.gen(function*() {
        yield* store.updateChannel(yield* writer, channelId, { name: null, active }, ifMatch)
        yield* assign(cameraId)
        return yield* channel(channelId)
      })),
    DeleteChannel: ({ payload: { channelId, ifMatch } }) =>
      limited(Effect.gen(function*() {
        yield* store.removeChannel(yield* writer, channelId, ifMatch)
        yield* assign(cameraId)
      })),
    AddStream: ({ payload: { channelId, stream: made } }) =>
      limited(Effect.gen(function*() {
        yield* store.addStream(yield* writer, channelId, made)
        yield* assign(cameraId)
        return yield* stream(made.id).pipe(
          Effect.catchTag("StreamNotFound", () => Effect.fail(new ChannelNotFound({ id: channelId }))),
        )
      })),
    UpdateStream: ({ payload: { change, ifMatch, streamId } }) =>
      limited(Effect.gen(function*() {
        yield* store.updateStream(yield* writer, streamId, change, ifMatch)
        yield* assign(cameraId)
        return yield* stream(streamId)
      })),
    DeleteStream: ({ payload: { ifMatch, streamId } }) =>
      limited(Effect.gen(function*() {
        yield* store.removeStream(yield* writer, streamId, ifMatch)
        yield* assign(cameraId)
      })),
  })
})

/** Stays once it is there; a defect of one message is told to its caller and harms no other. */
export const layer = CameraActor.toLayer(handlers, { maxIdleTime: Duration.infinity, disableFatalDefects: true })
