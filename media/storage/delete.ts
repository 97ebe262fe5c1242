/**
 * Deletes files: two unlinks each, and the directory with the last one.
 *
 * Invariants
 * 1. Media before index: a crash between the two leaves an index without media, which the next scan clears away.
 * 2. A file that cannot be deleted stays in the catalogue, and its folder is not tried again in the same round.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"
import { rmdir, unlink } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type RetentionPolicy, type Storage, StorageError } from "../storage.ts"
import { type CatalogueFile, toSegmentFile } from "./catalogue.ts"
import { attempt, codeOf } from "./failure.ts"
import type { Folder } from "./folder.ts"
import { dayOf, outlinePath } from "./outline.ts"
import { expired, makeRoom } from "./retention.ts"
import type { Room } from "./room.ts"
import { summaryName } from "./summary.ts"

/** Retention makes an eighth more room than the floor asks for, so that it need not run at once again. */
const targetOf = (floorBytes: number): number => floorBytes + floorBytes / 8

const quietly = async (run: () => Promise<void>, ...codes: ReadonlyArray<string>): Promise<void> => {
  try {
    await run()
  } catch (error) {
    if (!codes.includes(codeOf(error))) throw error
  }
}

const unlinkBoth = async (base: string): Promise<void> => {
  await quietly(() => unlink(`${base}.mp4`), "ENOENT")
  await quietly(() => unlink(`${base}.idx`), "ENOENT")
}

const noSuchFile = (folder: string, id: string, detail: string) =>
  new StorageError({ cause: "disk_error", folder, code: "ENOENT", detail: `${id}: ${detail}` })

/** The directory of a recording without files; its summary tells of nothing any more. */
const removeEmpty = (folder: Folder, directory: string) =>
  attempt(folder.name, "deleting a directory", async () => {
    await quietly(() => unlink(join(directory, summaryName)), "ENOENT")
    await quietly(() => rmdir(directory), "ENOENT", "ENOTEMPTY", "EEXIST")
  })

const deleteFile = Effect.fnUntraced(function*(room: Room, entry: CatalogueFile) {
  const folder = room.folders.find(({ name }) => name === entry.folder)
  if (folder === undefined) return yield* noSuchFile(entry.folder, entry.id, "no such folder")
  // The directory of an unmounted disk says "no such file" too: only a folder that is there may be believed.
  if (folder.state === "missing") return yield* noSuchFile(entry.folder, entry.id, folder.detail)
  const base = join(folder.options.path, entry.identity.recordingId, entry.id)
  const others = room.catalogue.ofRecording(entry.identity.recordingId).filter((other) =>
    other.id !== entry.id && other.folder === entry.folder
  )
  const day = dayOf(entry.startMs)
  const lastOfDay = !others.some((other) => dayOf(other.startMs) === day)
  yield* Effect.uninterruptible(attempt(folder.name, "deleting a file", async () => {
    if (lastOfDay) await quietly(() => unlink(outlinePath(dirname(base), day)), "ENOENT")
    await unlinkBoth(base)
  }))
  room.catalogue.remove(entry.id)
  folder.freeBytes += entry.bytes
  return yield* others.length > 0 ? Effect.void : Effect.ignore(removeEmpty(folder, dirname(base)))
})

export const makeDelete = (room: Room): Pick<Storage["Service"], "remove" | "enforceRetention"> => {
  const { catalogue, folders } = room

  /** Deletes while `wanted`; stops at the first failure of a folder. */
  const deleteAll = Effect.fnUntraced(
    function*(entries: Iterable<CatalogueFile>, wanted: (entry: CatalogueFile) => boolean, gone: Array<SegmentFile>) {
      const failed = new Set<string>()
      for (const entry of entries) {
        if (!wanted(entry)) return
        if (failed.has(entry.folder)) continue
        const file = toSegmentFile(entry)
        yield* Effect.matchEffect(deleteFile(room, entry), {
          onSuccess: () => Effect.sync(() => gone.push(file)),
          onFailure: (error) => {
            failed.add(entry.folder)
            return Effect.logWarning("retention could not delete a file", {
              id: file.id,
              folder: file.folder,
              reason: error.message,
            })
          },
        })
      }
    },
  )

  /** Brings one folder above its floor, as far as there is something to delete. */
  const relieve = Effect.fnUntraced(
    function*(
      folder: Folder,
      policies: ReadonlyMap<RetentionPolicy["recordingId"], RetentionPolicy>,
      gone: Array<SegmentFile>,
    ) {
      yield* Effect.ignore(folder.measure)
      if (folder.room >= 0) return
      const target = targetOf(folder.options.floorBytes)
      const here = [...catalogue.all()].filter((entry) => entry.folder === folder.name)
      yield* deleteAll(makeRoom(here, policies), () => folder.freeBytes < target, gone)
      yield* folder.probe(room.registry)
    },
  )

  const enforceRetention = Effect.fnUntraced(function*(policies: ReadonlyArray<RetentionPolicy>) {
    const now = yield* Clock.currentTimeMillis
    const gone: Array<SegmentFile> = []
    for (const policy of policies) {
      yield* deleteAll(expired(catalogue.ofRecording(policy.recordingId), policy, now), () => true, gone)
    }
    const byRecording = new Map(policies.map((policy) => [policy.recordingId, policy]))
    const present = folders.filter((folder) => folder.state !== "missing" && folder.state !== "readOnly")
    for (const folder of present) yield* relieve(folder, byRecording, gone)
    return gone
  })

  const remove = Effect.fnUntraced(function*({ folder, id }: Pick<SegmentFile, "id" | "folder">) {
    const entry = catalogue.get(id)
    if (entry === undefined || entry.folder !== folder) return yield* noSuchFile(folder, id, "no such file")
    if (entry.growing) {
      return yield* new StorageError({ cause: "disk_error", folder, code: "EBUSY", detail: `${id} is being written` })
    }
    return yield* deleteFile(room, entry)
  })

  return { remove, enforceRetention }
}
