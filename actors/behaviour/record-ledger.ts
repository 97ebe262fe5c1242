/**
 * Keeps the database's index of this node's footage and its gap ledger in step with what the recorder supervisor did: a fiber
 * that reads the local journal, and the rebuild from the disk.
 *
 * Invariants
 * 1. An entry is acknowledged only after the transaction that holds it has committed; the position in the database decides
 *    where reading goes on. A database that was away for days catches up completely, {@link batchSize} entries a transaction.
 * 2. After an overflow of the journal the index is rebuilt from the disk before reading goes on.
 * 3. Entries of an older epoch than the row they would change are refused, and told in the log.
 */
import { RecordLedger } from "#actors/protocol/record.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, type RecordingId } from "#schema/common.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Clock, Duration, Effect, Layer, Semaphore } from "effect"
import { batchOf, difference } from "./record-journal.ts"

/** Entries of a transaction: at some 400 bytes each, one statement carries 200 KB at most. */
const batchSize = 500
/** Entries that come close together go in one transaction. */
const gatherTime = Duration.millis(300)
/** Between attempts while the database is away: short enough to be complete a moment after it returns. */
const retryEvery = Duration.seconds(2)
/** Rows of one transaction of a rebuild. */
const rebuildBatch = 2_000

const chunks = <A>(items: ReadonlyArray<A>, size: number): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(items.length / size) }, (_, n) => items.slice(n * size, (n + 1) * size))

const makeRebuild = Effect.gen(function*() {
  const [{ nodeId }, store, supervisor, storage] = yield* Effect.all([
    Ownership,
    RecordLedgerStore,
    RecorderSupervisor,
    Storage,
  ])

  /** Gaps of every recording that has footage or an assignment here, with the newest epoch known of it. */
  const knownGaps = (files: ReadonlyArray<SegmentFile>) =>
    Effect.map(supervisor.assignments, (assignments) => {
      const epochs = new Map<RecordingId, number>()
      const note = (id: RecordingId, epoch: number) => epochs.set(id, Math.max(epochs.get(id) ?? 0, epoch))
      for (const file of files) note(file.recordingId, file.epoch)
      for (const { epoch, recording } of assignments) if (recording !== null) note(recording.recordingId, epoch)
      return Array.from(epochs).flatMap(([id, epoch]) =>
        supervisor.gaps(id, allTime).map((gap): LedgerGap & { readonly epoch: number } => ({ ...gap, epoch }))
      )
    })

  /** Makes the index equal to the disk. */
  return Effect.gen(function*() {
    const scanned = yield* Effect.orDie(storage.scan({ repair: false }))
    const files = scanned.map(({ file }) => file).filter((file) => file.nodeId === nodeId)
    const usage = yield* storage.usage
    const folders = new Set(
      usage.filter((folder) => folder.state !== "missing" && folder.state !== "error").map((folder) => folder.name),
    )
    const gone = difference({ indexed: yield* store.filesOf(nodeId), stored: files, folders })
    const gaps = [...yield* knownGaps(files), ...gone.gaps]
    const nowMs = yield* Clock.currentTimeMillis
    const empty = { nodeId, files: [], goneFiles: [], gaps: [], keptFrom: [], position: 0, nowMs }
    let unknown = 0
    for (const part of chunks(files, rebuildBatch)) unknown += (yield* store.apply({ ...empty, files: part })).refused
    for (const part of chunks(gaps, rebuildBatch)) yield* store.apply({ ...empty, gaps: part })
    yield* store.apply({ ...empty, goneFiles: gone.goneFiles, keptFrom: gone.keptFrom })
    const report = { files: files.length - unknown, gaps: gaps.length, removed: gone.goneFiles.length, unknown }
    yield* Effect.logInfo("The index of footage was rebuilt from the disk", report)
    return report
  })
})

/** One step along the journal: answers the position it reached, the same if there was nothing to read. */
const makeStep = <E, R>(rebuild: Effect.Effect<unknown, E, R>) =>
  Effect.gen(function*() {
    const [{ nodeId }, store, records, supervisor] = yield* Effect.all([
      Ownership,
      RecordLedgerStore,
      RecordStore,
      RecorderSupervisor,
    ])
    /** What an overflow lost is in the index, and the entries behind it are still being read. */
    let covered = false

    const apply = Effect.fnUntraced(function*(position: number) {
      const entries = yield* supervisor.journal(position, batchSize)
      if (entries.length === 0) return position
      const { events, ledger } = batchOf(entries, nodeId, yield* Clock.currentTimeMillis)
      // First, as they may be told twice; what follows counts once.
      yield* records.addEvents(events)
      const { refused } = yield* store.apply(ledger)
      if (refused > 0) {
        yield* Effect.logWarning("Entries of the journal were refused: older epoch, or a recording that is gone", {
          refused,
        })
      }
      yield* supervisor.acknowledge(ledger.position)
      return ledger.position
    })
    const recover = Effect.fnUntraced(function*(position: number) {
      yield* Effect.logWarning("The journal has lost entries; the index is rebuilt from the disk")
      const nowMs = yield* Clock.currentTimeMillis
      yield* rebuild
      covered = true
      const waiting = yield* supervisor.journal(position, 1)
      // A journal that was lost whole has nothing to read: its positions begin at the millisecond it was made in.
      if (waiting.length === 0) yield* supervisor.acknowledge(nowMs)
    })
    return Effect.fnUntraced(function*(position: number) {
      const lost = yield* supervisor.journalOverflowed
      if (lost && !covered) yield* recover(position)
      const reached = yield* apply(position)
      if (reached === position) covered = false
      return reached
    })
  })

const make = Effect.gen(function*() {
  const [{ nodeId }, store, supervisor] = yield* Effect.all([Ownership, RecordLedgerStore, RecorderSupervisor])
  const rebuild = yield* makeRebuild
  const step = yield* makeStep(rebuild)
  /** Reading and rebuilding write the same rows. */
  const one = yield* Semaphore.make(1)

  const follow = Effect.gen(function*() {
    let position = (yield* store.position(nodeId)) ?? 0
    while (true) {
      const reached: number = yield* one.withPermits(1)(step(position))
      if (reached === position) {
        yield* supervisor.awaitJournal(position)
        yield* Effect.sleep(gatherTime)
      }
      position = reached
    }
  })
  yield* follow.pipe(
    Effect.catchTag("DependencyUnavailable", () => Effect.logDebug("The journal waits for the database")),
    Effect.catchCause((cause) => Effect.logError("The journal could not be read into the database", cause)),
    Effect.andThen(Effect.sleep(retryEvery)),
    Effect.forever,
    Effect.forkScoped,
  )
  return RecordLedger.of({ position: () => store.position(nodeId), reindex: () => one.withPermits(1)(rebuild) })
})

export const layer = Layer.effect(RecordLedger, make)
