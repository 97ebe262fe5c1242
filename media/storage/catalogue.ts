/**
 * What footage this node has, in memory: one entry a file, by recording and in order of time.
 *
 * Invariants
 * 1. An entry is here before its file exists and until after it was unlinked: whoever walks the disk knows what is in use.
 * 2. About 200 bytes an entry: 30 cameras and 30 days are 130,000 files and 26 MB. Words that repeat are shared.
 */
import type { EpochMs, Interval, RecordingId } from "#schema/common.ts"
import type { SegmentFile } from "#schema/record.ts"
import type { FileDescription } from "../fmp4/identity-box.ts"
import type { FileIdentity } from "../storage.ts"
import type { Seal } from "./index-file.ts"

/** One file. The writer updates the numbers while it grows. */
export interface CatalogueFile {
  readonly id: string
  readonly identity: FileIdentity
  readonly sequence: number
  readonly folder: string
  startMs: EpochMs
  endMs: EpochMs
  bytes: number
  fragments: number
  frames: number
  sealed: boolean
  /** A writer of this process has it open. */
  growing: boolean
}

export const toSegmentFile = (entry: CatalogueFile): SegmentFile => ({
  id: entry.id,
  ...entry.identity,
  sequence: entry.sequence,
  folder: entry.folder,
  startMs: entry.startMs,
  endMs: entry.endMs,
  bytes: entry.bytes,
  fragments: entry.fragments,
  frames: entry.frames,
  sealed: entry.sealed,
})

/** An entry from what a file says of itself. */
export const fromDescription = (
  description: FileDescription,
  folder: string,
  sums: Seal,
  state: { readonly sealed: boolean; readonly growing: boolean },
): CatalogueFile => ({
  id: description.id,
  identity: {
    recordingId: description.recordingId,
    recordingToken: description.recordingToken,
    streamId: description.streamId,
    channelId: description.channelId,
    nodeId: description.nodeId,
    epoch: description.epoch,
  },
  sequence: description.sequence,
  folder,
  startMs: sums.startMs,
  endMs: sums.endMs,
  bytes: sums.bytes,
  fragments: sums.fragments,
  frames: sums.frames,
  ...state,
})

export class Catalogue {
  private readonly byId = new Map<string, CatalogueFile>()
  private readonly byRecording = new Map<RecordingId, Array<CatalogueFile>>()
  private readonly identities = new Map<string, FileIdentity>()

  get(id: string): CatalogueFile | undefined {
    return this.byId.get(id)
  }

  all(): IterableIterator<CatalogueFile> {
    return this.byId.values()
  }

  recordings(): IterableIterator<RecordingId> {
    return this.byRecording.keys()
  }

  /** By start time. */
  ofRecording(recordingId: RecordingId): ReadonlyArray<CatalogueFile> {
    return this.byRecording.get(recordingId) ?? []
  }

  /** Adds an entry, or puts it in the place of the one with its id. Returns what is kept. */
  put(entry: CatalogueFile): CatalogueFile {
    this.remove(entry.id)
    const kept = { ...entry, identity: this.shared(entry.identity) }
    this.byId.set(kept.id, kept)
    const { recordingId } = kept.identity
    const list = this.byRecording.get(recordingId)
    if (list === undefined) {
      this.byRecording.set(recordingId, [kept])
      return kept
    }
    let at = list.length
    while (at > 0 && (list[at - 1]?.startMs ?? 0) > kept.startMs) at--
    list.splice(at, 0, kept)
    return kept
  }

  remove(id: string): void {
    const entry = this.byId.get(id)
    if (entry === undefined) return
    this.byId.delete(id)
    const { recordingId } = entry.identity
    const rest = (this.byRecording.get(recordingId) ?? []).filter((other) => other.id !== id)
    if (rest.length === 0) this.byRecording.delete(recordingId)
    else this.byRecording.set(recordingId, rest)
  }

  /** Files with footage that overlap the interval, by start time. */
  within(recordingId: RecordingId, { end, start }: Interval): ReadonlyArray<SegmentFile> {
    return this.ofRecording(recordingId)
      .filter((entry) => entry.fragments > 0 && entry.startMs < end && entry.endMs > start)
      .map(toSegmentFile)
  }

  private shared(identity: FileIdentity): FileIdentity {
    const key =
      `${identity.recordingId} ${identity.recordingToken} ${identity.streamId} ${identity.channelId} ${identity.nodeId} ${identity.epoch}`
    const known = this.identities.get(key)
    if (known !== undefined) return known
    this.identities.set(key, identity)
    return identity
  }
}
