/**
 * What this node knows of cameras and recordings that the database does not: from its assignments, and from the headers of its
 * footage. Pure.
 *
 * Invariants
 * 1. An assignment knows more than footage: where there is one, the camera goes on as it was.
 * 2. Nothing that was found is deleted for its age: a recording of which only footage tells is kept as many days as its oldest
 *    footage is old, and as long again as a new recording would be.
 * 3. Ids are those that the footage carries, so that its rows, its ledgers and its replay addresses stay the same.
 */
import type { FoundCamera, FoundStream } from "#actors/protocol/camera-recovery.ts"
import type { Assignment } from "#media/recorder.ts"
import type { FileOrigin } from "#media/storage.ts"
import { CameraId, type ChannelId, type EpochMs, type RecordingId } from "#schema/common.ts"
import type { NewRecording } from "#schema/record-config.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"

/** For a camera whose footage does not tell its name. */
export const namelessCamera = "Recovered camera"
const dayMs = 86_400_000
const mostDays = 3_650

/** Footage of one recording: its files by start, and what the newest of them tells of its camera. */
export interface FoundFootage {
  readonly files: readonly [SegmentFile, ...ReadonlyArray<SegmentFile>]
  readonly origin: FileOrigin | null
  readonly gaps: ReadonlyArray<LedgerGap>
}

export interface FoundRecording {
  readonly recording: NewRecording
  readonly working: boolean
  /** End of what retention took; null: it took nothing. */
  readonly keptFromMs: EpochMs | null
}

export interface Found {
  readonly cameras: ReadonlyArray<FoundCamera>
  readonly recordings: ReadonlyArray<FoundRecording>
}

/**
 * When retention has left footage to begin: the oldest file is not the first of its recording, and no gap explains what is
 * missing before it.
 */
export const keptFromOf = ({ files, gaps }: Pick<FoundFootage, "files" | "gaps">): EpochMs | null => {
  const oldest = files[0]
  if (oldest.sequence === 0 && oldest.epoch <= 1) return null
  const explained = gaps.some(({ endMs, startMs }) => startMs < oldest.startMs && (endMs ?? 0) >= oldest.startMs)
  return explained ? null : oldest.startMs
}

interface Piece {
  readonly cameraId: CameraId
  readonly cameraName: string
  readonly channelId: ChannelId
  readonly channelName: string
  readonly stream: FoundStream
}

const pieceOfAssignment = (assignment: Assignment): Piece => ({
  cameraId: assignment.cameraId,
  cameraName: assignment.cameraName,
  channelId: assignment.channelId,
  channelName: assignment.channelName,
  stream: {
    id: assignment.streamId,
    role: assignment.role,
    source: {
      url: assignment.url,
      transport: assignment.transport,
      username: assignment.username,
      password: assignment.password,
      enabled: assignment.enabled,
    },
  },
})

/** A file of an earlier version does not tell its camera: the id of its channel stands for it, the same each time. */
export const cameraOf = (file: SegmentFile, origin: FileOrigin | null): CameraId =>
  origin?.cameraId ?? CameraId.make(file.channelId)

const pieceOfFile = (file: SegmentFile, origin: FileOrigin | null): Piece => ({
  cameraId: cameraOf(file, origin),
  cameraName: origin?.cameraName ?? "",
  channelId: file.channelId,
  channelName: origin?.channelName ?? "",
  stream: { id: file.streamId, role: origin?.role ?? "main", source: null },
})

const byId = (a: { readonly id: string }, b: { readonly id: string }) => (a.id < b.id ? -1 : 1)

/** Cameras by age; of two streams with one role in a channel, the piece that comes first counts. */
export const camerasOf = (pieces: ReadonlyArray<Piece>): ReadonlyArray<FoundCamera> => {
  const cameras = new Map<CameraId, Map<ChannelId, Array<Piece>>>()
  for (const piece of pieces) {
    const channels = cameras.get(piece.cameraId) ?? new Map<ChannelId, Array<Piece>>()
    cameras.set(piece.cameraId, channels)
    const streams = channels.get(piece.channelId) ?? []
    channels.set(piece.channelId, streams)
    if (!streams.some(({ stream }) => stream.role === piece.stream.role)) streams.push(piece)
  }
  return Array.from(cameras, ([id, channels]): FoundCamera => {
    const all = [...channels.values()].flat()
    return {
      id,
      name: all.find(({ cameraName }) => cameraName !== "")?.cameraName ?? namelessCamera,
      channels: Array.from(channels, ([channelId, streams]) => ({
        id: channelId,
        name: streams.find(({ channelName }) => channelName !== "")?.channelName ?? "",
        streams: streams.map(({ stream }) => stream).sort(byId),
      })).sort(byId),
    }
  }).sort(byId)
}

const settings = { mode: "continuous", preEventSeconds: 0, postEventSeconds: 0, schedule: null } as const

/** Invariant 2. */
const daysFor = (oldestMs: EpochMs, nowMs: EpochMs, defaultDays: number): number =>
  Math.min(mostDays, defaultDays + Math.max(0, Math.ceil((nowMs - oldestMs) / dayMs)))

export const foundOf = (options: {
  readonly assignments: ReadonlyArray<Assignment>
  /** Of recordings that the database has never heard of. */
  readonly footage: ReadonlyMap<RecordingId, FoundFootage>
  /** Recordings, cameras and streams that the database has never heard of. */
  readonly unheard: ReadonlySet<string>
  readonly nowMs: EpochMs
  readonly defaultDays: number
}): Found => {
  const { assignments, defaultDays, footage, nowMs, unheard } = options
  const pieces: Array<Piece> = []
  const recordings: Array<FoundRecording> = []
  const assigned = new Set<string>()
  for (const assignment of assignments) {
    const { cameraId, channelId, recording, role, streamId } = assignment
    if (recording !== null) assigned.add(recording.recordingId)
    const isNew = recording !== null && unheard.has(recording.recordingId)
    if (isNew || unheard.has(cameraId) || unheard.has(streamId)) pieces.push(pieceOfAssignment(assignment))
    if (!isNew) continue
    const { enabled, maxBytes, recordingId: id, recordingToken, retentionDays } = recording
    const found = footage.get(id)
    recordings.push({
      recording: { id, recordingToken, cameraId, channelId, role, enabled, retentionDays, maxBytes, ...settings },
      working: true,
      keptFromMs: found === undefined ? null : keptFromOf(found),
    })
  }
  for (const [id, found] of footage) {
    if (assigned.has(id)) continue
    const oldest = found.files[0]
    const newest = found.files.at(-1) ?? oldest
    const piece = pieceOfFile(newest, found.origin)
    pieces.push(piece)
    recordings.push({
      recording: {
        id,
        recordingToken: newest.recordingToken,
        cameraId: piece.cameraId,
        channelId: piece.channelId,
        role: piece.stream.role,
        enabled: false,
        retentionDays: daysFor(oldest.startMs, nowMs, defaultDays),
        maxBytes: 0,
        ...settings,
      },
      working: false,
      keptFromMs: keptFromOf(found),
    })
  }
  return { cameras: camerasOf(pieces), recordings: recordings.sort((a, b) => byId(a.recording, b.recording)) }
}
