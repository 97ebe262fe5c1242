/**
 * Reads a folder from the disk alone, and mends what a dead process left behind.
 *
 * Invariants
 * 1. What this process is writing is never touched.
 * 2. Mending cuts only behind the last whole fragment of a file whose identity can be read, replaces an index by renaming a new
 *    one over it, and deletes only files without a single whole fragment.
 * 3. A file that is not understood stays as it is; it is told of, and reported in the log.
 */
import { Uuid7 } from "#schema/common.ts"
import { Effect, Schema } from "effect"
import type { FileHandle } from "node:fs/promises"
import { open, readdir, rename, stat, truncate, unlink } from "node:fs/promises"
import { join } from "node:path"
import type { ScanTold } from "../storage.ts"
import { type Catalogue, type CatalogueFile, fromDescription } from "./catalogue.ts"
import { attempt, codeOf } from "./failure.ts"
import { endOf, readAt, readFragments, readFront } from "./file-truth.ts"
import type { Folder } from "./folder.ts"
import { decodeHeader, decodeIndex, decodeSeal, encodeIndex, headerBytes, recordBytes, sealOf } from "./index-file.ts"
import { markerName } from "./marker.ts"
import { quarantineName } from "./quarantine.ts"
import { readSummary, replaceSummary, type SummaryLine } from "./summary.ts"

const mediaEnding = ".mp4"
const indexEnding = ".idx"
/** A file that died while its front was written is shorter than this. */
const stillbornBytes = 8 * 1024
/** Two reads leave libuv's other threads to the writers. */
const filesAtATime = 2

export interface Inspection {
  readonly entry: CatalogueFile
  readonly tornBytes: number
  /** What the summary may say of it; null unless it is sealed. */
  readonly line: SummaryLine | null
}

export interface ScanOptions extends ScanTold {
  readonly repair: boolean
  /** Believe the summaries: for a start. Without it every file is opened. */
  readonly trusting: boolean
}

const sealedInspection = (folder: string, line: SummaryLine, tornBytes: number): Inspection => ({
  entry: fromDescription(line.header.description, folder, line.seal, { sealed: true, growing: false }),
  tornBytes,
  line,
})

const isId = Schema.is(Uuid7)

/** Runs with a file that is open for reading; null where there is none. */
const withFile = async <A>(path: string, use: (file: FileHandle, size: number) => Promise<A>): Promise<A | null> => {
  let file: FileHandle
  try {
    file = await open(path, "r")
  } catch (error) {
    if (codeOf(error) === "ENOENT") return null
    throw error
  }
  try {
    return await use(file, (await file.stat()).size)
  } finally {
    await file.close()
  }
}

const gone = async (path: string): Promise<void> => {
  try {
    await unlink(path)
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error
  }
}

/** A sealed file whose index and length agree needs no closer look: two small reads. */
const quick = async (base: string, folder: string): Promise<Inspection | null> => {
  const found = await withFile(base + indexEnding, async (file, size) => ({
    header: decodeHeader(await readAt(file, 0, headerBytes)),
    seal: size < headerBytes + recordBytes ? null : decodeSeal(await readAt(file, size - recordBytes, recordBytes)),
    records: (size - headerBytes) / recordBytes - 1,
  }))
  if (found === null || found.header === null || found.seal === null || found.records !== found.seal.fragments) {
    return null
  }
  const { size } = await stat(base + mediaEnding)
  return size === found.seal.bytes ? sealedInspection(folder, { header: found.header, seal: found.seal }, 0) : null
}

/** The index's bytes, none where there is no index. */
const indexBytes = async (base: string): Promise<Buffer> =>
  (await withFile(base + indexEnding, (file, size) => readAt(file, 0, size))) ?? Buffer.alloc(0)

/** Cuts the tail and writes the index that the file deserves; false where the disk does not let us. */
const mend = async (base: string, cutAt: number | null, fresh: Buffer, old: Buffer): Promise<boolean> => {
  try {
    if (cutAt !== null) await truncate(base + mediaEnding, cutAt)
    if (fresh.equals(old)) return true
    const file = await open(`${base}${indexEnding}.tmp`, "w")
    try {
      await file.writeFile(fresh)
      await file.datasync()
    } finally {
      await file.close()
    }
    await rename(`${base}${indexEnding}.tmp`, base + indexEnding)
    return true
  } catch (error) {
    // A disk without room or a read-only one: the footage is there all the same, and the next scan tries again.
    if (["ENOSPC", "EDQUOT", "EROFS", "EACCES", "EPERM"].includes(codeOf(error))) return false
    throw error
  }
}

/** Full inspection; null where nothing is (or, after mending, was) there. `foreign`: not understood, left alone. */
const inspect = async (
  base: string,
  id: string,
  folder: string,
  repair: boolean,
): Promise<Inspection | "foreign" | null> => {
  const old = await indexBytes(base)
  const found = await withFile(base + mediaEnding, async (file, size) => {
    const front = await readFront(file)
    if (front === null || front.description.id !== id) return { size, front: null, entries: [] }
    return { size, front, entries: await readFragments(file, front, decodeIndex(old), size) }
  })
  if (found === null) return null
  const { entries, front, size } = found
  const stillborn = front === null ? size < stillbornBytes : entries.length === 0
  if (front === null && !stillborn) return "foreign"
  if (stillborn && repair) {
    await gone(base + mediaEnding)
    await gone(base + indexEnding)
  }
  if (front === null || stillborn) return null
  const bytes = endOf(front, entries)
  const tornBytes = size - bytes
  const { description, firstOffset, init } = front
  const line = {
    header: { description, initBytes: init.bytes, firstOffset },
    seal: sealOf(entries, description, bytes),
  }
  const sealed = repair &&
    await mend(base, tornBytes > 0 ? bytes : null, encodeIndex(line.header, entries, line.seal), old)
  if (sealed) return sealedInspection(folder, line, tornBytes)
  return { entry: fromDescription(description, folder, line.seal, { sealed, growing: false }), tornBytes, line: null }
}

