/**
 * Finds and reads the bytes behind a resource name.
 *
 * Invariants
 * 1. A name is served only if its file belongs to the source and its range is one of whole fragments that the interval needs.
 * 2. A name of footage that has left is told in words of time, if it left lately and the source may have been told of it.
 */
import { videoClockHz } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { ReplayFileNotFound } from "#schema/replay.ts"
import { Effect } from "effect"
import type { HlsMedia, HlsSource, HlsText } from "../hls.ts"
import { type Storage, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { hideSound, videoTrackOf } from "./boxes.ts"
import { filesOf } from "./footage.ts"
import { makeMoments } from "./moment.ts"
import { type MomentName, momentName, parseMoment, parseName, type ResourceName } from "./names.ts"
import { keyEntries, type Rows, rowsWithin } from "./plan.ts"
import { damaged, inMemory, pieces, plainPieces, readKeys, silentPieces, withHandle } from "./reading.ts"
import { cuesOf } from "./vtt.ts"

/** What a name tells of, without whose it is. */
const momentOf = (name: ResourceName): MomentName["what"] =>
  name.kind === "init" ?
    { kind: "init", sound: name.sound } :
    name.kind === "text" ?
    { kind: "text" } :
    name.variant

interface Found {
  readonly file: SegmentFile
  readonly path: string
  readonly table: FragmentTable
  readonly range: Rows
}

export const makeResources = (storage: Storage["Service"]) => {
  const moment = makeMoments(storage)

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
    const ofTime = parseMoment(filename)
    if (ofTime !== null) return yield* moment(source, ofTime, filename)
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

  const departed = (source: HlsSource, filename: string): string | null => {
    const name = parseName(filename)
    const gone = name === null ? null : storage.departed(name.fileId)
    if (name === null || gone === null) return null
    const { file: { recordingId }, table } = gone
    const allowed = rowsWithin(table, source.start, source.end)
    if (recordingId !== source.recordingId || allowed.to <= allowed.from) return null
    const whole = name.kind === "init"
    const rows = whole ? allowed : { from: table.rowAt(name.offset), to: table.rowAt(name.offset + name.bytes) }
    if (rows.from < allowed.from || rows.to > allowed.to || rows.to <= rows.from) return null
    return momentName({
      what: momentOf(name),
      start: table.startMs(rows.from),
      end: table.endMs(rows.to - 1),
      ticks: whole ? null : table.decodeTicks(rows.from),
    })
  }

  return { resource, departed }
}
