/**
 * Sessions of record-back on the home node: which segments one may bring, under which data key.
 *
 * Invariants
 * 1. At most {@link mostSessions}; the one that was used longest ago goes first. One that is not used for {@link idleMs} is gone.
 * 2. A segment is written by one request at a time.
 */
import type { EpochMs, NodeId, RecordingId } from "#schema/common.ts"
import type { ManifestEntry, SegmentName } from "#schema/federation-recordback.ts"
import type { Recording } from "#schema/record-config.ts"
import type { Redacted } from "effect"

const mostSessions = 32
const idleMs = 15 * 60_000

export interface HomeSession {
  readonly id: string
  readonly from: NodeId
  readonly rerouteId: string
  readonly dataKey: Redacted.Redacted<Uint8Array>
  readonly recordings: ReadonlyMap<RecordingId, Recording>
  readonly entries: ReadonlyMap<string, ManifestEntry>
}

export interface Sessions {
  readonly add: (session: HomeSession, nowMs: EpochMs) => void
  /** Null: gone, or of another node. */
  readonly use: (id: string, from: NodeId, nowMs: EpochMs) => HomeSession | null
  /** False: somebody else is at it. */
  readonly begin: (from: NodeId, name: SegmentName) => boolean
  readonly end: (from: NodeId, name: SegmentName) => void
  /** Those that were not used for long. */
  readonly forget: (nowMs: EpochMs) => void
}

export const keyOf = ({ epoch, recordingId, sequence }: SegmentName): string => `${recordingId}/${epoch}/${sequence}`

export const makeSessions = (): Sessions => {
  /** In the order of their last use. */
  const sessions = new Map<string, { readonly session: HomeSession; readonly usedMs: EpochMs }>()
  const busy = new Set<string>()
  const put = (session: HomeSession, usedMs: EpochMs) => {
    sessions.delete(session.id)
    sessions.set(session.id, { session, usedMs })
  }
  const forget = (nowMs: EpochMs) => {
    for (const [id, { usedMs }] of sessions) {
      if (sessions.size > mostSessions || usedMs < nowMs - idleMs) sessions.delete(id)
    }
  }
  return {
    forget,
    add: (session, nowMs) => {
      put(session, nowMs)
      forget(nowMs)
    },
    use: (id, from, nowMs) => {
      forget(nowMs)
      const found = sessions.get(id)?.session
      if (found === undefined || found.from !== from) return null
      put(found, nowMs)
      return found
    },
    begin: (from, name) => {
      const key = `${from}/${keyOf(name)}`
      if (busy.has(key)) return false
      busy.add(key)
      return true
    },
    end: (from, name) => void busy.delete(`${from}/${keyOf(name)}`),
  }
}
