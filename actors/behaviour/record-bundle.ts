/**
 * The service `RecordBundles`.
 *
 * Invariants
 * 1. What this node has stored is told from its disk, never from the database.
 * 2. A recording goes from the database only when nothing of it is left on the disk: a restart in between goes on with it.
 */
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { RecordBundleStore } from "#actors/store/record-bundle.ts"
import { moving } from "#cluster/ask.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, type RecordingId } from "#schema/common.ts"
import type { Slot } from "#schema/ownership.ts"
import type { NewRecording } from "#schema/record-config.ts"
import { Clock, Effect, Layer } from "effect"

/** Footage that tells how much a stream brings. */
const rateWindowMs = 3_600_000
/** Fragments that tell how long groups of pictures are: a minute or more. */
const lookedAt = 64

const make = Effect.gen(function*() {
  const [store, ownership, storage, supervisor] = yield* Effect.all([
    RecordBundleStore,
    Ownership,
    Storage,
    RecorderSupervisor,
  ])

  return RecordBundles.of({
    mark: store.mark,
    export: store.list,
    rates: Effect.fnUntraced(function*(slot) {
      const rows = yield* store.rates(slot, (yield* Clock.currentTimeMillis) - rateWindowMs)
      return new Map(
        rows.flatMap(({ bytes, ms, streamId }) => ms <= 0 ? [] : [[streamId, Math.round(bytes * 8_000 / ms)]]),
      )
    }),
    place: Effect.fn("RecordBundles.place")(
      function*(slot: Slot, recordings: ReadonlyArray<NewRecording>, sinceMs: (id: RecordingId) => number) {
        const epoch = yield* ownership.epochOf(slot)
        if (epoch === null) return yield* moving()
        yield* store.place({ slot, epoch, nowMs: yield* Clock.currentTimeMillis }, recordings, sinceMs)
      },
    ),
    changedMs: store.changedMs,
    put: Effect.fn("RecordBundles.put")(function*(slot: Slot, recording: NewRecording, atMs: number) {
      const epoch = yield* ownership.epochOf(slot)
      if (epoch === null) return yield* moving()
      yield* store.merge({ slot, epoch, nowMs: atMs }, [recording])
    }),
    stored: (slot, epoch) =>
      Effect.map(
        store.list(slot),
        (recordings) =>
          recordings.filter(({ enabled }) => enabled).map(({ cameraId, channelId, id }) => {
            const files = storage.files(id, allTime)
              .filter((file) => file.epoch === epoch && file.nodeId === ownership.nodeId && file.fragments > 0)
            return {
              recordingId: id,
              cameraId,
              channelId,
              firstMs: files[0]?.startMs ?? null,
              lastMs: files.reduce((last: number | null, { endMs }) => Math.max(last ?? 0, endMs), null),
            }
          }),
      ),
    longestGroupMs: Effect.fnUntraced(function*(slot: Slot, epoch: number) {
      let longest: number | null = null
      for (const { enabled, id } of yield* store.list(slot)) {
        const file = storage.files(id, allTime).findLast((one) =>
          one.epoch === epoch && one.nodeId === ownership.nodeId
        )
        if (!enabled || file === undefined) continue
        const index = yield* Effect.catchTag(storage.index(file), "StorageError", () => Effect.succeed([]))
        const keys = index.slice(-lookedAt).filter(({ discontinuity, key }) => key && !discontinuity)
        keys.forEach(({ startMs }, at) => {
          const before = keys[at - 1]
          if (before !== undefined) longest = Math.max(longest ?? 0, startMs - before.startMs)
        })
      }
      return longest
    }),
    tellTakeover: (epoch, lostMs, stored) =>
      store.addGaps(
        ownership.nodeId,
        epoch,
        stored.flatMap(({ firstMs, recordingId }) =>
          firstMs === null || firstMs <= lostMs ? [] : [{
            id: `${recordingId}.takeover.${epoch}`,
            recordingId,
            startMs: lostMs,
            endMs: firstMs,
            cause: "takeover" as const,
            detail: "another node took the recording over",
          }]
        ),
      ),
    remove: Effect.fn("RecordBundles.remove")(function*(slot: Slot) {
      const recordings = yield* store.list(slot)
      yield* Effect.forEach(recordings, ({ id }) =>
        Effect.gen(function*() {
          for (const file of storage.files(id, allTime)) {
            yield* storage.remove(file).pipe(Effect.catchTag("StorageError", (error) =>
              Effect.logWarning("A file of another node's recording cannot be deleted now", {
                file: file.id,
                detail: error.message,
              })))
          }
          yield* supervisor.forget(id)
        }), { discard: true })
      yield* store.remove(slot)
    }),
  })
})

export const layer = Layer.effect(RecordBundles, make)
