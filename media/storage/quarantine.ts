/**
 * Footage of other nodes on its way in: `<folder>/quarantine/<id>.part`, on the disk of the folder it will belong to.
 *
 * Invariants
 * 1. A part has the length of its front and what was written of its fragments; holes read as zeros and are no footage.
 * 2. A file leaves quarantine by one rename, after all its fragments were read, its bytes synced and its index written. A crash
 *    before the rename leaves an index without media, which the next scan clears away; after it, a whole file. Who asked for it
 *    may go: once begun, the way out of quarantine is gone to its end, up to the catalogue.
 * 3. A file that left quarantine is known by its id where it stands, also if it failed on the last steps of that way.
 * 4. The front is written anew with the file's id; recorder, epoch, sequence and origin stay as they came.
 * 5. Nothing here reads or writes at a path that does not come from a UUIDv7.
 */
import { Uuid7 } from "#schema/common.ts"
import { Effect, Schema, Semaphore } from "effect"
import { type FileHandle, mkdir, open, readdir, rename, stat, unlink } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type FileDescription, identityBox } from "../fmp4/identity-box.ts"
import { type Incoming, type IndexEntry, NotFootage, type Quarantined, type Storage, StorageError } from "../storage.ts"
import { fromDescription, toSegmentFile } from "./catalogue.ts"
import { candidates, refusal, syncDirectory } from "./create.ts"
import { attempt, codeOf } from "./failure.ts"
import { parseFront, readAt, readFragments, readFront } from "./file-truth.ts"
import type { Folder } from "./folder.ts"
import { FragmentTable } from "./fragment-table.ts"
import { encodeIndex, sealOf } from "./index-file.ts"
import { appendOutlines, dayOf, encodeOutline, outlinePath } from "./outline.ts"
import type { Room } from "./room.ts"
import { appendSummary } from "./summary.ts"

export const quarantineName = "quarantine"
const partEnding = ".part"
const isId = Schema.is(Uuid7)
const noIndex = { header: null, entries: [], seal: null } as const

/** A file as it will be: its front, told anew, and where its fragments begin. */
interface Planned {
  readonly description: FileDescription
  readonly front: Buffer
  readonly initBytes: number
}

const plan = ({ front, id }: Incoming): Planned | null => {
  const told = parseFront(front)
  if (told === null || !isId(id)) return null
  const description = { ...told.description, id }
  return {
    description,
    front: Buffer.concat([told.initBytes, identityBox(description)]),
    initBytes: told.init.bytes,
  }
}

const pathOf = (folder: Folder, id: string): string => join(folder.options.path, quarantineName, `${id}${partEnding}`)

const isThere = (path: string): Promise<boolean> => stat(path).then(() => true, () => false)

