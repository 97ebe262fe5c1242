/**
 * Makes the index of this node's footage equal to its disks: rows of files, gaps of its ledgers, and what vanished.
 *
 * Invariants
 * 1. Nothing on a disk is changed. A torn file counts as far as it reads; what is not understood is left alone and told of.
 * 2. Of a folder that cannot be read nothing is known and nothing is forgotten.
 * 3. Everything that the journal was acknowledged for is in the index afterwards: an older database's position moves there.
 */
import { type LedgerBatch, RecordLedgerStore } from "#actors/store/record-ledger.ts"
import { RecordStore } from "#actors/store/record.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage, type StrangeFile } from "#media/storage.ts"
import { allTime, type RecordingId } from "#schema/common.ts"
import { type IndexReport, mostListed } from "#schema/record-index.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"
import { changesOf, difference, gapEvents } from "./record-journal.ts"
import { ownFiles } from "./record-recovery.ts"
import { makeGapTeller } from "./record-told.ts"

/** Rows of one transaction. */
const batchSize = 2_000
/** How much of the work is reading the disks; the rest is writing rows. */
const scanPart = 0.7

const chunks = <A>(items: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(items.length / batchSize) }, (_, n) => items.slice(n * batchSize, (n + 1) * batchSize))

export type IndexPart = Omit<IndexReport, "recordingsRecovered" | "camerasRecovered" | "recovered">

/** `keptFrom`: what retention is known to have taken besides. `tell`: 0 to 1. */
export interface RebuildOptions {
  readonly keptFrom: LedgerBatch["keptFrom"]
  readonly tell: (progress: number) => void
}

export const makeRebuild = Effect.gen(function*() {
  const [{ nodeId }, store, records, supervisor, storage] = yield* Effect.all([
    Ownership,
    RecordLedgerStore,
    RecordStore,
    RecorderSupervisor,
    Storage,
  ])
  const isOwn = yield* ownFiles
  const tellGaps = yield* makeGapTeller

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

  const readDisks = Effect.fnUntraced(function*(tell: RebuildOptions["tell"], indexed: ReadonlySet<string>) {
    const strange: Array<StrangeFile> = []
    const scanned = yield* Effect.orDie(storage.scan({
      repair: false,
      progress: (done, total) => tell(scanPart * done / Math.max(1, total)),
      strange: (file) => strange.push(file),
    }))
    const own = yield* isOwn
    // The row names the node that has the file; who made it stands in its header.
    // What another node recorded and brought home is ours.
    const files = scanned.filter(({ file }) => own(file) || indexed.has(file.id)).map(({ file }) => ({
      ...file,
      nodeId,
    }))
    const usage = yield* storage.usage
    const folders = new Set(
      usage.filter((folder) => folder.state !== "missing" && folder.state !== "error").map((folder) => folder.name),
    )
    return {
      scanned: scanned.length,
      torn: scanned.filter(({ tornBytes }) => tornBytes > 0).length,
      strange,
      files,
      folders,
    }
  })

  return Effect.fn("RecordLedger.rebuild")(function*({ keptFrom, tell }: RebuildOptions) {
    // Before the disks are read: whatever is acknowledged by now is on them.
    const position = yield* supervisor.journalAcknowledged
    const before = yield* store.filesOf(nodeId)
    const { files, folders, scanned, strange, torn } = yield* readDisks(tell, new Set(before.map(({ id }) => id)))
    const gone = difference({ indexed: before, stored: files, folders })
    const gaps = [...yield* knownGaps(files), ...gone.gaps]
    const nowMs = yield* Clock.currentTimeMillis
    const empty = { nodeId, files: [], goneFiles: [], gaps: [], keptFrom: [], position: 0, nowMs }
    const [fileParts, gapParts] = [chunks(files), chunks(gaps)]
    // What was missing before was told then.
    for (const part of chunks(gone.gaps)) yield* tellGaps(part.flatMap((gap) => gapEvents(nodeId, gap)))
    const steps = fileParts.length + gapParts.length + 1
    let step = 0
    const stepDone = Effect.sync(() => tell(scanPart + (1 - scanPart) * ++step / steps))
    for (const part of fileParts) {
      yield* Effect.andThen(store.apply({ ...empty, files: part, goneGaps: part.map(({ id }) => id) }), stepDone)
    }
    for (const part of gapParts) {
      yield* records.addEvents(part.flatMap((gap) => gapEvents(nodeId, gap)))
      yield* Effect.andThen(store.apply({ ...empty, gaps: part }), stepDone)
    }
    yield* store.apply({ ...empty, goneFiles: gone.goneFiles, keptFrom: [...gone.keptFrom, ...keptFrom], position })
    const after = yield* store.filesOf(nodeId)
    const stored = new Set(files.map(({ id }) => id))
    const report: IndexPart = {
      files: scanned,
      ...changesOf(before, after),
      removed: gone.goneFiles.length,
      torn,
      gaps: gaps.length,
      unknown: scanned - after.filter(({ id }) => stored.has(id)).length,
      leftAloneCount: strange.length,
      leftAlone: strange.slice(0, mostListed),
    }
    const { leftAlone: _listed, ...told } = report
    yield* Effect.logInfo("The index of footage was made equal to the disks", told)
    return report
  })
})
