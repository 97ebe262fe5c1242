/**
 * All ledgers of this node: read at start, opened with their recordings, asked for gaps.
 *
 * Invariants
 * 1. A recording that is no longer assigned keeps its ledger while it has footage, or may have: while a storage folder does not
 *    answer. Without footage the ledger goes when the recording is deleted, and at the next start at the latest.
 * 2. A ledger is made to agree with the footage once, when it is first opened in this process.
 */
import type { Storage } from "#media/storage.ts"
import type { Interval, RecordingId } from "#schema/common.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Clock, Effect, Exit, Scope, Semaphore } from "effect"
import type { Journal } from "./journal.ts"
import { type KeptLedger, openLedger, type StoredSpans, toleranceMs } from "./ledger-store.ts"
import { union } from "./ledger.ts"
import { type LineDisks, memoryLineDisk } from "./line-disk.ts"
import type { RecorderParts, RecordingAssignment } from "./recorder.ts"

export interface LedgersOptions {
  readonly storage: Storage["Service"]
  readonly journal: Journal
  readonly newId: () => string
  readonly retryMs: number
  readonly disks: LineDisks
  readonly assigned: ReadonlySet<string>
}

export interface Ledgers {
  readonly open: (recordingId: RecordingId, epoch: number) => Effect.Effect<KeptLedger>
  readonly between: (recordingId: RecordingId, interval: Interval) => ReadonlyArray<LedgerGap>
  /** Where the files of this epoch go on. */
  readonly resumeOf: (assignment: RecordingAssignment) => Effect.Effect<RecorderParts["resume"]>
  readonly forget: (recordingId: RecordingId, before: number) => void
  /** Closes and deletes a ledger. */
  readonly remove: (recordingId: RecordingId) => Effect.Effect<void>
}

const always: Interval = { start: Number.MIN_SAFE_INTEGER, end: Number.MAX_SAFE_INTEGER }
const folder = "ledger"
const nameOf = (recordingId: RecordingId) => `${folder}/${recordingId}.ndjson`
/** Files whose inside is looked at: the one that was growing, and the one before, which was perhaps not sealed yet. */
const lookedInto = 2

export const makeLedgers = Effect.fnUntraced(
  function*(options: LedgersOptions): Effect.fn.Return<Ledgers, never, Scope.Scope> {
    const { storage } = options
    // Closed after whatever is made later than this room: a recording that ends still writes to its ledger.
    const scope = yield* Scope.fork(yield* Scope.Scope)
    const clock = yield* Clock.Clock
    const opened = new Map<RecordingId, KeptLedger & { readonly scope: Scope.Closeable }>()
    const opening = yield* Semaphore.make(1)

    const inside = (file: SegmentFile): Effect.Effect<StoredSpans> =>
      storage.index(file).pipe(
        Effect.map((entries) => entries.map((entry) => ({ start: entry.startMs, end: entry.endMs }))),
        Effect.catchTag("StorageError", (error) =>
          Effect.as(Effect.logWarning(`The index of file ${file.id} cannot be read`, error), [{
            start: file.startMs,
            end: file.endMs,
          }])),
      )
    const stored = (recordingId: RecordingId): Effect.Effect<StoredSpans> =>
      Effect.gen(function*() {
        const files = storage.files(recordingId, always).filter((file) =>
          file.fragments > 0
        )
        const spans: Array<Interval> = files.slice(0, -lookedInto).map((file) => ({
          start: file.startMs,
          end: file.endMs,
        }))
        for (const file of files.slice(-lookedInto)) {
          spans.push(...yield* inside(file))
        }
        return union(spans.map(({ end, start }) => ({ start, end: end + toleranceMs - 1 }))).map(({ end, start }) => ({
          start,
          end: end - toleranceMs + 1,
        }))
      })

    const open = Effect.fnUntraced(function*(recordingId: RecordingId, epoch: number) {
      const known = opened.get(recordingId)
      if (known !== undefined) {
        return known
      }
      const name = nameOf(recordingId)
      const own = yield* Scope.fork(scope)
      const parts = {
        recordingId,
        journal: options.journal,
        newId: options.newId,
        retryMs: options.retryMs,
        nowMs: clock.currentTimeMillisUnsafe(),
        epoch,
        stored: stored(recordingId),
      }
      const kept = yield* Effect.flatMap(options.disks.open(name), (disk) =>
        openLedger({ ...parts, disk })).pipe(
          Effect.catchTag("LineDiskError", (error) =>
            Effect.andThen(
              Effect.logError("A gap ledger cannot be read; it is kept in memory for now", error),
              Effect.orDie(openLedger({ ...parts, disk: memoryLineDisk() })),
            )),
          Scope.provide(own),
        )
      opened.set(recordingId, { ...kept, scope: own })
      return kept
    }, Semaphore.withPermit(opening))

    const allThere = (yield* storage.usage).every(({ state }) => state !== "missing" && state !== "error")
    for (const name of yield* options.disks.list(folder)) {
      const recordingId = name.replace(/\.ndjson$/, "") as RecordingId
      if (options.assigned.has(recordingId) || !name.endsWith(".ndjson")) continue
      if (storage.files(recordingId, always).length > 0) yield* open(recordingId, 0)
      else if (allThere) yield* options.disks.remove(`${folder}/${name}`)
    }

    return {
      open,
      between: (recordingId, interval) => opened.get(recordingId)?.ledger.between(interval) ?? [],
      forget: (recordingId, before) => opened.get(recordingId)?.forget(before),
      remove: Effect.fnUntraced(function*(recordingId) {
        const kept = opened.get(recordingId)
        opened.delete(recordingId)
        // What it still owed the disk is written first, and by nobody afterwards.
        if (kept !== undefined) yield* Scope.close(kept.scope, Exit.void)
        yield* options.disks.remove(nameOf(recordingId))
      }),
      resumeOf: ({ epoch, nodeId, recording: { recordingId } }) =>
        Effect.gen(function*() {
          const own = storage.files(recordingId, always).filter((file) =>
            file.epoch === epoch && file.nodeId === nodeId
          )
          const newest = own.reduce<SegmentFile | null>((a, b) => a === null || b.sequence > a.sequence ? b : a, null)
          if (newest === null) return { sequence: 0, decodeTicks: 0 }
          const entries = yield* Effect.catchTag(storage.index(newest), "StorageError", () => Effect.succeed([]))
          const last = entries.at(-1)
          return {
            sequence: newest.sequence + 1,
            decodeTicks: last === undefined ? 0 : last.decodeTicks + last.durationTicks,
          }
        }),
    }
  },
)
