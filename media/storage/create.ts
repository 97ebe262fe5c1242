/** Opens new files. */
import type { TrackParameters } from "#schema/media.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Effect, Result } from "effect"
import { type FileHandle, mkdir, open, rm } from "node:fs/promises"
import { dirname, join } from "node:path"
import { type FileDescription, identityBox } from "../fmp4/identity-box.ts"
import { initSegment } from "../fmp4/init-writer.ts"
import { type FileIdentity, type FileOrigin, type Storage, StorageError } from "../storage.ts"
import { fromDescription } from "./catalogue.ts"
import { attempt, codeOf } from "./failure.ts"
import type { Folder } from "./folder.ts"
import { FragmentTable } from "./fragment-table.ts"
import { encodeHeader, sealOf } from "./index-file.ts"
import { appendOutlines, dayOf, encodeOutline, outlinePath } from "./outline.ts"
import type { Room } from "./room.ts"
import { appendSummary } from "./summary.ts"
import { makeWriter, type Writer } from "./writer.ts"

/** Makes the names of new files durable. */
export const syncDirectory = async (path: string): Promise<void> => {
  const directory = await open(path, "r")
  try {
    await directory.sync()
  } finally {
    await directory.close()
  }
}

/** A new file with `bytes` at its front, open for writing. */
const openWith = async (path: string, bytes: Uint8Array): Promise<FileHandle> => {
  const file = await open(path, "wx", 0o640)
  try {
    await file.writeFile(bytes)
    return file
  } catch (error) {
    await file.close()
    throw error
  }
}

interface OpenFiles {
  readonly media: FileHandle
  readonly index: FileHandle
}

/** Both files, or neither. */
const openFiles = async (base: string, front: Uint8Array, header: Uint8Array): Promise<OpenFiles> => {
  const directory = dirname(base)
  await mkdir(directory, { recursive: true })
  const media = await openWith(`${base}.mp4`, front)
  try {
    const index = await openWith(`${base}.idx`, header)
    await syncDirectory(directory)
    await syncDirectory(dirname(directory))
    return { media, index }
  } catch (error) {
    await media.close()
    await discard(base)
    throw error
  }
}

/** Deletes a file that holds no footage, as far as the disk lets us: what stays is deleted by the next mending scan. */
const discard = async (base: string): Promise<void> => {
  await rm(`${base}.mp4`, { force: true }).catch(() => undefined)
  await rm(`${base}.idx`, { force: true }).catch(() => undefined)
}

/** Retention may remove an empty directory between its making and the first file in it: once more, then. */
const openFilesTwice = async (base: string, front: Uint8Array, header: Uint8Array): Promise<OpenFiles> => {
  try {
    return await openFiles(base, front, header)
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error
    return await openFiles(base, front, header)
  }
}

const createIn = Effect.fnUntraced(
  function*(room: Room, folder: Folder, description: FileDescription, init: Uint8Array) {
    const front = Buffer.concat([init, identityBox(description)])
    const base = join(folder.options.path, description.recordingId, description.id)
    const nothing = {
      fragments: 0,
      bytes: front.length,
      startMs: description.startMs,
      endMs: description.startMs,
      frames: 0,
    }
    const entry = room.catalogue.put(
      fromDescription(description, folder.name, nothing, { sealed: false, growing: true }),
    )
    const header = { description, initBytes: init.length, firstOffset: front.length }
    const now = () => room.clock.currentTimeMillisUnsafe()
    const files = yield* attempt(folder.name, "opening a file", () => openFilesTwice(base, front, encodeHeader(header)))
      .pipe(
        Effect.tapError((error) =>
          Effect.sync(() => {
            room.catalogue.remove(entry.id)
            folder.report(error, now())
          })
        ),
        Effect.uninterruptible,
      )
    const writer = yield* makeWriter({
      entry,
      ...files,
      firstOffset: front.length,
      queueBytes: room.options.queueBytes,
      onFailure: (error) => folder.report(error, now()),
      onOverflow: () => folder.reportSlow(now(), "a write queue overflowed"),
      onClosed: () => void room.writers.delete(entry.id),
    })
    room.writers.set(entry.id, writer)
    // A file without footage is not kept.
    const forget = Effect.promise(() => discard(base)).pipe(
      Effect.andThen(Effect.sync(() => room.catalogue.remove(entry.id))),
    )
    const summarise = Effect.promise(async () => {
      await appendSummary(dirname(base), { header, seal: sealOf(writer.entries(), description, entry.bytes) })
      const outline = encodeOutline(entry, FragmentTable.of(writer.entries()))
      await appendOutlines(outlinePath(dirname(base), dayOf(entry.startMs)), outline)
    })
    const seal = yield* Effect.cached(Effect.tap(writer.seal, (file) => file.fragments > 0 ? summarise : forget))
    return { ...writer, seal } satisfies Writer
  },
)

/** Best folder first: in order, slow, below its floor. */
export const candidates = (room: Room): ReadonlyArray<Folder> => {
  const rank = (folder: Folder) => folder.hasReserve ? 2 : folder.state === "slow" ? 1 : 0
  return room.folders.filter((folder) => folder.accepts || folder.hasReserve)
    .sort((a, b) => rank(a) - rank(b) || b.room - a.room)
}

/** No folder takes a file: the worst that can be mended by deleting comes first. */
export const refusal = (room: Room): StorageError => {
  const full = room.folders.find((folder) => folder.state === "full")
  const folder = full ?? room.folders[0]
  return new StorageError({
    cause: full === undefined ? "disk_error" : "disk_full",
    folder: folder?.name ?? "",
    code: full === undefined ? "ENODEV" : "ENOSPC",
    detail: folder === undefined ?
      "no storage folder is configured" :
      room.folders.map((each) => `${each.name}: ${each.detail}`).join("; "),
  })
}

/** `create` of the door. */
export const makeCreate = (room: Room): Storage["Service"]["create"] =>
  Effect.fnUntraced(
    function*(
      identity: FileIdentity,
      parameters: TrackParameters,
      first: { readonly sequence: number; readonly startMs: number },
      origin?: FileOrigin,
    ) {
      const init = initSegment(parameters)
      let problem: StorageError | null = null
      for (const folder of candidates(room)) {
        // A disk that went since the last probe has left an empty directory, and a file in it would hide behind the disk.
        yield* folder.probe(room.registry)
        if (!folder.accepts && !folder.hasReserve) continue
        const { channelId, epoch, nodeId, recordingId, recordingToken, streamId } = identity
        const description = {
          version: 1 as const,
          id: yield* uuid7,
          recordingId,
          recordingToken,
          streamId,
          channelId,
          nodeId,
          epoch,
          ...first,
          ...origin === undefined ? {} : { origin },
        }
        const made = yield* Effect.result(createIn(room, folder, description, init))
        if (Result.isSuccess(made)) return made.success
        problem ??= made.failure
      }
      return yield* problem ?? refusal(room)
    },
  )
