/**
 * The entity `Camera`: the single writer of a camera's configuration, and the hand that assigns its captures on the node that
 * serves it. A control facade: when it stops, captures go on.
 *
 * Invariants
 * 1. A handler answers within its time limit, with `DependencyUnavailable` if it must.
 * 2. A configuration that was written is not taken back because the capture could not be assigned: the activation loop
 *    (`camera-activation.ts`) assigns it later.
 * 3. Nothing is assigned, withdrawn or written without the epoch with which this node serves the camera's slot.
 * 4. Nothing is changed while another node has control of the camera, and nothing deleted during a reroute ({@link FailoverGate}).
 */
import { CameraActor } from "#actors/protocol/camera.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import type { Writer } from "#actors/store/camera-rows.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { moving, onBehalf, serve } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { CameraNotFound, ChannelNotFound, StreamNotFound } from "#schema/camera.ts"
import { CameraId, type ChannelId, type StreamId } from "#schema/common.ts"
import { parseEntityId, type Slot } from "#schema/ownership.ts"
import type { Vault } from "#schema/vault.ts"
import { Clock, Duration, Effect } from "effect"
import { Entity } from "effect/cluster"
import { compose } from "./camera-assignment.ts"

/** Longest wait of a handler: several statements and a write to the local disk; more means that something is away. */
const handlerLimit = Duration.seconds(10)

/**
 * Assigns what the database says of the camera, and withdraws what it no longer says. Streams and recordings that it has never
 * heard of go on as they are: a lost or older database is no deletion.
 */
export const reconcile = Effect.fnUntraced(
  function*(slot: Slot, id: CameraId) {
    const [ownership, store, plans, supervisor] = yield* Effect.all([
      Ownership,
      CameraStore,
      RecordingPlans,
      RecorderSupervisor,
    ])
    const epoch = yield* ownership.epochOf(slot)
    if (epoch === null) return yield* moving()
    const [rows, planned, current] = yield* Effect.all([
      store.captures({ cameraId: id }),
      plans.ofCameras([id]),
      supervisor.assignments,
    ])
    const composed = yield* compose(rows, planned, { nodeId: ownership.nodeId, epoch })
    const own = current.filter((assignment) => assignment.cameraId === id)
    const recorded = new Map(
      own.flatMap(({ recording, streamId }) => recording === null ? [] : [[streamId, recording]]),
    )
    const unheard = yield* plans.strangers(
      composed.flatMap((one) => one.recording === null ? recorded.get(one.streamId)?.recordingId ?? [] : []),
    )
    const wanted = composed.map((assignment) => {
      const recording = assignment.recording ?? recorded.get(assignment.streamId) ?? null
      return recording === null || assignment.recording !== null || !unheard.has(recording.recordingId) ?
        assignment :
        { ...assignment, recording }
    })
    const kept = new Set(wanted.map((assignment) => assignment.streamId))
    const left = own.filter((assignment) => !kept.has(assignment.streamId))
    const strangers = yield* store.strangers(left.map((assignment) => assignment.streamId))
    const gone = left.filter((assignment) => !strangers.has(assignment.streamId))
    yield* Effect.forEach(wanted, (assignment) => supervisor.assign(assignment), { discard: true })
    yield* Effect.forEach(gone, (assignment) => supervisor.withdraw(assignment.streamId, epoch), { discard: true })
  },
  Effect.catchTag("StaleAssignment", (stale) =>
    Effect.logWarning("A capture is already assigned with a newer epoch", {
      streamId: stale.streamId,
      epoch: stale.epoch,
      inForce: stale.inForce,
    })),
)

interface Tagged {
  readonly _tag: string
}