const look = async (
  base: string,
  id: string,
  folder: string,
  repair: boolean,
): Promise<Inspection | "foreign" | null> => (await quick(base, folder)) ?? (await inspect(base, id, folder, repair))

/** What stands beside the media files of a recording. */
const beside: ReadonlyArray<string> = [indexEnding, `${indexEnding}.tmp`]
/** What is made from the files of a recording and can be made anew. */
const derived = /\.(sum|outline)(\.tmp)?$/

/** Ids of the files in a recording's directory, in order of time; with `repair`, what belongs to no file is deleted. */
const idsIn = async (
  directory: string,
  catalogue: Catalogue,
  repair: boolean,
): Promise<Pick<Listing, "ids" | "others">> => {
  const names = new Set(await readdir(directory))
  const nameOf = (name: string) => name.slice(0, 36)
  if (repair) {
    const orphans = [...names].filter((name) => {
      if (!isId(nameOf(name)) || catalogue.get(nameOf(name))?.growing === true) return false
      const rest = name.slice(36)
      return rest === `${indexEnding}.tmp` || (rest === indexEnding && !names.has(nameOf(name) + mediaEnding))
    })
    for (const name of orphans) await gone(join(directory, name))
  }
  const isMedia = (name: string) => name.slice(36) === mediaEnding && isId(nameOf(name))
  const isOurs = (name: string) =>
    isMedia(name) || derived.test(name) || (isId(nameOf(name)) && beside.includes(name.slice(36)))
  return {
    ids: [...names].filter(isMedia).map(nameOf).sort(),
    others: [...names].filter((name) => !isOurs(name)),
  }
}

/** What a folder has besides recordings: its marker, its quarantine, and what file systems keep at their roots. */
const usual: ReadonlySet<string> = new Set([markerName, `${markerName}.tmp`, quarantineName, "lost+found"])

const directoriesIn = async (path: string) => {
  const entries = await readdir(path, { withFileTypes: true })
  const ours = entries.filter((entry) => entry.isDirectory() && isId(entry.name))
  return {
    directories: ours.map((entry) => entry.name),
    others: entries.filter((entry) => !ours.includes(entry) && !usual.has(entry.name)).map((entry) => entry.name),
  }
}

/** What a directory holds, and what is known of it without opening a file. */
interface Listing {
  readonly directory: string
  readonly ids: ReadonlyArray<string>
  /** Names that mean nothing to us. */
  readonly others: ReadonlyArray<string>
  readonly known: ReadonlyMap<string, SummaryLine>
}

const list = async (directory: string, catalogue: Catalogue, { repair, trusting }: ScanOptions): Promise<Listing> => ({
  directory,
  ...await idsIn(directory, catalogue, repair),
  known: trusting ? await readSummary(directory) : new Map(),
})

/** Brings a recording's summary up to date where that pays. */
const refreshSummary = async ({ directory, known }: Listing, found: ReadonlyArray<Inspection>): Promise<void> => {
  const lines = found.flatMap(({ line }) => line ?? [])
  const fresh = lines.filter(({ header }) => !known.has(header.description.id)).length
  const stale = known.size + fresh - lines.length
  if (fresh > 0 || stale > lines.length) await replaceSummary(directory, lines)
}

/** Inspects every file of a folder that nobody is writing. A single file that cannot be read is logged and left out. */
export const scanFolder = Effect.fnUntraced(function*(folder: Folder, catalogue: Catalogue, options: ScanOptions) {
  const { name, options: { path } } = folder
  const strange = (file: string, reason: string): null => {
    options.strange?.({ folder: name, path: file, reason })
    return null
  }

  const inspectOne = Effect.fnUntraced(function*({ directory, known }: Listing, id: string) {
    if (catalogue.get(id)?.growing === true) return null
    const line = known.get(id)
    if (line !== undefined) return sealedInspection(name, line, 0)
    const found = yield* attempt(name, `inspecting ${id}`, () => look(join(directory, id), id, name, options.repair))
      .pipe(
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning("a file of footage cannot be read", { id, folder: name, reason: error.message }),
            strange(join(directory, `${id}${mediaEnding}`), error.message),
          )
        ),
      )
    if (found !== "foreign") return found
    yield* Effect.logWarning("a file among the footage is not understood and stays as it is", { id, folder: name })
    strange(join(directory, `${id}${mediaEnding}`), "it does not begin like footage of the name it has")
    return null
  })

  const scanRecording = Effect.fnUntraced(function*(directory: string) {
    const listing = yield* attempt(name, "listing a recording", () => list(directory, catalogue, options))
    for (const other of listing.others) strange(join(directory, other), "it is not a file of footage")
    const all = yield* Effect.forEach(listing.ids, (id) => inspectOne(listing, id), { concurrency: filesAtATime })
    const found = all.filter((inspection) => inspection !== null)
    if (options.repair) yield* Effect.promise(() => refreshSummary(listing, found))
    return found
  })

  const { directories, others } = yield* attempt(name, "listing the folder", () => directoriesIn(path))
  for (const other of others) strange(join(path, other), "it is not the directory of a recording")
  options.progress?.(0, directories.length)
  const inspections = yield* Effect.forEach(
    directories,
    (directory, n) =>
      Effect.tap(
        scanRecording(join(path, directory)),
        Effect.sync(() => options.progress?.(n + 1, directories.length)),
      ),
  )
  return inspections.flat()
})
