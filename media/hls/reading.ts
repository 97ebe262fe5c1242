/**
 * Reading stored fragments for players.
 *
 * Invariants
 * 1. Reading holds one chunk, or one fragment where it is changed on the way, or the key pictures of one segment, never more.
 * 2. A file is open for as long as somebody reads it.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Stream } from "effect"
import { type FileHandle, open } from "node:fs/promises"
import { Payload } from "../fmp4/fragment-memory.ts"
import { type Picture, writeFragment } from "../fmp4/fragment-writer.ts"
import type { HlsMedia } from "../hls.ts"
import { type IndexEntry, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { BoxError, firstPicture, hideFragmentSound } from "./boxes.ts"

/** Large enough that a segment takes few reads, small enough for hundreds of players. */
const chunkBytes = 256 * 1024
/** Reaches past the `moof` and most key pictures of a camera's stream. */
const headBytes = 128 * 1024
/** A picture beyond this is not one (an 8K key frame at the highest quality has about 20 MB). */
const largestPictureBytes = 64 * 1024 * 1024

export const damaged = (file: SegmentFile) => (cause: unknown): StorageError =>
  cause instanceof StorageError ? cause : new StorageError({
    cause: "disk_error",
    folder: file.folder,
    code: errorCode(cause),
    detail: cause instanceof Error ? cause.message : String(cause),
  })

const errorCode = (cause: unknown): string =>
  cause instanceof BoxError ? "DAMAGED" : cause instanceof Error && "code" in cause ? String(cause.code) : "EIO"

/** Exactly `[from, from + length)`; a shorter file is damage. */
export const readExactly = async (handle: FileHandle, from: number, length: number): Promise<Uint8Array> => {
  const bytes = new Uint8Array(length)
  for (let done = 0; done < length;) {
    const { bytesRead } = await handle.read(bytes, done, length - done, from + done)
    if (bytesRead === 0) throw new BoxError({ detail: `File ends at ${from + done}, ${length - done} bytes early` })
    done += bytesRead
  }
  return bytes
}

/** An open file for as long as the stream runs. */
export const withHandle = <A>(
  path: string,
  file: SegmentFile,
  use: (handle: FileHandle) => Stream.Stream<A, StorageError>,
) =>
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
export const pieces = (
  file: SegmentFile,
  list: ReadonlyArray<() => Promise<Uint8Array>>,
): Stream.Stream<Uint8Array, StorageError> =>
  Stream.fromIterable(list).pipe(Stream.mapEffect((piece) => Effect.tryPromise({ try: piece, catch: damaged(file) })))

export const plainPieces = (handle: FileHandle, from: number, to: number) => {
  const list: Array<() => Promise<Uint8Array>> = []
  for (let at = from; at < to; at += chunkBytes) {
    const length = Math.min(chunkBytes, to - at)
    list.push(() => readExactly(handle, at, length))
  }
  return list
}

/** Fragments that overlap `[from, to)` of the file, sound hidden, cut to it. */
export const silentPieces = (handle: FileHandle, table: FragmentTable, video: number, from: number, to: number) => {
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
export const readKeys = async (
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

export const inMemory = (bytes: Uint8Array, contentType: string, etag: string): HlsMedia => ({
  kind: "media",
  contentType,
  etag,
  bytes: bytes.length,
  read: (from, to) => Stream.succeed(bytes.subarray(from, to)),
})
