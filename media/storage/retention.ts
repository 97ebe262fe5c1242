/**
 * Which files have to go. Pure: the layer deletes.
 *
 * Invariants
 * 1. A growing file never goes.
 * 2. Within a recording (and, for the floor, within a folder) the oldest goes first.
 * 3. Fair share is counted in time: each recording may keep the same part of the days it was promised. For a folder below its
 *    floor, the recording goes first that has most recorded time there for each day promised. Footage that nobody knows counts
 *    as promised {@link unknownDays} days: that a database was lost is no reason to delete it before all other.
 */
import type { RecordingId } from "#schema/common.ts"
import type { RetentionPolicy } from "../storage.ts"
import type { CatalogueFile } from "./catalogue.ts"

const dayMs = 86_400_000
/** As a recording gets where nobody says otherwise. */
const unknownDays = 30

/** Files of one recording, by start time, that age or size sends away. */
export const expired = (
  files: ReadonlyArray<CatalogueFile>,
  policy: RetentionPolicy,
  now: number,
): ReadonlyArray<CatalogueFile> => {
  const limit = now - policy.retentionDays * dayMs
  let bytes = files.reduce((sum, file) => sum + file.bytes, 0)
  const gone: Array<CatalogueFile> = []
  for (const file of files) {
    const tooOld = file.endMs <= limit
    const tooMuch = policy.maxBytes > 0 && bytes > policy.maxBytes
    if (file.growing || (!tooOld && !tooMuch)) continue
    gone.push(file)
    bytes -= file.bytes
  }
  return gone
}

interface Share {
  readonly deletable: Array<CatalogueFile>
  readonly days: number
  recordedMs: number
}

/** Files of one folder in the order in which they make room: take from the front until there is enough. */
export function* makeRoom(
  files: Iterable<CatalogueFile>,
  policies: ReadonlyMap<RecordingId, RetentionPolicy>,
): Generator<CatalogueFile> {
  const shares = new Map<RecordingId, Share>()
  for (const file of files) {
    const { recordingId } = file.identity
    const share = shares.get(recordingId) ??
      { deletable: [], days: policies.get(recordingId)?.retentionDays ?? unknownDays, recordedMs: 0 }
    shares.set(recordingId, share)
    share.recordedMs += file.endMs - file.startMs
    if (!file.growing) share.deletable.push(file)
  }
  for (const share of shares.values()) share.deletable.sort((a, b) => b.startMs - a.startMs)
  while (true) {
    const [furthest] = [...shares.values()]
      .filter((share) => share.deletable.length > 0)
      .sort((a, b) => weight(b) - weight(a) || oldest(a) - oldest(b))
    const file = furthest?.deletable.pop()
    if (furthest === undefined || file === undefined) return
    furthest.recordedMs -= file.endMs - file.startMs
    yield file
  }
}

/** Recorded time for each day promised. */
const weight = (share: Share): number => share.recordedMs / share.days

const oldest = (share: Share): number => share.deletable.at(-1)?.startMs ?? 0
