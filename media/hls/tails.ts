/**
 * When the last group of pictures of a growing file is let out. While a camera sends, the group is held back until the next one
 * begins; when nothing comes any more, it is all there is, and a playlist without it would hide the last seconds before an outage.
 *
 * Invariants
 * 1. A segment that was let out stays as it is: where it ended, a segment begins for as long as the file is remembered. A process
 *    that starts anew finds the file sealed, and its end where it was.
 * 2. Silence is told by this node's clock and by what arrives, not by the camera's clock alone.
 */
import type { SegmentFile } from "#schema/record.ts"
import { makeLru } from "../storage/lru.ts"

/**
 * A session is given up after 5 s without a packet; a fragment lasts up to a second, and it takes some time to write. A disk that
 * is slower than that costs nothing but a segment that begins within a group.
 */
const quietMs = 8_000
/** Growing files: one a camera, and a few that were sealed since. About 100 bytes each. */
const rememberedFiles = 4_096

const none: ReadonlySet<number> = new Set()

export interface Tails {
  /** Nothing was added to an unsealed file for {@link quietMs}. */
  readonly isQuiet: (file: Pick<SegmentFile, "id" | "sealed" | "fragments" | "endMs">, nowMs: number) => boolean
  /** Rows at which segments that were let out early ended. */
  readonly cutsOf: (fileId: string) => ReadonlySet<number>
  readonly letOut: (fileId: string, row: number) => void
}

export const makeTails = (): Tails => {
  const seen = makeLru<{ readonly fragments: number; readonly sinceMs: number }>(rememberedFiles, () => 1)
  const cuts = makeLru<ReadonlySet<number>>(rememberedFiles, () => 1)
  const cutsOf = (fileId: string) => cuts.get(fileId) ?? none
  return {
    isQuiet: ({ endMs, fragments, id, sealed }, nowMs) => {
      if (sealed) return false
      const before = seen.get(id)
      if (before?.fragments === fragments) return nowMs - before.sinceMs >= quietMs
      const sinceMs = before === undefined ? Math.min(endMs, nowMs) : nowMs
      seen.set(id, { fragments, sinceMs })
      return nowMs - sinceMs >= quietMs
    },
    cutsOf,
    letOut: (fileId, row) => {
      const known = cutsOf(fileId)
      if (!known.has(row)) cuts.set(fileId, new Set([...known, row]))
    },
  }
}
