/**
 * What is there of a recording and what is missing, gathered for `record-coverage.ts`: from the disk and the ledger of this
 * node, and from the database for other nodes.
 *
 * Invariants
 * 1. Of its own footage a node's disk and ledger are the truth, never the database: a lag of the journal is seen by nobody.
 * 2. Spans and gaps of one answer come from one computation.
 */
import type { Footage, FootageHolders } from "#actors/protocol/record.ts"
import { RecordLedgerStore } from "#actors/store/record-ledger.ts"
import type { StoredRecording } from "#actors/store/record-rows.ts"
import { Ownership } from "#cluster/ownership.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { allTime, type Interval, type NodeId, type RecordingId } from "#schema/common.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Clock, Effect } from "effect"
import { beginOf, expectedWithin, footageOf } from "./record-coverage.ts"

/** Not empty, and cut to what an instant can be. */
export const checkedInterval = (interval: Interval): Effect.Effect<Interval, InvalidInput> =>
  interval.end <= interval.start ?
    Effect.fail(InvalidInput.at("/query/end", "must lie after the start")) :
    Effect.succeed({ start: Math.max(interval.start, allTime.start), end: Math.min(interval.end, allTime.end) })

/** What is stored and missing, from this node's disk and ledger, and from the database for other nodes. */
export const makeFootage = Effect.gen(function*() {
  const [ledger, ownership, supervisor, storage] = yield* Effect.all([
    RecordLedgerStore,
    Ownership,
    RecorderSupervisor,
    Storage,
  ])
  const { nodeId } = ownership

  const bounds = Effect.fnUntraced(function*(id: RecordingId) {
    const others = yield* ledger.bounds(id, nodeId)
    const own = storage.files(id, allTime)
    const first = own[0]
    if (first === undefined) return others
    const newestMs = own.reduce((newest, file) => Math.max(newest, file.endMs), 0)
    return {
      oldestMs: Math.min(first.startMs, others?.oldestMs ?? first.startMs),
      newestMs: Math.max(newestMs, others?.newestMs ?? 0),
    }
  })
  /** A fragment was stored in the last seconds; of its own streams this node knows better than the database. */
  const isRecording = ({ recording }: StoredRecording) =>
    Effect.map(supervisor.assignments, (assignments) => {
      const own = assignments.find((assignment) => assignment.recording?.recordingId === recording.id)
      const status = own === undefined ? null : supervisor.status(own.streamId)
      return (status?.recordingState ?? recording.state) === "recording"
    })
  const files = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const told = yield* ledger.footage(id, interval)
    const others = told.files.filter((file) => file.nodeId !== nodeId)
    return [...storage.files(id, interval), ...others].sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1))
  })
  /** The same with the node that has each: of what lies elsewhere the rows name no other. */
  const held = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const own = new Set(storage.files(id, interval).map((file) => file.id))
    return (yield* files(id, interval)).map((file) => ({ ...file, holder: own.has(file.id) ? nodeId : file.nodeId }))
  })
  const gaps = Effect.fnUntraced(function*(id: RecordingId, interval: Interval) {
    const told = yield* ledger.footage(id, interval)
    const own = supervisor.gaps(id, interval).map((gap) => ({ ...gap, nodeId }))
    const known = new Set(own.map((gap) => gap.id))
    // Of its own gaps the database may not have heard yet that one has ended.
    const rest = told.gaps.filter((gap) => !known.has(gap.id) && (gap.nodeId !== nodeId || gap.endMs !== null))
    return [...own, ...rest]
  })
  const footage = Effect.fnUntraced(function*(of: StoredRecording, interval: Interval) {
    const { recording } = of
    const asked = yield* checkedInterval(interval)
    const [seen, running, nowMs] = yield* Effect.all([bounds(recording.id), isRecording(of), Clock.currentTimeMillis])
    const facts = {
      createdMs: recording.createdAt,
      keptFromMs: of.keptFromMs,
      oldestMs: seen?.oldestMs ?? null,
      newestMs: seen?.newestMs ?? null,
      recording: running,
      nowMs,
    }
    const expected = expectedWithin(asked, facts)
    const known = expected === null ? { spans: [], gaps: [] } : footageOf({
      expected,
      beginMs: beginOf(facts),
      files: yield* held(recording.id, expected),
      gaps: yield* gaps(recording.id, expected),
    })
    return { recordingId: recording.id, recordingToken: recording.recordingToken, expected, ...known } satisfies Footage
  })
  /** What each node has of it, by itself. What grows on a node that is there has grown since it was told of. */
  const holders = Effect.fnUntraced(function*(of: StoredRecording, interval: Interval, present: ReadonlySet<NodeId>) {
    const [whole, nowMs] = [yield* footage(of, interval), yield* Clock.currentTimeMillis]
    const asked = yield* checkedInterval(interval)
    const within = { start: asked.start, end: Math.min(asked.end, nowMs) }
    const files = (yield* held(of.recording.id, within)).map((file) =>
      file.holder === nodeId || file.sealed || !present.has(file.holder) ? file : { ...file, endMs: nowMs }
    )
    const others = [...new Set(files.map(({ holder }) => holder))].filter((holder) => holder !== nodeId)
    const spansOf = (holder: NodeId) =>
      footageOf({
        expected: within,
        beginMs: within.start,
        files: files.filter((file) => file.holder === holder),
        gaps: [],
      }).spans
    // Most recordings have one holder.
    const own = others.length === 0 ? whole.spans : spansOf(nodeId)
    return {
      gaps: whole.gaps,
      holders: [nodeId, ...others].map((holder) => ({ holder, spans: holder === nodeId ? own : spansOf(holder) })),
    } satisfies FootageHolders
  })
  return { bounds, holders, files, gaps, footage, usage: storage.usage }
})
