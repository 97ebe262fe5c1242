/** What runs beside the writers: probes, syncs, and the end of writers whose folder is no longer fit. */
import { Effect, Semaphore } from "effect"
import { StorageError } from "../storage.ts"
import type { Folder } from "./folder.ts"
import { rescanFolder } from "./rescan.ts"
import type { Room } from "./room.ts"
import type { Writer } from "./writer.ts"

/** A round of syncs that takes longer makes the folder `slow`. */
const slowSyncMs = 5_000

const writersOf = (room: Room, folder: Folder): ReadonlyArray<Writer> =>
  [...room.writers.values()].filter((writer) => writer.entry.folder === folder.name)

/** Why the writers of a folder must stop; null while they may go on. */
const verdict = (folder: Folder): StorageError | null => {
  const error = (cause: StorageError["cause"], code: string) =>
    new StorageError({ cause, folder: folder.name, code, detail: folder.detail })
  switch (folder.state) {
    case "missing":
      return error("disk_error", "ENOENT")
    case "readOnly":
      return error("disk_error", "EROFS")
    case "full":
      return folder.spent ? error("disk_full", "ENOSPC") : null
    default:
      return null
  }
}

/** Looks at a folder; stops its writers where it is no longer fit, reads it where it has just come. */
export const probeFolder = Effect.fnUntraced(function*(room: Room, folder: Folder) {
  const away = folder.state === "missing" || folder.state === "readOnly"
  yield* folder.probe(room.registry)
  // What was written last, when the disk went, may not have reached it.
  if (away && folder.accepts) folder.scanned = false
  const { detail, logged: before, state } = folder
  if (state !== before) {
    folder.logged = state
    const log = state === "ok" || folder.accepts ? Effect.logInfo : Effect.logWarning
    yield* log("storage folder changed its state", { folder: folder.name, before, state, detail })
  }
  const problem = verdict(folder)
  for (const writer of writersOf(room, folder)) {
    if (problem !== null) writer.abort(problem)
    else if (yield* writer.isUnlinked) {
      writer.abort(
        new StorageError({
          cause: "disk_error",
          folder: folder.name,
          code: "ENOENT",
          detail: "the growing file was deleted",
        }),
      )
    }
  }
  if (!folder.scanned && (folder.accepts || folder.state === "full" || folder.state === "readOnly")) {
    yield* rescanFolder(room, folder, { repair: folder.state !== "readOnly", trusting: true }).pipe(
      Semaphore.withPermit(room.scanning),
      Effect.catch((error) =>
        Effect.logWarning("a storage folder could not be read", { folder: folder.name, reason: error.message })
      ),
    )
  }
})

/** One round of syncs. */
export const syncFolder = Effect.fnUntraced(function*(room: Room, folder: Folder) {
  const start = room.clock.currentTimeMillisUnsafe()
  yield* Effect.forEach(writersOf(room, folder), (writer) => writer.sync, { discard: true })
  const took = room.clock.currentTimeMillisUnsafe() - start
  if (took > slowSyncMs) folder.reportSlow(start + took, `a round of syncs took ${took} ms`)
})
