/**
 * Finds and reads the bytes behind a resource name.
 *
 * Invariants
 * 1. A name is served only if its file belongs to the source and its range is one of whole fragments that the interval needs.
 * 2. Reading holds one chunk, or one fragment where sound is hidden, or the key pictures of one segment, never more.
 */
import { videoClockHz } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { ReplayFileNotFound } from "#schema/replay.ts"
import { Effect, Stream } from "effect"
import { type FileHandle, open } from "node:fs/promises"
import { Payload } from "../fmp4/fragment-memory.ts"
import { type Picture, writeFragment } from "../fmp4/fragment-writer.ts"
import type { HlsMedia, HlsSource, HlsText } from "../hls.ts"
import { type IndexEntry, type Storage, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { BoxError, firstPicture, hideFragmentSound, hideSound, videoTrackOf } from "./boxes.ts"
import { filesOf } from "./footage.ts"
import { parseName, type ResourceName } from "./names.ts"
import { keyEntries, type Rows, rowsWithin } from "./plan.ts"
import { cuesOf } from "./vtt.ts"

/** Large enough that a segment takes few reads, small enough for hundreds of players. */
const chunkBytes = 256 * 1024
/** Reaches past the `moof` and most key pictures of a camera's stream. */
const headBytes = 128 * 1024
/** A picture beyond this is not one (an 8K key frame at the highest quality has about 20 MB). */
const largestPictureBytes = 64 * 1024 * 1024

const damaged = (file: SegmentFile) => (cause: unknown): StorageError =>
  cause instanceof StorageError ? cause : new StorageError({
    cause: "disk_error",
    folder: file.folder,
    code: errorCode(cause),
    detail: cause instanceof Error ? cause.message : String(cause),
  })

const errorCode = (cause: unknown): string =>
  cause instanceof BoxError ? "DAMAGED" : cause instanceof Error && "code" in cause ? String(cause.code) : "EIO"

/** Exactly `[from, from + length)`; a shorter file is damage. */
const readExactly = async (handle: FileHandle, from: number, length: number): Promise<Uint8Array> => {
  const bytes = new Uint8Array(length)
  for (let done = 0; done < length;) {
    const { bytesRead } = await handle.read(bytes, done, length - done, from + done)
    if (bytesRead === 0) throw new BoxError({ detail: `File ends at ${from + done}, ${length - done} bytes early` })
    done += bytesRead
  }
  return bytes
}

/** An open file for as long as the stream runs. */
const withHandle = <A>(path: string, file: SegmentFile, use: (handle: FileHandle) => Stream.Stream<A, StorageError>) =>
  Stream.unwrap(
    Effect.map(
      Effect.acquireRelease(Effect.tryPromise({ try: () => open(path, "r"), catch: damaged(file) }), (handle) =>
        Effect.promise(() =>
          handle.close()
        )),
      use,
    ),
  )

/** Reads pieces one after another, each when the one before has been taken. */
const pieces = (
  file: SegmentFile,
  list: ReadonlyArray<() => Promise<Uint8Array>>,
): Stream.Stream<Uint8Array, StorageError> =>
  Stream.fromIterable(list).pipe(Stream.mapEffect((piece) => Effect.tryPromise({ try: piece, catch: damaged(file) })))

const plainPieces = (handle: FileHandle, from: number, to: number) => {
  const list: Array<() => Promise<Uint8Array>> = []
  for (let at = from; at < to; at += chunkBytes) {
    const length = Math.min(chunkBytes, to - at)
    list.push(() => readExactly(handle, at, length))
  }
  return list
}

/** Fragments that overlap `[from, to)` of the file, sound hidden, cut to it. */
const silentPieces = (handle: FileHandle, table: FragmentTable, video: number, from: number, to: number) => {
  const list: Array<() => Promise<Uint8Array>> = []
  for (let row = 0; row < table.length && table.offset(row) < to; row++) {
    if (table.endOffset(row) <= from) continue
    const offset = table.offset(row)
    list.push(async () => {
      const bytes = await readExactly(handle, offset, table.bytes(row))
      hideFragmentSound(bytes, video)
      return bytes.subarray(Math.max(0, from - offset), Math.min(bytes.length, to - offset))
    })
  }
  return list
}

/** The key picture at the start of a fragment. */
const readPicture = async (handle: FileHandle, entry: IndexEntry, video: number) => {
  for (let length = Math.min(headBytes, entry.bytes);; length = Math.min(length * 4, entry.bytes)) {
    const head = await readExactly(handle, entry.offset, length)
    const picture = firstPicture(head, video)
    if (picture === null) {
      if (length === entry.bytes) throw new BoxError({ detail: `Fragment at ${entry.offset} without moof` })
      continue
    }
    if (picture.bytes > largestPictureBytes || picture.offset < 0 || picture.offset + picture.bytes > entry.bytes) {
      throw new BoxError({ detail: `Picture of the fragment at ${entry.offset} lies outside of it` })
    }
    const end = picture.offset + picture.bytes
    const data = end <= length ?
      head.subarray(picture.offset, end) :
      await readExactly(handle, entry.offset + picture.offset, picture.bytes)
    return { data, offsetTicks: picture.offsetTicks }
  }
}

/** A fragment of key pictures alone, each shown until the next. */
const readKeys = async (
  path: string,
  entries: ReadonlyArray<IndexEntry>,
  endTicks: number,
  endMs: number,
  video: number,
) => {
  await using handle = await open(path, "r")
  const pictures: Array<Picture> = []
  const payload = new Payload()
  for (const entry of entries) {
    const { data, offsetTicks } = await readPicture(handle, entry, video)
    payload.append(data)
    pictures.push({ bytes: data.length, key: true, decodeTicks: entry.decodeTicks, offsetTicks })
  }
  const content = {
    sequence: 1,
    pictures,
    endTicks,
    audio: [],
    startMs: (entries[0] as IndexEntry).startMs,
    endMs,
    discontinuity: false,
  }
  return writeFragment(content, payload).data
}

const inMemory = (bytes: Uint8Array, contentType: string, etag: string): HlsMedia => ({
  kind: "media",
  contentType,
  etag,
  bytes: bytes.length,
  read: (from, to) => Stream.succeed(bytes.subarray(from, to)),
})

interface Found {
  readonly file: SegmentFile
  readonly path: string
  readonly table: FragmentTable
  readonly range: Rows
}

export const makeResources = (storage: Storage["Service"]) => {
  const init = Effect.fnUntraced(function*(file: SegmentFile, name: ResourceName & { kind: "init" }, filename: string) {
    const stored = yield* storage.init(file)
    const bytes = name.sound ? stored : yield* Effect.try({ try: () => hideSound(stored), catch: damaged(file) })
    return inMemory(bytes, "video/mp4", filename)
  })

  const find = Effect.fnUntraced(function*(source: HlsSource, file: SegmentFile, offset: number, bytes: number) {
    const [table] = yield* storage.fragments([file])
    if (table === undefined || table instanceof StorageError) return yield* table ?? Effect.succeed(null)
    const allowed = rowsWithin(table, source.start, source.end)
    const from = table.rowAt(offset)
    const to = table.rowAt(offset + bytes)
    if (from < allowed.from || to > allowed.to || to <= from) return null
    if (table.offset(from) !== offset || table.endOffset(to - 1) !== offset + bytes) return null
    return { file, path: storage.path(file), table, range: { from, to } } satisfies Found
  })

  const media = Effect.fnUntraced(function*(found: Found, name: ResourceName & { kind: "media" }, filename: string) {
    const { file, path, range, table } = found
    const shape = { kind: "media", contentType: "video/mp4", etag: filename } as const
    if (name.variant.kind === "all") {
      const read: HlsMedia["read"] = (from, to) =>
        withHandle(path, file, (handle) => pieces(file, plainPieces(handle, name.offset + from, name.offset + to)))
      return { ...shape, bytes: name.bytes, read }
    }
    const stored = yield* storage.init(file)
    const video = yield* Effect.try({ try: () => videoTrackOf(stored), catch: damaged(file) })
    if (name.variant.kind === "video") {
      const read: HlsMedia["read"] = (from, to) =>
        withHandle(
          path,
          file,
          (handle) => pieces(file, silentPieces(handle, table, video, name.offset + from, name.offset + to)),
        )
      return { ...shape, bytes: name.bytes, read }
    }
    const keys = keyEntries(table, range, name.variant.stepMs * videoClockHz / 1000)
    if (keys.length === 0) return null
    const bytes = yield* Effect.tryPromise({
      try: () => readKeys(path, keys, table.endTicks(range.to - 1), table.endMs(range.to - 1), video),
      catch: damaged(file),
    })
    return inMemory(bytes, shape.contentType, shape.etag)
  })

  const text = (found: Found): HlsText => {
    const { range, table } = found
    const startMs = table.startMs(range.from)
    return {
      kind: "text",
      interval: { start: startMs - 2_000, end: Math.max(startMs, table.endMs(range.to - 1)) + 2_000 },
      render: (gaps) => cuesOf(table, range, gaps),
    }
  }

  const lookUp = Effect.fnUntraced(function*(source: HlsSource, filename: string) {
    const name = parseName(filename)
    const file = name === null ? undefined : filesOf(storage, source).find((one) => one.id === name.fileId)
    if (name === null || file === undefined) return null
    if (name.kind === "init") return yield* init(file, name, filename)
    const found = yield* find(source, file, name.offset, name.bytes)
    if (found === null) return null
    return name.kind === "text" ? text(found) : yield* media(found, name, filename)
  })

  /** A file that is gone is a file that is not there; other troubles of the disk stay what they are. */
  const resource = (
    source: HlsSource,
    filename: string,
  ): Effect.Effect<HlsMedia | HlsText, ReplayFileNotFound | StorageError> => {
    const missing = Effect.fail(new ReplayFileNotFound({ filename: filename.slice(0, 128) }))
    return lookUp(source, filename).pipe(
      Effect.catchTag("StorageError", (error) => error.code === "ENOENT" ? Effect.succeed(null) : Effect.fail(error)),
      Effect.flatMap((found) => found === null ? missing : Effect.succeed(found)),
    )
  }

  return { resource }
}
