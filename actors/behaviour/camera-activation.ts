/**
 * The activation loop: sends `Start` to every camera this node serves whose configuration, recordings or epoch changed since
 * it was last started, and withdraws the captures of cameras that are no longer its own.
 *
 * Invariants
 * 1. Nothing is withdrawn but after a successful read of ownership, cameras and recordings: an outage stops no capture.
 *    Nor is what the database has never heard of: a lost or older database is no deletion.
 * 2. One camera that does not start does not hold up the others, and is tried again at the next round.
 * 3. The cameras that are at home here are recorded here whoever serves them (recording asks nobody), and those that are on their way
 *    home as long as failover holds them.
 */
import { CameraActor } from "#actors/protocol/camera.ts"
import { CaptureHolds } from "#actors/protocol/federation-hold.ts"
import { RecordingPlans } from "#actors/protocol/record-plan.ts"
import { CameraStore } from "#actors/store/camera.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import type { CameraId } from "#schema/common.ts"
import { entityId } from "#schema/ownership.ts"
import type { RecordingPlan } from "#schema/record-config.ts"
import { Duration, Effect, Layer, Schedule, Schema, Stream } from "effect"

/** A change that no entity was told of (a restored database, a failed assignment) is noticed within this. */
const roundEvery = Duration.seconds(5)
/** Cameras started at once; each costs three statements and a write to the local disk. */
const concurrency = 8
/** Longest wait for an entity to start; its own limit is shorter. */
const startLimit = Duration.seconds(15)

const planText = Schema.encodeSync(
  Schema.fromJsonString(Schema.Array(Schema.Array(Schema.Union([Schema.String, Schema.Number, Schema.Boolean])))),
)

/** Changes whenever the assignments of the camera would. */
const markOf = (version: number, epoch: number, plans: ReadonlyArray<RecordingPlan>): string =>
  `${version}/${epoch}/${
    planText(
      plans.map((plan) => [
        plan.recordingId,
        plan.recordingToken,
        plan.channelId,
        plan.role,
        plan.enabled,
        plan.retentionDays,
        plan.maxBytes,
      ])
        .sort((a, b) => (a[0]! < b[0]! ? -1 : 1)),
    )
  }`

/** One round; `started` remembers the mark of each camera that was started. */
export const round = Effect.fnUntraced(function*(started: Map<CameraId, string>) {
  const [holds, ownership, store, plans, supervisor] = yield* Effect.all([
    CaptureHolds,
    Ownership,
    CameraStore,
    RecordingPlans,
    RecorderSupervisor,
  ])
  // Before the database is read: a camera is written before it is assigned, so whatever is assigned now is found there.
  const assigned = yield* supervisor.assignments
  const mine = (yield* ownership.owners).filter((owner) => owner.nodeId === ownership.nodeId)
  const epochs = new Map(mine.map((owner) => [owner.slot, owner.epoch]))
  const cameras = mine.length === 0 ? [] : yield* store.versions(mine.map((owner) => owner.slot))
  const planned = cameras.length === 0 ? [] : yield* plans.ofCameras(cameras.map((camera) => camera.id))
  const known = new Set(cameras.map((camera) => camera.id))
  const others = new Set([ownership.slot, ...yield* holds.held].filter((slot) => !epochs.has(slot)))
  const staying = others.size === 0 ? [] : yield* store.versions([...others])
  const stays = new Set([...known, ...staying.map((camera) => camera.id)])

  const elsewhere = assigned.filter((assignment) => !stays.has(assignment.cameraId))
  const strangers = yield* store.strangers(elsewhere.map((assignment) => assignment.cameraId))
  const foreign = elsewhere.filter((assignment) => !strangers.has(assignment.cameraId))
  yield* Effect.forEach(foreign, (assignment) =>
    supervisor.withdraw(assignment.streamId, assignment.epoch).pipe(
      Effect.tap(
        Effect.logInfo("A capture of a camera that is not this node's was stopped", { streamId: assignment.streamId }),
      ),
      // Assigned anew in this moment: the next round looks at it.
      Effect.catchTag("StaleAssignment", () => Effect.void),
    ), { discard: true })
  for (const id of started.keys()) if (!known.has(id)) started.delete(id)

  const clientOf = yield* CameraActor.client
  yield* Effect.forEach(cameras, ({ id, slot, version }) => {
    const mark = markOf(version, epochs.get(slot) ?? 0, planned.filter((plan) => plan.cameraId === id))
    if (started.get(id) === mark) return Effect.void
    return clientOf(entityId(slot, id)).Start({ id }).pipe(
      Effect.timeout(startLimit),
      Effect.tap(Effect.sync(() => started.set(id, mark))),
      Effect.catchCause((cause) =>
        Effect.logWarning("A camera could not be started; it will be tried again", { cameraId: id, cause })
      ),
    )
  }, { concurrency, discard: true })
})

/** Rounds while the layer lives: at every change of ownership or of what is held, and every few seconds. */
export const layer = Layer.effectDiscard(Effect.gen(function*() {
  const ownership = yield* Ownership
  const holds = yield* CaptureHolds
  const started = new Map<CameraId, string>()
  const changed = Stream.merge(ownership.changes, Stream.drop(holds.changes, 1))
  yield* Stream.merge(changed, Stream.fromSchedule(Schedule.spaced(roundEvery))).pipe(
    Stream.runForEach(() =>
      round(started).pipe(
        Effect.catchTag(
          "DependencyUnavailable",
          (away) =>
            Effect.logDebug("Cameras are not looked at while something is away", { dependency: away.dependency }),
        ),
        Effect.catchCause((cause) => Effect.logError("A round of the activation loop failed", cause)),
      )
    ),
    Effect.forkScoped,
  )
}))
