/**
 * Reads of footage and its index.
 *
 * Invariants
 * 1. At most two reads of this room at a time: libuv has four threads, and the writers need theirs.
 * 2. The index of a growing file comes from its writer, that of a sealed one from the cache or the disk: at one go where its seal
 *    vouches for it, record by record where not, and where records are missing or damaged, from the file itself.
 * 3. Only ids of the catalogue become paths.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Semaphore, Stream } from "effect"
import { hash } from "node:crypto"
import * as fs from "node:fs"
import { type FileHandle, open } from "node:fs/promises"
import { join } from "node:path"
import { readFragmentUnits } from "../fmp4/fragment-reader.ts"
import { type Storage, StorageError } from "../storage.ts"
import type { CatalogueFile } from "./catalogue.ts"
import { attempt, codeOf, storageError } from "./failure.ts"
import { type Front, readAt, readFragments, readFront } from "./file-truth.ts"
import { FragmentTable } from "./fragment-table.ts"
import { decodeIndex, type IndexContent, sealedIndexBytes, takeSealed } from "./index-file.ts"
import { makeLru } from "./lru.ts"
import { makeOutlines } from "./outlines.ts"
import type { Room } from "./room.ts"
import { shownOf } from "./seams.ts"

const readsAtATime = 2
const chunkBytes = 512 * 1024
/** Indexes read under one permit: a day of one camera leaves others a turn every few milliseconds. */
const indexesATurn = 8
/** Fronts of about 2 KiB. */
const rememberedFronts = 1_024
/** Of 100 bytes each: a few hundred seams. */
const rememberedHashes = 8_192
/** A fragment larger than this is not compared with others: a second at 128 Mbit/s. */
const largestCompared = 16 * 1024 * 1024

type Named = Pick<SegmentFile, "id" | "folder">

const withFile = async <A>(path: string, use: (file: FileHandle, size: number) => Promise<A>): Promise<A> => {
  const file = await open(path, "r")
  try {
    return await use(file, (await file.stat()).size)
  } finally {
    await file.close()
  }
}

/**
 * Up to `length` bytes from the start of a file, in memory of their own. Callbacks, and a close that nobody waits for: half the
 * work of a `FileHandle`, which counts where 144 files make a playlist.
 */
const readStart = (path: string, length: number): Promise<Buffer> =>
  new Promise((resolve, reject) =>
    fs.open(path, "r", (refused, file) => {
      if (refused !== null) return reject(refused)
      const bytes = Buffer.allocUnsafeSlow(length)
      fs.read(file, bytes, 0, length, 0, (error, count) => {
        fs.close(file)
        if (error === null) resolve(bytes.subarray(0, count))
        else reject(error)
      })
    })
  )

const readIndexFile = async (path: string): Promise<IndexContent> => {
  try {
    return decodeIndex(await withFile(path, (file, size) => readAt(file, 0, size)))
  } catch (error) {
    if (codeOf(error) === "ENOENT") return { header: null, entries: [], seal: null }
    throw error
  }
}

/** The index if it says everything about a file of that many fragments, else what the file says. */
const readCarefully = async (base: string, fragments: number): Promise<FragmentTable | null> => {
  const index = await readIndexFile(`${base}.idx`)
  if (index.header !== null && index.entries.length === fragments) return FragmentTable.of(index.entries)
  return withFile(`${base}.mp4`, async (file, size) => {
    const front = await readFront(file)
    return front === null ? null : FragmentTable.of(await readFragments(file, front, index, size))
  })
}

/** A sealed index has the length its file's fragments give it: one read tells, and one byte more that nothing stands behind. */
const readTable = async (base: string, { fragments, id, sealed }: CatalogueFile): Promise<FragmentTable | null> => {
  const length = sealedIndexBytes(fragments)
  if (sealed) {
    const bytes = await readStart(`${base}.idx`, length + 1).catch((error: unknown) => {
      if (codeOf(error) === "ENOENT") return null
      throw error
    })
    const table = bytes === null || bytes.length !== length ? null : takeSealed(bytes, id)
    if (table !== null) return table
  }
  return readCarefully(base, fragments)
}

/** One chunk a permit: a long range leaves others a turn. */
const streamOf = (
  folder: string,
  path: string,
  { from, to }: { readonly from: number; readonly to: number },
  permits: Semaphore.Semaphore,
): Stream.Stream<Uint8Array, StorageError> =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(attempt(folder, "opening a file", () => open(path, "r")), (file) =>
        Effect.ignore(attempt(folder, "closing", () =>
          file.close()))),
      (file) =>
        Stream.unfold(from, (at) =>
          at >= to ?
            Effect.succeed(undefined) :
            Effect.map(
              attempt(folder, "reading a file", () => readAt(file, at, Math.min(chunkBytes, to - at))).pipe(
                Semaphore.withPermit(permits),
              ),
              (bytes) => bytes.length === 0 ? undefined : [bytes as Uint8Array, at + bytes.length] as const,
            )),
    ),
  )

