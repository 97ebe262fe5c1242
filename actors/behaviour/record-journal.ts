/**
 * From entries of the local journal to one batch for the database. Pure.
 *
 * Invariants
 * 1. A batch holds the final state of each file and gap it touches: applying it twice, or after a later one was refused, adds
 *    nothing.
 * 2. Footage that retention took moves the beginning of what is expected; footage that is gone otherwise leaves a gap
 *    (`segment_missing`) with the id of its file.
 */
import type { LedgerBatch } from "#actors/store/record-ledger.ts"
import type { NewEvent } from "#actors/store/record.ts"
import type { JournalEntry } from "#media/recorder.ts"
import type { EpochMs, NodeId, RecordingId } from "#schema/common.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"

export interface JournalBatch {
  readonly ledger: LedgerBatch
  readonly events: ReadonlyArray<NewEvent>
}

/** The gap that a vanished file leaves. */
export const missingGap = (file: SegmentFile): LedgerGap & { readonly epoch: number } => ({
  id: file.id,
  recordingId: file.recordingId,
  startMs: file.startMs,
  endMs: file.endMs,
  cause: "segment_missing",
  detail: "stored footage is gone or damaged",
  epoch: file.epoch,
})

/** What is told of a gap that only the ledger still has. */
export const gapEvents = (nodeId: NodeId, gap: LedgerGap & { readonly epoch: number }): ReadonlyArray<NewEvent> => [
  gapEvent(nodeId, gap, gap.epoch, "opened"),
  ...gap.endMs === null ? [] : [gapEvent(nodeId, gap, gap.epoch, "closed")],
]

const gapEvent = (nodeId: NodeId, gap: LedgerGap, epoch: number, phase: "opened" | "closed"): NewEvent => ({
  id: `${gap.id}.${phase}`,
  recordingId: gap.recordingId,
  nodeId,
  type: `recording.gap.${phase}`,
  timeMs: phase === "closed" ? gap.endMs ?? gap.startMs : gap.startMs,
  data: {
    cause: gap.cause,
    detail: gap.detail,
    start: new Date(gap.startMs).toISOString(),
    end: gap.endMs === null ? null : new Date(gap.endMs).toISOString(),
    epoch,
  },
})

export const batchOf = (entries: ReadonlyArray<JournalEntry>, nodeId: NodeId, nowMs: EpochMs): JournalBatch => {
  const files = new Map<string, SegmentFile>()
  const gone = new Set<string>()
  const gaps = new Map<string, LedgerGap & { readonly epoch: number }>()
  const kept = new Map<RecordingId, EpochMs>()
  const events: Array<NewEvent> = []
  let position = 0
  for (const entry of entries) {
    position = Math.max(position, entry.position)
    switch (entry._tag) {
      case "FileOpened":
      case "FileGrown":
      case "FileSealed":
        // The row names the node that has the file; who recorded it stands in its header.
        files.set(entry.file.id, { ...entry.file, nodeId })
        gone.delete(entry.file.id)
        break
      case "FileDeleted": {
        const { file, reason } = entry
        files.delete(file.id)
        gone.add(file.id)
        if (reason === "retention" || reason === "space") {
          kept.set(file.recordingId, Math.max(kept.get(file.recordingId) ?? 0, file.endMs))
        } else if (reason === "missing" && file.endMs > file.startMs) gaps.set(file.id, missingGap(file))
        break
      }
      case "GapOpened":
      case "GapClosed":
        gaps.set(entry.gap.id, { ...entry.gap, epoch: entry.epoch })
        events.push(gapEvent(nodeId, entry.gap, entry.epoch, entry._tag === "GapOpened" ? "opened" : "closed"))
        break
    }
  }
  return {
    ledger: {
      nodeId,
      files: [...files.values()],
      goneFiles: [...gone],
      gaps: [...gaps.values()],
      keptFrom: Array.from(kept, ([recordingId, untilMs]) => ({ recordingId, untilMs })),
      position,
      nowMs,
    },
    events,
  }
}

const told = (file: SegmentFile) =>
  `${file.folder} ${file.sequence} ${file.epoch} ${file.startMs} ${file.endMs} ${file.bytes} ${file.fragments} ${file.frames} ${file.sealed}`

/** Rows that came, and rows that told something else than the disk; one that was only behind a growing file is no correction. */
export const changesOf = (before: ReadonlyArray<SegmentFile>, after: ReadonlyArray<SegmentFile>) => {
  const known = new Map(before.map((file) => [file.id, file]))
  let added = 0
  let corrected = 0
  for (const file of after) {
    const old = known.get(file.id)
    const grew = old !== undefined && !file.sealed && !old.sealed && file.endMs >= old.endMs
    if (old === undefined) added++
    else if (!grew && told(old) !== told(file)) corrected++
  }
  return { added, corrected }
}

/** What must change in the index so that it equals the disk. A file that lost its end leaves a gap there. */
export const difference = (options: {
  /** Files that the index has of this node. */
  readonly indexed: ReadonlyArray<SegmentFile>
  /** Files that the disk has. */
  readonly stored: ReadonlyArray<SegmentFile>
  /** Folders that could be read: of the others nothing is known, and nothing is forgotten. */
  readonly folders: ReadonlySet<string>
}): Pick<LedgerBatch, "goneFiles" | "gaps" | "keptFrom"> => {
  const present = new Map(options.stored.map((file) => [file.id, file]))
  const oldest = new Map<RecordingId, EpochMs>()
  for (const file of options.stored) {
    oldest.set(file.recordingId, Math.min(oldest.get(file.recordingId) ?? file.startMs, file.startMs))
  }
  const vanished = options.indexed.filter((file) => options.folders.has(file.folder) && !present.has(file.id))
  const kept = new Map<RecordingId, EpochMs>()
  const gaps: Array<LedgerGap & { readonly epoch: number }> = []
  for (const file of vanished) {
    // Retention takes from the old end: what vanished before all that is left was its doing.
    if (file.endMs <= (oldest.get(file.recordingId) ?? Number.NEGATIVE_INFINITY)) {
      kept.set(file.recordingId, Math.max(kept.get(file.recordingId) ?? 0, file.endMs))
    } else gaps.push(missingGap(file))
  }
  for (const file of options.indexed) {
    // Of a sealed file the index tells the true end: what the disk lacks of it was cut off.
    const stored = present.get(file.id)
    if (file.sealed && stored !== undefined && stored.endMs < file.endMs) {
      gaps.push({ ...missingGap(file), startMs: stored.endMs })
    }
  }
  return {
    goneFiles: vanished.map((file) => file.id),
    gaps,
    keptFrom: Array.from(kept, ([recordingId, untilMs]) => ({ recordingId, untilMs })),
  }
}
