/**
 * The storage door on real disks.
 *
 * Invariants
 * 1. When the layer is there, the catalogue holds every file of every folder that answers, and what a dead process left growing
 *    is mended and sealed. A folder that appears later is read then.
 * 2. A folder that fails, fills or vanishes ends its own writers with a typed error and touches nothing else.
 * 3. Syncs of one folder happen one after another, and reads two at a time, so that libuv's threads are never all at one disk.
 * 4. When the layer goes, every growing file is sealed.
 * 5. A folder that another process has is left alone until that process ends.
 */
import { Clock, Effect, Exit, Layer, Scope, Semaphore } from "effect"
import { Storage } from "../storage.ts"
import { Catalogue } from "./catalogue.ts"
import { makeCreate } from "./create.ts"
import { makeDelete } from "./delete.ts"
import { withDeparted } from "./departed.ts"
import { Folder } from "./folder.ts"
import { probeFolder, syncFolder } from "./keeper.ts"
import { type StorageOptions } from "./options.ts"
import { makeQuarantine } from "./quarantine.ts"
import { makeReads } from "./reads.ts"
import { scanInto } from "./rescan.ts"
import type { Room } from "./room.ts"

export type { StorageOptions } from "./options.ts"
export { defaultStorageOptions } from "./options.ts"

const makeRoom = Effect.fnUntraced(function*(options: StorageOptions) {
  // Closed after everything that is added later: a folder is let go when its files are sealed.
  const scope = yield* Effect.acquireRelease(Scope.make(), (held) => Scope.close(held, Exit.void))
  const room: Room = {
    options,
    folders: options.folders.map((folder) => new Folder(folder)),
    catalogue: new Catalogue(),
    writers: new Map(),
    clock: yield* Clock.Clock,
    registry: { path: options.registryPath, lock: yield* Semaphore.make(1), scope },
    scanning: yield* Semaphore.make(1),
  }
  return room
})

const makeStorage = Effect.fnUntraced(function*(options: StorageOptions) {
  const room = yield* makeRoom(options)
  const { catalogue, folders } = room
  yield* Effect.addFinalizer(() =>
    Effect.forEach([...room.writers.values()], (writer) => Effect.ignore(writer.seal), {
      concurrency: 4,
      discard: true,
    })
  )
  yield* Effect.forEach(folders, (folder) => probeFolder(room, folder), { concurrency: "unbounded", discard: true })
  for (const folder of folders) {
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.sleep(options.probeEveryMs), Effect.forkChild(probeFolder(room, folder)))),
    )
    yield* Effect.forkScoped(
      Effect.forever(Effect.andThen(Effect.sleep(options.syncEveryMs), syncFolder(room, folder))),
    )
  }
  const usedBytes = (name: string): number => {
    let sum = 0
    for (const entry of catalogue.all()) if (entry.folder === name) sum += entry.bytes
    return sum
  }
  const reads = yield* makeReads(room)
  return Storage.of({
    create: makeCreate(room),
    recordings: () => [...catalogue.recordings()],
    scan: (asked) => scanInto(room, asked),
    ...reads,
    ...withDeparted(makeDelete(room), reads, catalogue),
    quarantine: yield* makeQuarantine(room),
    usage: Effect.sync(() =>
      folders.map((folder) => ({
        name: folder.name,
        path: folder.options.path,
        state: folder.state,
        detail: folder.detail,
        totalBytes: folder.totalBytes,
        freeBytes: folder.freeBytes,
        floorBytes: folder.options.floorBytes,
        usedBytes: usedBytes(folder.name),
      }))
    ),
  })
})

/** Storage on the folders of `options`. Never fails: what a folder cannot do is seen in `usage` and in the errors of `create`. */
export const layer = (options: StorageOptions): Layer.Layer<Storage> => Layer.effect(Storage, makeStorage(options))