/** A part with its front; one that is there stays as it is, unless its front was torn. */
const openPart = async (path: string, { front }: Planned): Promise<FileHandle> => {
  await mkdir(dirname(path), { recursive: true })
  const file = await open(path, "a+").then(async (made) => {
    await made.close()
    return open(path, "r+")
  })
  try {
    const there = await readAt(file, 0, front.length)
    if (!there.equals(front)) {
      await file.truncate(0)
      await file.write(front, 0, front.length, 0)
      await file.sync()
      await syncDirectory(dirname(path))
    }
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

const writeAll = async (file: FileHandle, bytes: Uint8Array, position: number): Promise<void> => {
  for (let done = 0; done < bytes.length;) {
    const { bytesWritten } = await file.write(bytes, done, bytes.length - done, position + done)
    if (bytesWritten === 0) throw Object.assign(new Error("nothing was written"), { code: "EIO" })
    done += bytesWritten
  }
}

/** Fragments of `[from, to)`, none missing; null where something else stands there. */
const fragmentsWithin = async (
  file: FileHandle,
  planned: Planned,
  from: number,
  to: number,
): Promise<ReadonlyArray<IndexEntry> | null> => {
  const front = parseFront(planned.front)
  if (front === null) return null
  const entries = await readFragments(file, { ...front, firstOffset: from }, noIndex, to)
  let at = from
  for (const entry of entries) {
    if (entry.offset !== at) return null
    at += entry.bytes
  }
  return at === to && entries.length > 0 ? entries : null
}

/** Path of a file that left quarantine, or null. */
const adoptedPath = async (folder: Folder, id: string): Promise<string | null> => {
  const names = await readdir(folder.options.path).catch(() => [])
  for (const name of names.filter((one) => isId(one))) {
    const path = join(folder.options.path, name, `${id}.mp4`)
    if (await isThere(path)) return path
  }
  return null
}

/** The way out of quarantine for what lies at `path`; again, for one that has gone it before. */
const place = async (
  folder: Folder,
  path: string,
  { description, front, initBytes }: Planned,
  entries: ReadonlyArray<IndexEntry>,
  bytes: number,
) => {
  const base = join(folder.options.path, description.recordingId, description.id)
  const header = { description, initBytes, firstOffset: front.length }
  const seal = sealOf(entries, description, bytes)
  await mkdir(dirname(base), { recursive: true })
  const index = await open(`${base}.idx`, "w", 0o640)
  try {
    await index.writeFile(encodeIndex(header, entries, seal))
    await index.sync()
  } finally {
    await index.close()
  }
  await rename(path, `${base}.mp4`)
  await syncDirectory(dirname(base))
  await syncDirectory(folder.options.path)
  return { base, header, seal }
}

export const makeQuarantine = Effect.fnUntraced(function*(room: Room) {
  /** Opening, adopting and discarding exclude each other. */
  const lock = yield* Semaphore.make(1)
  const now = () => room.clock.currentTimeMillisUnsafe()

  const planned = (incoming: Incoming) => {
    const made = plan(incoming)
    return made === null ?
      Effect.fail(new NotFootage({ detail: "it does not begin like a file of footage" })) :
      Effect.succeed(made)
  }
  /** Where a part lies already, or null. */
  const found = (id: string) =>
    Effect.promise(async () => {
      for (const folder of room.folders) if (await isThere(pathOf(folder, id))) return folder
      return null
    })
  const chosen = Effect.fnUntraced(function*(bytes: number) {
    for (const folder of candidates(room)) {
      yield* folder.probe(room.registry)
      if (folder.accepts && folder.room > bytes) return folder
    }
    const none = refusal(room)
    return yield* none.cause === "disk_full" ? none : new StorageError({
      cause: "disk_full",
      folder: none.folder,
      code: "ENOSPC",
      detail: `no folder has ${bytes} bytes above its floor`,
    })
  })
  const reported = <A>(folder: Folder, work: Effect.Effect<A, StorageError>) =>
    Effect.tapError(work, (error) => Effect.sync(() => folder.report(error, now())))

  const closing = (folder: Folder, opened: FileHandle) =>
    Effect.ignore(attempt(folder.name, "closing", () => opened.close()))

  /** Where all of it lies: in quarantine, or already out of it. */
  const located = Effect.fnUntraced(function*(id: string) {
    if (!isId(id)) return null
    const folder = yield* found(id)
    if (folder !== null) return { folder, path: pathOf(folder, id) }
    for (const one of room.folders) {
      const path = yield* Effect.promise(() => adoptedPath(one, id))
      if (path !== null) return { folder: one, path }
    }
    return null
  })

  /** A part as it lies there, its front told by itself. */
  const reopen = Effect.fnUntraced(function*({ bytes, id }: Pick<Incoming, "id" | "bytes">) {
    const where = yield* located(id)
    if (where === null) return yield* new NotFootage({ detail: "nothing of it has come yet" })
    const { folder, path } = where
    const file = yield* Effect.acquireRelease(
      attempt(folder.name, "opening a file in quarantine", () => open(path, "r+")),
      (opened) => closing(folder, opened),
    )
    const front = yield* attempt(folder.name, "reading quarantine", () => readFront(file))
    if (front === null || front.description.id !== id) return yield* new NotFootage({ detail: "its front is damaged" })
    const made = {
      description: front.description,
      front: Buffer.concat([front.initBytes, identityBox(front.description)]),
      initBytes: front.init.bytes,
    }
    return { end: made.front.length + bytes, file, folder, made, path }
  })

  const openIt = Effect.fnUntraced(function*(incoming: Incoming) {
    const made = yield* planned(incoming)
    const folder = (yield* found(incoming.id)) ?? (yield* chosen(incoming.bytes))
    const path = pathOf(folder, incoming.id)
    const file = yield* Effect.acquireRelease(
      reported(folder, attempt(folder.name, "opening a file in quarantine", () => openPart(path, made))),
      (opened) => closing(folder, opened),
    )
    const end = made.front.length + incoming.bytes
    return { file, folder, made, end }
  })

  const openQuarantined = Effect.fnUntraced(function*(incoming: Incoming) {
    const { end, file, folder, made } = yield* openIt(incoming).pipe(Semaphore.withPermit(lock))
    const outside = (at: number, length: number) => at < 0 || made.front.length + at + length > end
    const { channelId, epoch, nodeId, recordingId, recordingToken, streamId } = made.description
    return {
      identity: { channelId, epoch, nodeId, recordingId, recordingToken, streamId },
      write: (at, bytes) =>
        outside(at, bytes.length) ?
          Effect.die(new Error("a write outside of its file")) :
          reported(
            folder,
            attempt(folder.name, "writing to quarantine", () => writeAll(file, bytes, made.front.length + at)),
          ),
      prove: Effect.fnUntraced(function*(at, bytes) {
        const from = made.front.length + at
        yield* reported(folder, attempt(folder.name, "syncing", () => file.datasync()))
        const entries = outside(at, bytes) ?
          null :
          yield* attempt(folder.name, "reading quarantine", () => fragmentsWithin(file, made, from, from + bytes))
        return entries ?? (yield* new NotFootage({ detail: "it does not consist of whole fragments" }))
      }),
    } satisfies Quarantined
  })

  /** Invariant 2: from the catalogue's word of it to the last of what is derived from it. */
  const leave = Effect.fnUntraced(
    function*(folder: Folder, path: string, made: Planned, entries: ReadonlyArray<IndexEntry>, end: number) {
      const { description } = made
      const { startMs } = description
      const nothing = { fragments: 0, bytes: 0, startMs, endMs: startMs, frames: 0 }
      // The catalogue knows of a file before it is there, so that a scan in between leaves it alone.
      room.catalogue.put(fromDescription(description, folder.name, nothing, { sealed: false, growing: true }))
      const { base, header, seal } = yield* reported(
        folder,
        attempt(folder.name, "moving a file out of quarantine", () => place(folder, path, made, entries, end)),
      ).pipe(Effect.tapError(() => Effect.sync(() => room.catalogue.remove(description.id))))
      const kept = room.catalogue.put(fromDescription(description, folder.name, seal, { sealed: true, growing: false }))
      yield* Effect.promise(async () => {
        await appendSummary(dirname(base), { header, seal })
        await appendOutlines(
          outlinePath(dirname(base), dayOf(kept.startMs)),
          encodeOutline(kept, FragmentTable.of(entries)),
        )
      })
      return toSegmentFile(kept)
    },
  )

  const adoptIt = Effect.fnUntraced(function*(incoming: Pick<Incoming, "id" | "bytes">) {
    const there = room.catalogue.get(incoming.id)
    if (there !== undefined && there.sealed) return toSegmentFile(there)
    const { end, file, folder, made, path } = yield* reopen(incoming)
    const entries = yield* attempt(
      folder.name,
      "reading quarantine",
      () => fragmentsWithin(file, made, made.front.length, end),
    )
    if (entries === null) return yield* new NotFootage({ detail: "some of it has not come yet" })
    yield* reported(
      folder,
      attempt(folder.name, "syncing", async () => {
        await file.truncate(end)
        await file.sync()
      }),
    )
    return yield* Effect.uninterruptible(leave(folder, path, made, entries, end))
  }, Effect.scoped)

  const quarantine: Storage["Service"]["quarantine"] = {
    open: openQuarantined,
    adopt: (incoming) => adoptIt(incoming).pipe(Semaphore.withPermit(lock)),
    ids: Effect.promise(async () => {
      const names = await Promise.all(
        room.folders.map((folder) => readdir(join(folder.options.path, quarantineName)).catch(() => [])),
      )
      return names.flat().filter((name) => name.endsWith(partEnding)).map((name) => name.slice(0, -partEnding.length))
        .filter(isId)
    }),
    discard: Effect.fnUntraced(function*(id: string) {
      if (!isId(id)) return
      for (const folder of room.folders) {
        yield* attempt(folder.name, "clearing quarantine", () =>
          unlink(pathOf(folder, id)).catch((error: unknown) => {
            if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") throw error
          }))
      }
    }, Semaphore.withPermit(lock)),
  }
  return quarantine
})
