/**
 * The entity `Recording`: the single writer of a recording's configuration. Whatever changes is told to the entity of its
 * camera, which assigns the capture.
 *
 * Invariants
 * 1. A handler answers within its time limit, with `DependencyUnavailable` if it must.
 * 2. What was written is not taken back because the camera could not be told: the activation loop of cameras notices.
 * 3. `Delete` answers when the deletion is on record; a purge (`record-purge.ts`) deletes the footage, through any restart.
 * 4. Nothing is changed while another node has control of the camera, and nothing deleted during a reroute ({@link FailoverGate}).
 */
import { CameraActor } from "#actors/protocol/camera.ts"
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { RecordingActor } from "#actors/protocol/record.ts"
import { RecordStore } from "#actors/store/record.ts"
import { ask, moving, onBehalf, serve } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import type { CameraId, RecordingId } from "#schema/common.ts"
import { entityId, parseEntityId } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { type Recording, RecordingNotFound } from "#schema/record-config.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Duration, Effect } from "effect"
import { Entity } from "effect/cluster"

/** Longest wait of a handler; it includes telling the camera. */
const handlerLimit = Duration.seconds(12)
/** Longest wait for the camera: a recording that is changed is told so even if its camera is slow. */
const cameraLimit = Duration.seconds(5)

const handlers = Effect.gen(function*() {
  const store = yield* RecordStore
  const ownership = yield* Ownership
  const gate = yield* FailoverGate
  const cameraOf = yield* CameraActor.client
  const address = yield* Entity.CurrentAddress
  const home = parseEntityId(address.entityId)
  if (home === null) return yield* Effect.die(new Error(`${address.entityId} is not the id of a recording`))
  const { slot } = home

  const writer = Effect.gen(function*() {
    const epoch = yield* ownership.epochOf(slot)
    if (epoch === null) return yield* moving()
    return { slot, epoch, nowMs: yield* Clock.currentTimeMillis }
  })
  const changing = Effect.tap(writer, gate.mayChange)
  const tellCamera = (id: CameraId) =>
    ask(cameraOf(entityId(slot, id)).Start({ id })).pipe(
      Effect.timeout(cameraLimit),
      Effect.catchCause((cause) =>
        Effect.logWarning("A changed recording will be assigned later", { cameraId: id, cause })
      ),
    )
  const recording = (id: RecordingId): Effect.Effect<Recording, RecordingNotFound | DependencyUnavailable> =>
    Effect.flatMap(
      store.get({ id }),
      (found) => found === null ? Effect.fail(new RecordingNotFound({ id })) : Effect.succeed(found.recording),
    )
  const note = (type: string, of: Recording) =>
    Effect.gen(function*() {
      const data = { enabled: of.enabled, mode: of.mode, retentionDays: of.retentionDays, version: of.version }
      const timeMs = yield* Clock.currentTimeMillis
      yield* store.addEvents([{ id: yield* uuid7, recordingId: of.id, nodeId: ownership.nodeId, type, timeMs, data }])
    }).pipe(Effect.catchTag("DependencyUnavailable", () => Effect.void))
  /** After a write: tells the camera, notes the event, answers what stands there now. */
  const done = (id: RecordingId, type: string) =>
    Effect.gen(function*() {
      const now = yield* recording(id)
      yield* tellCamera(now.cameraId)
      yield* note(type, now)
      return now
    })

  return RecordingActor.of(onBehalf({
    Create: ({ payload: { recording: made } }) =>
      serve(
        handlerLimit,
        Effect.gen(function*() {
          yield* store.insert(yield* changing, made)
          return yield* Effect.catchTag(
            done(made.id, "recording.created"),
            "RecordingNotFound",
            (gone) => Effect.die(gone),
          )
        }),
      ),
    Update: ({ payload: { change, id, ifMatch } }) =>
      serve(
        handlerLimit,
        Effect.gen(function*() {
          yield* store.update(yield* changing, id, change, ifMatch)
          return yield* done(id, "recording.changed")
        }),
      ),
    Toggle: ({ payload: { enabled, id, ifMatch } }) =>
      serve(
        handlerLimit,
        Effect.gen(function*() {
          yield* store.toggle(yield* changing, id, enabled, ifMatch)
          return yield* done(id, "recording.toggled")
        }),
      ),
    Delete: ({ payload: { id, ifMatch } }) =>
      serve(
        handlerLimit,
        Effect.gen(function*() {
          const cameraId = yield* store.markDeleted(yield* Effect.tap(writer, gate.mayDelete), id, ifMatch)
          yield* tellCamera(cameraId)
          yield* Effect.logInfo("A recording was deleted; its footage follows", { recordingId: id })
        }),
      ),
  }))
})

export const layer = RecordingActor.toLayer(handlers, { maxIdleTime: Duration.infinity, disableFatalDefects: true })
