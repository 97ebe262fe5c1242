/**
 * Stand-ins for the media doors, for tests of the slices above them: a recorder supervisor and a storage that do nothing but
 * remember, and a journal that a test writes.
 */
import {
  type Assignment,
  type JournalEntry,
  RecorderSupervisor,
  StaleAssignment,
  type StreamStatus,
} from "#media/recorder.ts"
import { type FileOrigin, type FolderUsage, Storage } from "#media/storage.ts"
import type { ChannelId, NodeId, RecordingId, RecordingToken, StreamId } from "#schema/common.ts"
import type { LedgerGap, SegmentFile } from "#schema/record.ts"
import { Effect, Latch, Layer, PubSub, Stream } from "effect"

/** An entry without its position: `write` gives it one. */
export type Draft = JournalEntry extends infer E ?
  E extends { readonly position: number } ? Omit<E, "position"> : never :
  never

export interface FakeMedia {
  readonly assignments: Map<StreamId, Assignment>
  /** Calls in their order: `assign <stream>`, `withdraw <stream>`. */
  readonly calls: Array<string>
  readonly files: Array<SegmentFile>
  /** What the headers of files tell, by file id. */
  readonly origins: Map<string, FileOrigin>
  readonly gaps: Array<LedgerGap>
  readonly folders: Array<FolderUsage>
  readonly journal: Array<JournalEntry>
  readonly acknowledged: () => number
  readonly write: (...entries: ReadonlyArray<Draft>) => void
  /** Drops the whole journal, as an overflow does. */
  readonly overflow: () => void
  /** Runs once, when the journal is read for the second time from now. */
  readonly onSecondRead: (run: () => void) => void
  readonly report: (status: Partial<StreamStatus> & { readonly streamId: StreamId }) => void
  readonly layer: Layer.Layer<RecorderSupervisor | Storage>
}

const folder: FolderUsage = {
  name: "main",
  path: "/footage",
  state: "ok",
  detail: "",
  totalBytes: 1e12,
  freeBytes: 5e11,
  floorBytes: 1e9,
  usedBytes: 1e9,
}

const silent: Omit<StreamStatus, "streamId"> = {
  health: "registered",
  reason: "",
  parameters: null,
  recordingState: "waiting",
  frames: 0,
  lostPackets: 0,
  bytes: 0,
  reconnects: 0,
  lastUnitMs: null,
  clockOffsetMs: null,
}

const overlaps = (one: { readonly start: number; readonly end: number }, startMs: number, endMs: number | null) =>
  startMs < one.end && (endMs ?? Number.POSITIVE_INFINITY) > one.start

