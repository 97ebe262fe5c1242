/** The file a recording writes to: when it turns, how the next one is opened, what a file holds between gaps. */
import { type FileWriter, type Storage, StorageError } from "#media/storage.ts"
import type { EpochMs, Interval } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Exit, Fiber, Option, type Scope } from "effect"

export interface OpenFile {
  readonly writer: FileWriter
  readonly parameters: TrackParameters
  readonly epoch: number
  /** Turned at the first key picture from here on. */
  readonly rotateAt: EpochMs
  readonly watch: Fiber.Fiber<unknown>
  /** End of the newest fragment its queue took. */
  endMs: EpochMs | null
  /** Its failure was dealt with. */
  broken: boolean
}

/** A number in `[0, modulo)` that a text always gives. FNV-1a. */
const staggerOf = (text: string, modulo: number): number => {
  let hash = 0x811c9dc5
  for (let i = 0; i < text.length; i++) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193) >>> 0
  return hash % modulo
}

/** When a file that begins at `startMs` is to turn: every `everyMs`, at a moment of the stream's own, so that not all turn at once. */
export const turnAfter = (startMs: EpochMs, streamId: string, everyMs: number): EpochMs => {
  const offset = staggerOf(streamId, everyMs)
  return (Math.floor((startMs - offset) / everyMs) + 1) * everyMs + offset
}

/** `Storage.create` with an end. */
export type FileOpener = (...args: Parameters<Storage["Service"]["create"]>) => Effect.Effect<FileWriter, StorageError>

/** A folder that hangs is given up after `openMs`; nothing else is opened until it answers. */
export const makeFileOpener = (storage: Storage["Service"], scope: Scope.Scope, openMs: number): FileOpener => {
  /** A file that is being opened for too long. */
  let opening: Fiber.Fiber<FileWriter, StorageError> | null = null
  const slow = new StorageError({
    cause: "disk_slow",
    folder: "",
    code: "ETIMEDOUT",
    detail: `no file could be opened within ${openMs} ms`,
  })
  return (...args) =>
    Effect.gen(function*() {
      if (opening !== null) {
        const late = yield* Effect.timeoutOption(Fiber.await(opening), openMs)
        if (Option.isNone(late)) return yield* slow
        opening = null
        if (Exit.isSuccess(late.value)) yield* Effect.forkIn(Effect.ignore(late.value.value.seal), scope)
      }
      const fiber = yield* Effect.forkIn(storage.create(...args), scope)
      const exit = yield* Effect.timeoutOption(Fiber.await(fiber), openMs)
      if (Option.isSome(exit)) return yield* exit.value
      opening = fiber
      return yield* slow
    })
}

/** What a file holds between the gaps, which rise. */
export const spansOf = (
  file: SegmentFile,
  gaps: ReadonlyArray<{ readonly startMs: EpochMs; readonly endMs: EpochMs | null }>,
): ReadonlyArray<Interval> => {
  const spans: Array<Interval> = []
  let start = file.startMs
  for (const gap of gaps) {
    if (gap.startMs >= file.endMs || (gap.endMs ?? file.endMs) <= start) continue
    if (gap.startMs > start) spans.push({ start, end: gap.startMs })
    start = gap.endMs ?? file.endMs
  }
  return start < file.endMs ? [...spans, { start, end: file.endMs }] : spans
}
