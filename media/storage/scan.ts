/**
 * Reads a folder from the disk alone, and mends what a dead process left behind.
 *
 * Invariants
 * 1. What this process is writing is never touched.
 * 2. Mending cuts only behind the last whole fragment of a file whose identity can be read, replaces an index by renaming a new
 *    one over it, and deletes only files without a single whole fragment.
 * 3. A file that is not understood stays as it is and is reported in the log.
 */
import { Uuid7 } from "#schema/common.ts"
import { Effect, Schema } from "effect"
import type { FileHandle } from "node:fs/promises"
import { open, readdir, rename, stat, truncate, unlink } from "node:fs/promises"
import { join } from "node:path"
import { type Catalogue, type CatalogueFile, fromDescription } from "./catalogue.ts"
import { attempt, codeOf } from "./failure.ts"
import { endOf, type Front, readAt, readFragments, readFront } from "./file-truth.ts"
import type { Folder } from "./folder.ts"
import { decodeHeader, decodeIndex, decodeSeal, encodeIndex, headerBytes, recordBytes, sealOf } from "./index-file.ts"

const mediaEnding = ".mp4"
const indexEnding = ".idx"
/** A file that died while its front was written is shorter than this. */
const stillbornBytes = 8 * 1024
/** Two reads leave libuv's other threads to the writers. */
const filesAtATime = 2

export interface Inspection {
  readonly entry: CatalogueFile
  readonly tornBytes: number
}

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
  if (size !== found.seal.bytes) return null
  return {
    entry: fromDescription(found.header.description, folder, found.seal, { sealed: true, growing: false }),
    tornBytes: 0,
  }
}

/** The index's bytes, none where there is no index. */
const indexBytes = async (base: string): Promise<Buffer> =>
  (await withFile(base + indexEnding, (file, size) => readAt(file, 0, size))) ?? Buffer.alloc(0)

/** Cuts the tail and writes the index that the file deserves. */
const mend = async (
  base: string,
  front: Front,
  entries: Awaited<ReturnType<typeof readFragments>>,
  tornBytes: number,
  old: Buffer,
): Promise<void> => {
  const bytes = endOf(front, entries)
  if (tornBytes > 0) await truncate(base + mediaEnding, bytes)
  const header = { description: front.description, initBytes: front.init.bytes, firstOffset: front.firstOffset }
  const fresh = encodeIndex(header, entries, sealOf(entries, front.description, bytes))
  if (fresh.equals(old)) return
  const file = await open(`${base}${indexEnding}.tmp`, "w")
  try {
    await file.writeFile(fresh)
    await file.datasync()
  } finally {
    await file.close()
  }
  await rename(`${base}${indexEnding}.tmp`, base + indexEnding)
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
  const tornBytes = size - endOf(front, entries)
  if (repair) await mend(base, front, entries, tornBytes, old)
  const sums = sealOf(entries, front.description, size - tornBytes)
  return { entry: fromDescription(front.description, folder, sums, { sealed: repair, growing: false }), tornBytes }
}

const look = async (
  base: string,
  id: string,
  folder: string,
  repair: boolean,
): Promise<Inspection | "foreign" | null> => (await quick(base, folder)) ?? (await inspect(base, id, folder, repair))

/** Ids of the files in a recording's directory, in order of time; with `repair`, what belongs to no file is deleted. */
const idsIn = async (directory: string, catalogue: Catalogue, repair: boolean): Promise<ReadonlyArray<string>> => {
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
  return [...names].filter((name) =>
    name.length === 36 + mediaEnding.length && name.endsWith(mediaEnding) && isId(nameOf(name))
  )
    .map(nameOf).sort()
}

const directoriesIn = async (path: string): Promise<ReadonlyArray<string>> =>
  (await readdir(path, { withFileTypes: true })).filter((entry) => entry.isDirectory() && isId(entry.name)).map((
    entry,
  ) => entry.name)

/** Inspects every file of a folder that nobody is writing. A single file that cannot be read is logged and left out. */
export const scanFolder = Effect.fnUntraced(function*(folder: Folder, catalogue: Catalogue, repair: boolean) {
  const { name, options: { path } } = folder
  const directories = yield* attempt(name, "listing the folder", () => directoriesIn(path))
  const lists = yield* Effect.forEach(
    directories,
    (directory) =>
      attempt(name, "listing a recording", () => idsIn(join(path, directory), catalogue, repair)).pipe(
        Effect.map((ids) => ids.map((id) => ({ id, base: join(path, directory, id) }))),
      ),
    { concurrency: filesAtATime },
  )
  const inspectOne = Effect.fnUntraced(function*({ base, id }: { readonly id: string; readonly base: string }) {
    if (catalogue.get(id)?.growing === true) return null
    const found = yield* attempt(name, `inspecting ${id}`, () => look(base, id, name, repair)).pipe(
      Effect.catch((error) =>
        Effect.as(
          Effect.logWarning("a file of footage cannot be read", { id, folder: name, reason: error.message }),
          null,
        )
      ),
    )
    if (found !== "foreign") return found
    yield* Effect.logWarning("a file among the footage is not understood and stays as it is", { id, folder: name })
    return null
  })
  const inspections = yield* Effect.forEach(lists.flat(), inspectOne, { concurrency: filesAtATime })
  return inspections.filter((inspection) => inspection !== null)
})