export const makeReads = Effect.fnUntraced(function*(room: Room) {
  const { catalogue, folders, options, writers } = room
  const permits = yield* Semaphore.make(readsAtATime)
  const tables = makeLru<FragmentTable>(options.indexCacheBytes, (table) => table.size)
  const fronts = makeLru<Front>(rememberedFronts, () => 1)
  const hashes = makeLru<string>(rememberedHashes, () => 1)

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

  const readOne = async (entry: CatalogueFile): Promise<FragmentTable | StorageError> => {
    try {
      const table = await readTable(baseOf(entry), entry)
      if (table === null) return unreadable(entry)
      tables.set(entry.id, table)
      return table
    } catch (error) {
      return storageError(entry.folder, "reading an index", error)
    }
  }

  /** What needs no reading. */
  const known = (file: Named): FragmentTable | StorageError | CatalogueFile => {
    const writer = writers.get(file.id)
    if (writer !== undefined && writer.entry.folder === file.folder) return FragmentTable.of(writer.entries())
    const entry = find(file)
    return entry === undefined ? unknown(file) : tables.get(entry.id) ?? entry
  }

  const fragments: Storage["Service"]["fragments"] = Effect.fnUntraced(function*(files) {
    const found: Array<FragmentTable | StorageError> = []
    const missing: Array<readonly [at: number, entry: CatalogueFile]> = []
    files.forEach((file, at) => {
      const answer = known(file)
      if (answer instanceof FragmentTable || answer instanceof StorageError) found[at] = answer
      else missing.push([at, answer])
    })
    const readTurn = async (from: number) => {
      for (const [at, entry] of missing.slice(from, from + indexesATurn)) found[at] = await readOne(entry)
    }
    const turns = Array.from({ length: Math.ceil(missing.length / indexesATurn) }, (_, turn) => turn * indexesATurn)
    yield* Effect.forEach(turns, (from) => Effect.promise(() => readTurn(from)).pipe(Semaphore.withPermit(permits)), {
      concurrency: readsAtATime,
      discard: true,
    })
    return found
  })

  const index: Storage["Service"]["index"] = (file) =>
    Effect.flatMap(fragments([file]), ([found]) => {
      if (found instanceof FragmentTable) return Effect.succeed(found.entries())
      return Effect.fail(found ?? unknown(file))
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

  /** Of the first picture of a fragment; null where it cannot be read. */
  const pictureHash = Effect.fnUntraced(function*(file: SegmentFile, table: FragmentTable, row: number) {
    const name = `${file.id}/${table.offset(row)}`
    const cached = hashes.get(name)
    if (cached !== undefined) return cached
    const entry = find(file)
    if (entry === undefined || table.bytes(row) > largestCompared) return null
    const read = attempt(
      entry.folder,
      "reading a picture",
      () => withFile(`${baseOf(entry)}.mp4`, (opened) => readAt(opened, table.offset(row), table.bytes(row))),
    ).pipe(Semaphore.withPermit(permits))
    const bytes = yield* Effect.catchTag(read, "StorageError", () => Effect.succeed(null))
    const picture = bytes === null ? undefined : readFragmentUnits(bytes)?.find(({ track }) => track === "video")
    if (picture === undefined) return null
    const made = hash("sha256", picture.data, "base64url")
    hashes.set(name, made)
    return made
  })

  const reads: Pick<
    Storage["Service"],
    "bytes" | "fragments" | "index" | "outlines" | "init" | "origin" | "parameters" | "path" | "shown"
  > = {
    bytes: (file, range) => {
      const entry = find(file)
      return entry === undefined ?
        Stream.fail(unknown(file)) :
        streamOf(entry.folder, `${baseOf(entry)}.mp4`, range, permits)
    },
    fragments,
    index,
    outlines: makeOutlines({ fragments, find, baseOf, permits }),
    origin: (file) => Effect.map(frontOf(file), ({ description }) => description.origin ?? null),
    init: (file) => Effect.map(frontOf(file), (front) => front.initBytes),
    parameters: (file) => Effect.map(frontOf(file), (front) => front.init.parameters),
    shown: (files) =>
      shownOf(files, {
        table: (file) => Effect.map(fragments([file]), ([table]) => table instanceof FragmentTable ? table : null),
        hash: pictureHash,
      }),
    path: (file) => {
      const entry = find(file)
      return entry === undefined ? "" : `${baseOf(entry)}.mp4`
    },
  }
  return reads
})
