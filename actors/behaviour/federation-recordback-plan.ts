/**
 * What of this node's footage is to come home for a job: its files cut into segments, and what a cut of the home node leaves of one.
 *
 * Invariants
 * 1. Only files that this node recorded, of recordings of the job's slot, with an epoch of the job's range; each once.
 * 2. A file that still grows is waited for.
 */
import { RecordLedger } from "#actors/protocol/record.ts"
import { type JobRow, RecordBackStore, type SegmentRow } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import { cutTo, type Piece, type Run, segmentsOf } from "#cluster/recordback-manifest.ts"
import { type IndexEntry, Storage } from "#media/storage.ts"
import { allTime, type EpochMs, type Interval } from "#schema/common.ts"
import { fragmentsOfFile } from "#schema/federation-recordback.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"

type File = Pick<SegmentFile, "id" | "folder" | "recordingId" | "channelId" | "epoch" | "sequence">

const rowOf = (file: File, index: ReadonlyArray<IndexEntry>, { from, to }: Run, exact: boolean): SegmentRow => {
  const pieces = index.slice(from, to)
  const first = pieces[0] as IndexEntry
  return {
    recordingId: file.recordingId,
    channelId: file.channelId,
    epoch: file.epoch,
    sequence: file.sequence * fragmentsOfFile + from,
    fileId: file.id,
    folder: file.folder,
    firstRow: from,
    endRow: to,
    at: first.offset,
    bytes: pieces.reduce((sum, { bytes }) => sum + bytes, 0),
    startMs: first.startMs,
    endMs: pieces.reduce((latest, { endMs }) => Math.max(latest, endMs), first.endMs),
    exact,
    sha256: null,
    tries: 0,
  }
}

const piecesOf = (index: ReadonlyArray<IndexEntry>): ReadonlyArray<Piece> => index

/** `keptMs`: so long a file stays after the last of it came home, for players that were told of it before. */
export const makePlanner = Effect.fnUntraced(function*(keptMs: number) {
  const [{ nodeId }, ledger, storage, store] = yield* Effect.all([Ownership, RecordLedger, Storage, RecordBackStore])
  const scope = yield* Effect.scope
  /** Since when a file is known to be home, by {@link placeOf}. */
  const homeSince = new Map<string, EpochMs>()
  const placeOf = (file: { readonly id: string; readonly folder: string }) => `${file.folder}/${file.id}`
  /** Jobs that are looked at again. */
  const again = new Set<string>()

  const filesOf = Effect.fnUntraced(function*({ firstEpoch, lastEpoch, slot }: JobRow) {
    const recordings = yield* ledger.recordingsOf(slot)
    return [...recordings].flatMap((id) =>
      storage.files(id, allTime).filter((file) =>
        file.nodeId === nodeId && file.epoch >= firstEpoch && file.epoch <= lastEpoch
      )
    )
  })

  /** Files of which everything is home leave this node, {@link keptMs} later; what is left by a restart is looked at then. */
  const release = (jobId: string): Effect.Effect<void, Effect.Error<ReturnType<typeof store.finished>>> =>
    Effect.gen(function*() {
      const nowMs = yield* Clock.currentTimeMillis
      let waits = false
      for (const { fileId, folder, recordingId } of yield* store.finished(jobId)) {
        const file = storage.files(recordingId, allTime).find((one) => one.id === fileId && one.folder === folder)
        if (file === undefined) {
          homeSince.delete(placeOf({ id: fileId, folder }))
          continue
        }
        const since = homeSince.get(placeOf(file)) ?? nowMs
        if (nowMs - since < keptMs) {
          homeSince.set(placeOf(file), since)
          waits = true
          continue
        }
        homeSince.delete(placeOf(file))
        yield* storage.remove(file).pipe(
          Effect.andThen(ledger.released([file])),
          Effect.catchTag("StorageError", (error) =>
            Effect.logWarning("A file that came home cannot be deleted here now", error)),
        )
      }
      if (!waits || again.has(jobId)) return
      again.add(jobId)
      yield* Effect.sleep(keptMs).pipe(
        Effect.andThen(Effect.suspend(() => {
          again.delete(jobId)
          return release(jobId)
        })),
        Effect.catchCause((cause) => Effect.logDebug("Footage that came home is deleted at a later look", cause)),
        Effect.forkIn(scope),
      )
    })

  const isThere = ({ fileId, folder, recordingId }: Effect.Success<ReturnType<typeof store.lost>>[number]) =>
    storage.files(recordingId, allTime).some((one) => one.id === fileId && one.folder === folder)

  return {
    /** Whether all that is lost has left this node: by its age, for want of room, with its disk. Not known while a disk is away. */
    gone: Effect.fnUntraced(function*(jobId: string) {
      const lost = yield* store.lost(jobId)
      const away = (yield* storage.usage).filter(({ state }) => state === "missing" || state === "error")
      return !lost.some((file) => away.some(({ name }) => name === file.folder) || isThere(file))
    }),
    /** Plans what is not planned yet; how many files still grow. A file that cannot be read is left for the next time. */
    plan: Effect.fnUntraced(function*(job: JobRow) {
      const known = yield* store.planned(job.id)
      const files = yield* filesOf(job)
      for (const file of files) {
        if (!file.sealed || known.has(file.id)) continue
        const index = yield* Effect.catchTag(
          storage.index(file),
          "StorageError",
          (error) => Effect.as(Effect.logWarning("A file that is to come home cannot be read", error), []),
        )
        const runs = segmentsOf(piecesOf(index), { from: 0, to: index.length })
        yield* store.plan(job.id, runs.map((run) => rowOf(file, index, run, false)))
      }
      return files.filter(({ sealed }) => !sealed).length
    }),
    /** Of a segment what overlaps `keep`. */
    cut: Effect.fnUntraced(function*(jobId: string, row: SegmentRow, keep: ReadonlyArray<Interval>) {
      const index = yield* storage.index({ id: row.fileId, folder: row.folder })
      const file = {
        ...row,
        id: row.fileId,
        sequence: Math.floor(row.sequence / fragmentsOfFile),
      }
      const runs = cutTo(piecesOf(index), { from: row.firstRow, to: row.endRow }, keep)
      yield* store.replace(jobId, row, runs.map((run) => rowOf(file, index, run, true)))
    }),
    release,
  }
})
