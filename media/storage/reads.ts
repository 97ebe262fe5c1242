/**
 * Reads of footage and its index.
 *
 * Invariants
 * 1. At most two reads of this room at a time: libuv has four threads, and the writers need theirs.
 * 2. The index of a growing file comes from its writer, that of a sealed one from the cache or the disk; where the index on the
 *    disk is short or damaged, from the file itself.
 * 3. Only ids of the catalogue become paths.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Semaphore } from "effect"
import { type FileHandle, open } from "node:fs/promises"
import { join } from "node:path"
import { type IndexEntry, type Storage, StorageError } from "../storage.ts"
import type { CatalogueFile } from "./catalogue.ts"
import { attempt, codeOf } from "./failure.ts"
import { type Front, readAt, readFragments, readFront } from "./file-truth.ts"
import { decodeIndex, type IndexContent } from "./index-file.ts"
import { makeLru } from "./lru.ts"
import type { Room } from "./room.ts"

const readsAtATime = 2
/** An entry as an object of nine numbers. */
const entryBytes = 160
/** Fronts of about 2 KiB. */
const rememberedFronts = 1_024

type Named = Pick<SegmentFile, "id" | "folder">

const withFile = async <A>(path: string, use: (file: FileHandle, size: number) => Promise<A>): Promise<A> => {
  const file = await open(path, "r")
  try {
    return await use(file, (await file.stat()).size)
  } finally {
    await file.close()
  }
}

const readIndexFile = async (path: string): Promise<IndexContent> => {
  try {
    return decodeIndex(await withFile(path, (file, size) => readAt(file, 0, size)))
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { header: null, entries: [], seal: null }
    throw error
  }
}

/** The index if it says everything about a file of that many fragments, else what the file says. */
const readEntries = async (base: string, fragments: number): Promise<ReadonlyArray<IndexEntry> | null> => {
  const index = await readIndexFile(`${base}.idx`)
  if (index.header !== null && index.entries.length === fragments) return index.entries
  return withFile(`${base}.mp4`, async (file, size) => {
    const front = await readFront(file)
    return front === null ? null : readFragments(file, front, index, size)
  })
}

export const makeReads = Effect.fnUntraced(function*(room: Room) {
  const { catalogue, folders, options, writers } = room
  const permits = yield* Semaphore.make(readsAtATime)
  const indexes = makeLru<ReadonlyArray<IndexEntry>>(options.indexCacheBytes, (entries) => entryBytes * entries.length)
  const fronts = makeLru<Front>(rememberedFronts, () => 1)

  const unknown = ({ folder, id }: Named) =>
    new StorageError({ cause: "disk_error", folder, code: "ENOENT", detail: `${id}: no such file` })

  const unreadable = ({ folder, id }: Named) =>
    new StorageError({
      cause: "disk_error",
      folder,
      code: "EBADMSG",
      detail: `${id} does not begin like a file of footage`,
    })

  const find = (file: Named): CatalogueFile | undefined => {
    const entry = catalogue.get(file.id)
    return entry?.folder === file.folder ? entry : undefined
  }

  const baseOf = (entry: CatalogueFile): string =>
    join(folders.find(({ name }) => name === entry.folder)?.options.path ?? "", entry.identity.recordingId, entry.id)

  const readIndex = Effect.fnUntraced(function*(entry: CatalogueFile) {
    const cached = indexes.get(entry.id)
    if (cached !== undefined) return cached
    const base = baseOf(entry)
    const entries = yield* attempt(entry.folder, "reading an index", () => readEntries(base, entry.fragments)).pipe(
      Semaphore.withPermit(permits),
    )
    if (entries === null) return yield* unreadable(entry)
    indexes.set(entry.id, entries)
    return entries
  })

  const index = (file: Named) =>
    Effect.suspend((): Effect.Effect<ReadonlyArray<IndexEntry>, StorageError> => {
      const writer = writers.get(file.id)
      if (writer !== undefined && writer.entry.folder === file.folder) return Effect.succeed(writer.entries().slice())
      const entry = find(file)
      return entry === undefined ? Effect.fail(unknown(file)) : readIndex(entry)
    })

  const frontOf = Effect.fnUntraced(function*(file: Named) {
    const entry = find(file)
    if (entry === undefined) return yield* unknown(file)
    const cached = fronts.get(file.id)
    if (cached !== undefined) return cached
    const path = `${baseOf(entry)}.mp4`
    const front = yield* attempt(entry.folder, "reading a file's front", () => withFile(path, readFront)).pipe(
      Semaphore.withPermit(permits),
    )
    if (front === null) return yield* unreadable(file)
    fronts.set(file.id, front)
    return front
  })

  const reads: Pick<Storage["Service"], "index" | "init" | "parameters" | "path"> = {
    index,
    init: (file) => Effect.map(frontOf(file), (front) => front.initBytes),
    parameters: (file) => Effect.map(frontOf(file), (front) => front.init.parameters),
    path: (file) => {
      const entry = find(file)
      return entry === undefined ? "" : `${baseOf(entry)}.mp4`
    },
  }
  return reads
})
