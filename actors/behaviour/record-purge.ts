/**
 * Deletes the footage of deleted recordings, and old events.
 *
 * Invariants
 * 1. The deletion is in the database before the first file goes, and stays there until the last one is gone: a restart in
 *    between goes on with it.
 * 2. A file goes only when no capture is assigned to its recording any more.
 * 3. Nothing goes during a reroute: what was deleted before it waits until it is over.
 */
import { FailoverGate } from "#actors/protocol/federation-gate.ts"
import { RecordStore } from "#actors/store/record.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, type RecordingId } from "#schema/common.ts"
import { Clock, Duration, Effect, Layer, Schedule } from "effect"

const purgeEvery = Duration.seconds(15)
const pruneEvery = Duration.hours(1)
/** Recordings of one round. */
const batch = 16

const purgeFiles = Effect.fnUntraced(function*(id: RecordingId) {
  const storage = yield* Storage
  const files = storage.files(id, allTime)
  yield* Effect.forEach(
    files,
    (file) =>
      storage.remove(file).pipe(Effect.catchTag("StorageError", (error) =>
        Effect.logWarning("A file of a deleted recording cannot be deleted now", {
          file: file.id,
          detail: error.message,
        }))),
    { discard: true },
  )
  if (files.length > 0) {
    yield* Effect.logInfo("Footage of a deleted recording was deleted", { recordingId: id, files: files.length })
  }
  return storage.files(id, allTime).length === 0
})

/** One round. */
export const purge = Effect.gen(function*() {
  const [ownership, store, supervisor] = yield* Effect.all([Ownership, RecordStore, RecorderSupervisor])
  const gate = yield* FailoverGate
  const served = (yield* ownership.owners).filter((owner) => owner.nodeId === ownership.nodeId)
  const free = yield* Effect.filter(
    served,
    (owner) => Effect.match(gate.mayDelete(owner), { onFailure: () => false, onSuccess: () => true }),
  )
  const mine = free.map((owner) => owner.slot)
  const doomed = yield* store.deleting(mine, batch)
  const assigned = new Set((yield* supervisor.assignments).map((assignment) => assignment.recording?.recordingId))
  yield* Effect.forEach(
    doomed.filter((id) => !assigned.has(id)),
    (id) =>
      Effect.flatMap(purgeFiles(id), (gone) =>
        gone ? Effect.andThen(supervisor.forget(id), store.purge(id)) : Effect.void),
    { discard: true },
  )
})

const prune = Effect.gen(function*() {
  const store = yield* RecordStore
  yield* store.pruneEvents(yield* Clock.currentTimeMillis)
})

const rounds = <R>(every: Duration.Duration, work: Effect.Effect<void, unknown, R>) =>
  work.pipe(
    Effect.catchCause((cause) => Effect.logDebug("What was deleted will be cleared away later", cause)),
    Effect.repeat(Schedule.spaced(every)),
    Effect.forkScoped,
  )

export const layer = Layer.effectDiscard(Effect.andThen(rounds(purgeEvery, purge), rounds(pruneEvery, prune)))