export const fakeMedia = (): FakeMedia => {
  const assignments = new Map<StreamId, Assignment>()
  const inForce = new Map<StreamId, number>()
  const statuses = new Map<StreamId, StreamStatus>()
  const calls: Array<string> = []
  const files: Array<SegmentFile> = []
  const origins = new Map<string, FileOrigin>()
  const gaps: Array<LedgerGap> = []
  const folders = [folder]
  const journal: Array<JournalEntry> = []
  const changes = Effect.runSync(PubSub.sliding<StreamStatus>(256))
  const grew = Latch.makeUnsafe(false)
  let newest = 1_000
  let acknowledged = 0
  let lostAt: number | null = null
  let reads = 0
  let atRead = () => {}

  const fence = (streamId: StreamId, epoch: number) =>
    Effect.suspend(() => {
      const current = inForce.get(streamId) ?? 0
      if (epoch < current) return Effect.fail(new StaleAssignment({ streamId, epoch, inForce: current }))
      inForce.set(streamId, epoch)
      return Effect.void
    })
  const acknowledge = (position: number) => {
    acknowledged = Math.max(acknowledged, Math.min(position, newest))
    while (journal[0] !== undefined && journal[0].position <= acknowledged) journal.shift()
    if (lostAt !== null && acknowledged >= lostAt) lostAt = null
  }
  const supervisor = RecorderSupervisor.of({
    assign: (assignment) =>
      Effect.map(fence(assignment.streamId, assignment.epoch), () => {
        calls.push(`assign ${assignment.streamId}`)
        assignments.set(assignment.streamId, assignment)
      }),
    withdraw: (streamId, epoch) =>
      Effect.map(fence(streamId, epoch), () => {
        calls.push(`withdraw ${streamId}`)
        assignments.delete(streamId)
        statuses.delete(streamId)
      }),
    assignments: Effect.sync(() => [...assignments.values()]),
    status: (streamId) => statuses.get(streamId) ?? null,
    statuses: () => [...statuses.values()],
    changes: Stream.fromPubSub(changes),
    journal: (position, limit) =>
      Effect.sync(() => {
        if (reads-- === 1) atRead()
        return journal.filter((entry) => entry.position > position).slice(0, limit)
      }),
    awaitJournal: (position) =>
      Effect.gen(function*() {
        while (!journal.some((entry) => entry.position > position)) yield* grew.await
      }),
    acknowledge: (position) => Effect.sync(() => acknowledge(position)),
    journalAcknowledged: Effect.sync(() => acknowledged),
    journalLostAt: Effect.sync(() => lostAt),
    gaps: (recordingId, interval) =>
      gaps.filter((gap) => gap.recordingId === recordingId && overlaps(interval, gap.startMs, gap.endMs)),
    amend: (recordingId) => Effect.sync(() => void calls.push(`amend ${recordingId}`)),
    secrets: { name: "assignments", keys: Effect.succeed(new Set()), reseal: Effect.void },
    forget: (recordingId) => Effect.sync(() => void calls.push(`forget ${recordingId}`)),
  })
  const absent = () => Effect.die(new Error("no footage is written here"))
  const storage = Storage.of({
    create: absent,
    index: absent,
    fragments: absent,
    outlines: absent,
    shown: absent,
    init: absent,
    path: ({ id }) => `/footage/${id}`,
    parameters: absent,
    enforceRetention: () => Effect.succeed([]),
    files: (recordingId, interval) =>
      files.filter((file) => file.recordingId === recordingId && overlaps(interval, file.startMs, file.endMs))
        .sort((a, b) => a.startMs - b.startMs),
    recordings: () => [...new Set(files.map((file) => file.recordingId))],
    origin: ({ id }) => Effect.sync(() => origins.get(id) ?? null),
    scan: () => Effect.sync(() => files.map((file) => ({ file, entries: file.fragments, tornBytes: 0 }))),
    remove: ({ id }) =>
      Effect.sync(() => {
        files.splice(files.findIndex((file) => file.id === id), 1)
      }),
    departed: () => null,
    bytes: () => Stream.empty,
    quarantine: {
      open: () => Effect.die("unused"),
      adopt: () => Effect.die("unused"),
      ids: Effect.succeed([]),
      discard: () => Effect.void,
    },
    usage: Effect.sync(() => folders),
  })
  return {
    assignments,
    calls,
    files,
    origins,
    gaps,
    folders,
    journal,
    acknowledged: () => acknowledged,
    write: (...entries) => {
      for (const entry of entries) journal.push({ ...entry, position: ++newest } as JournalEntry)
      grew.openUnsafe()
      grew.closeUnsafe()
    },
    overflow: () => {
      journal.length = 0
      lostAt = newest
    },
    onSecondRead: (run) => {
      reads = 2
      atRead = run
    },
    report: (status) => {
      const next = { ...silent, ...statuses.get(status.streamId), ...status }
      statuses.set(status.streamId, next)
      PubSub.publishUnsafe(changes, next)
    },
    layer: Layer.mergeAll(Layer.succeed(RecorderSupervisor, supervisor), Layer.succeed(Storage, storage)),
  }
}

/** A file of footage; `id` names it. */
export const footageFile = (
  of: {
    readonly recordingId: RecordingId
    readonly recordingToken: RecordingToken
    readonly streamId: StreamId
    readonly channelId: ChannelId
    readonly nodeId: NodeId
    readonly epoch?: number
  },
  id: string,
  startMs: number,
  endMs: number,
  sealed = true,
): SegmentFile => ({
  epoch: 1,
  ...of,
  id,
  sequence: 0,
  folder: "main",
  startMs,
  endMs,
  bytes: (endMs - startMs) * 500,
  fragments: Math.ceil((endMs - startMs) / 1000),
  frames: Math.ceil((endMs - startMs) / 40),
  sealed,
})