/** What the handlers of one camera are made of. */
const makeTools = Effect.gen(function*() {
  const store = yield* CameraStore
  const ownership = yield* Ownership
  const gate = yield* FailoverGate
  const services = yield* Effect.context<Ownership | CameraStore | RecordingPlans | RecorderSupervisor | Vault>()
  const address = yield* Entity.CurrentAddress
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a camera`))
  const { slot } = home
  const cameraId = CameraId.make(home.id)

  const start = Effect.provideContext(reconcile(slot, cameraId), services)
  const writer = Effect.gen(function*() {
    const epoch = yield* ownership.epochOf(slot)
    if (epoch === null) return yield* moving()
    return { slot, epoch, nowMs: yield* Clock.currentTimeMillis }
  })
  const camera = Effect.flatMap(
    store.get(cameraId),
    (found) => found === null ? Effect.fail(new CameraNotFound({ id: cameraId })) : Effect.succeed(found),
  )
  const write = <A, E extends Tagged, B, F extends Tagged, G extends Tagged>(
    allowed: (by: Writer) => Effect.Effect<unknown, G>,
    work: (by: Writer) => Effect.Effect<A, E>,
    answer: Effect.Effect<B, F>,
  ) =>
    serve(
      handlerLimit,
      Effect.gen(function*() {
        const by = yield* writer
        yield* allowed(by)
        yield* work(by)
        yield* Effect.catchCause(
          start,
          (cause) => Effect.logWarning("A changed camera will be assigned later", { cameraId, cause }),
        )
        return yield* answer
      }),
    )
  return {
    store,
    start,
    camera,
    channel: (id: ChannelId) =>
      Effect.flatMap(camera, ({ channels }) => {
        const found = channels.find((one) => one.id === id)
        return found === undefined ? Effect.fail(new ChannelNotFound({ id })) : Effect.succeed(found)
      }).pipe(Effect.catchTag("CameraNotFound", () => Effect.fail(new ChannelNotFound({ id })))),
    stream: (id: StreamId) =>
      Effect.flatMap(camera, ({ channels }) => {
        const found = channels.flatMap((channel) => channel.streams).find((one) => one.id === id)
        return found === undefined ? Effect.fail(new StreamNotFound({ id })) : Effect.succeed(found)
      }).pipe(Effect.catchTag("CameraNotFound", () => Effect.fail(new StreamNotFound({ id })))),
    /** Writes under the epoch in force, assigns, and answers what stands there then; what cannot be assigned is left to the loop. */
    change: <A, E extends Tagged, B, F extends Tagged>(
      work: (by: Writer) => Effect.Effect<A, E>,
      answer: Effect.Effect<B, F>,
    ) => write(gate.mayChange, work, answer),
    /** As `change`, of what goes for good. */
    remove: <A, E extends Tagged>(work: (by: Writer) => Effect.Effect<A, E>) =>
      write(gate.mayDelete, work, Effect.void),
  }
})

const handlers = Effect.map(
  makeTools,
  ({ camera, change, channel, remove, start, store, stream }) =>
    CameraActor.of(onBehalf({
      Start: () => serve(handlerLimit, start),
      Create: ({ payload: { camera: made } }) =>
        change((by) => store.insert(by, made), Effect.catchTag(camera, "CameraNotFound", (gone) => Effect.die(gone))),
      Update: ({ payload: { change: to, id, ifMatch } }) => change((by) => store.update(by, id, to, ifMatch), camera),
      Delete: ({ payload: { id, ifMatch } }) => remove((by) => store.remove(by, id, ifMatch)),
      AddChannel: ({ payload: { channel: made, id } }) =>
        change(
          (by) => store.addChannel(by, id, made),
          Effect.catchTag(channel(made.id), "ChannelNotFound", () => Effect.fail(new CameraNotFound({ id }))),
        ),
      UpdateChannel: ({ payload: { active, channelId, ifMatch, name } }) =>
        change((by) => store.updateChannel(by, channelId, { name, active }, ifMatch), channel(channelId)),
      ToggleChannel: ({ payload: { active, channelId, ifMatch } }) =>
        change((by) => store.updateChannel(by, channelId, { name: null, active }, ifMatch), channel(channelId)),
      DeleteChannel: ({ payload: { channelId, ifMatch } }) =>
        remove((by) => store.removeChannel(by, channelId, ifMatch)),
      SetCapability: ({ payload: { by: user, change: to, channelId, id } }) =>
        change((by) => store.setCapability(by, { cameraId: id, channelId }, to, user), Effect.void),
      AddStream: ({ payload: { channelId, stream: made } }) =>
        change(
          (by) => store.addStream(by, channelId, made),
          Effect.catchTag(stream(made.id), "StreamNotFound", () => Effect.fail(new ChannelNotFound({ id: channelId }))),
        ),
      UpdateStream: ({ payload: { change: to, ifMatch, streamId } }) =>
        change((by) => store.updateStream(by, streamId, to, ifMatch), stream(streamId)),
      DeleteStream: ({ payload: { ifMatch, streamId } }) => remove((by) => store.removeStream(by, streamId, ifMatch)),
    })),
)

/** Stays once it is there; a defect of one message is told to its caller and harms no other. */
export const layer = CameraActor.toLayer(handlers, { maxIdleTime: Duration.infinity, disableFatalDefects: true })
