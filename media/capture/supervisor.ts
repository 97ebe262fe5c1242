/**
 * The recorder supervisor (the door: `media/recorder.ts`): one session a stream, taken up at start from the assignment file
 * alone.
 *
 * Invariants
 * 1. Nothing here waits for a database. Start reads the data folder and the storage folders, then every assigned stream runs.
 * 2. An assignment is on disk before it is in force, and in force before `assign` returns.
 * 3. A stream's fiber never ends by itself; a defect in it is logged and the fiber begins anew after a second.
 * 4. The node's wall clock is compared with its monotonic clock once a second; a difference that changed by more than a second
 *    is a step, told to every recording. A second that took several is a standstill (`standstill.ts`).
 */
import type { makeFragmentBuilder } from "#media/fmp4.ts"
import type { LiveBounds, LiveStreams } from "#media/hub.ts"
import { type Assignment, type RecorderSupervisor, StaleAssignment, type StreamStatus } from "#media/recorder.ts"
import type { SourceDriver } from "#media/source.ts"
import { Storage } from "#media/storage.ts"
import type { Interval, RecordingId, StreamId } from "#schema/common.ts"
import { uuid7From } from "#schema/uuid.ts"
import { keyIdOf, Vault } from "#schema/vault.ts"
import { Clock, Effect, FiberMap, Latch, PubSub, Random, Semaphore, Stream } from "effect"
import { type KeptAssignment, loadAssignments, sameAssignment } from "./assignments.ts"
import { makeJournal } from "./journal.ts"
import { makeLedgers } from "./ledgers.ts"
import type { LineDisks } from "./line-disk.ts"
import { makeRecorder, type RecorderOptions } from "./recorder.ts"
import type { OpenRecording } from "./recording-slot.ts"
import { runRetention } from "./retention.ts"
import type { StreamRing } from "./ring.ts"
import { makeSession, type Session, type SessionOptions } from "./session.ts"
import { settleAtStart } from "./settle.ts"
import { makeShadows } from "./shadows.ts"
import { makeStandstill } from "./standstill.ts"

export interface CaptureOptions {
  readonly drivers: { readonly [K in Assignment["driver"]]: SourceDriver }
  readonly makeBuilder: typeof makeFragmentBuilder
  readonly session: SessionOptions
  readonly recorder: RecorderOptions
  readonly journalMaxBytes: number
}

/** How long a log waits before it tries a refusing disk again. */
const lineRetryMs = 2_000
const stepMs = 1_000
const changesKept = 256

export const makeSupervisor = Effect.fnUntraced(function*(options: CaptureOptions, disks: LineDisks) {
  const storage = yield* Storage
  const vault = yield* Vault
  const clock = yield* Clock.Clock
  const random = yield* Random.Random
  const newId = () => uuid7From(clock.currentTimeMillisUnsafe(), () => Math.floor(random.nextDoubleUnsafe() * 0x10000))

  const assignments = yield* loadAssignments(yield* disks.open("assignments.json"), vault)
  const journal = yield* makeJournal(yield* disks.open("journal.ndjson"), {
    maxBytes: options.journalMaxBytes,
    retryMs: lineRetryMs,
    nowMs: clock.currentTimeMillisUnsafe(),
    footage: assignments.all().some(({ assignment }) => assignment.recording !== null),
  })
  const assigned = new Set(
    assignments.all().flatMap(({ assignment: { recording } }) => recording === null ? [] : [recording.recordingId]),
  )
  yield* settleAtStart(storage, journal, assigned)
  const ledgers = yield* makeLedgers({ storage, journal, newId, retryMs: lineRetryMs, disks, assigned })
  const changes = yield* PubSub.sliding<StreamStatus>(changesKept)
  const sessions = new Map<StreamId, Session>()
  const fibers = yield* FiberMap.make<StreamId>()
  const guard = yield* Semaphore.make(1)
  const lowDisk = Latch.makeUnsafe(false)

  const monotonicMs = () => Number(clock.monotonicTimeNanosUnsafe() / 1_000_000n)
  const standstill = makeStandstill({ wallMs: () => clock.currentTimeMillisUnsafe(), monotonicMs })

  const openRecording: OpenRecording = Effect.fnUntraced(function*(assignment, onChange) {
    const { recordingId } = assignment.recording
    const kept = yield* ledgers.open(recordingId, assignment.epoch)
    const resume = yield* ledgers.resumeOf(assignment)
    const recorder = yield* makeRecorder({
      options: options.recorder,
      storage,
      makeBuilder: options.makeBuilder,
      kept,
      journal,
      assignment,
      resume,
      onChange,
      onDiskFull: () => lowDisk.openUnsafe(),
      stoodStill: standstill.newest,
    })
    const commit = (change: (now: number) => Parameters<typeof kept.commit>[0]) =>
      Effect.suspend(() => kept.commit(change(clock.currentTimeMillisUnsafe()), assignment.epoch))
    return {
      recorder,
      expect: (sinceMs) =>
        commit((now) => kept.ledger.expect(sinceMs ?? now, "starting", "waiting for the first picture")),
      withdraw: commit((now) => kept.ledger.withdraw(now)),
    }
  })

  /** `ring`: it only holds that, and is nobody's business, until it is assigned. */
  const start = Effect.fnUntraced(function*(kept: KeptAssignment, ring?: StreamRing) {
    const { streamId } = kept.assignment
    const session = yield* makeSession({
      options: options.session,
      driver: options.drivers[kept.assignment.driver],
      initial: kept,
      openRecording,
      publish: (status) => {
        if (sessions.has(streamId)) PubSub.publishUnsafe(changes, status)
      },
      ...(ring === undefined ? {} : { ring }),
    })
    const among = ring === undefined ? sessions : shadows.sessions
    among.set(streamId, session)
    yield* FiberMap.run(
      fibers,
      streamId,
      Effect.forever(
        Effect.catchCause(session.run, (cause) =>
          Effect.andThen(Effect.logError(`The session of stream ${streamId} broke`, cause), Effect.sleep(1_000))),
      ),
    )
  })

  const stop = Effect.fnUntraced(function*(streamId: StreamId, forGood: boolean) {
    const running = sessions.get(streamId) ?? shadows.sessions.get(streamId)
    yield* FiberMap.remove(fibers, streamId)
    sessions.delete(streamId)
    shadows.sessions.delete(streamId)
    if (running !== undefined) yield* running.close(forGood)
  })
  const shadows = makeShadows({
    clock,
    guard,
    isAssigned: (streamId) => assignments.get(streamId) !== undefined,
    start,
    stop: (streamId) => stop(streamId, true),
  })

  yield* Effect.addFinalizer(() =>
    Effect.forEach([...sessions.keys(), ...shadows.sessions.keys()], (id) => stop(id, false), {
      concurrency: "unbounded",
      discard: true,
    })
  )
  for (const kept of assignments.all()) yield* start(kept)

  /** Invariant 4. */
  const wallAheadMs = () => clock.currentTimeMillisUnsafe() - monotonicMs()
  let wallAhead = wallAheadMs()
  const tick = Effect.suspend(() => {
    const stoodMs = standstill.beat()
    const before = wallAhead
    wallAhead = wallAheadMs()
    for (const session of [...sessions.values(), ...shadows.sessions.values()]) {
      if (Math.abs(wallAhead - before) > stepMs) session.clockStep(wallAhead - before)
      session.tick()
    }
    return stoodMs === null ?
      Effect.void :
      Effect.logWarning(
        `This process stood still for ${Math.round(stoodMs)} ms; what cameras sent meanwhile is missing`,
      )
  })
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(1_000), tick)))
  yield* Effect.forkScoped(runRetention({
    storage,
    journal,
    ledgers,
    lowDisk,
    policies: () =>
      assignments.all().flatMap(({ assignment: { recording } }) =>
        recording === null ?
          [] :
          [{ recordingId: recording.recordingId, retentionDays: recording.retentionDays, maxBytes: recording.maxBytes }]
      ),
  }))

  const fence = (streamId: StreamId, epoch: number) =>
    Effect.suspend(() => {
      const inForce = assignments.inForce(streamId)
      return epoch < inForce ? Effect.fail(new StaleAssignment({ streamId, epoch, inForce })) : Effect.void
    })
  /** The file could not be written: the assignment is in force all the same, and written with the next one. */
  const kept = <A, E>(write: Effect.Effect<A, E>, otherwise: () => A) =>
    Effect.catchCause(
      write,
      (cause) =>
        Effect.as(Effect.logError("The assignment file could not be written", cause), undefined).pipe(
          Effect.map(otherwise),
        ),
    )

  const supervisor: RecorderSupervisor["Service"] = {
    assign: (assignment) =>
      guard.withPermits(1)(Effect.gen(function*() {
        yield* fence(assignment.streamId, assignment.epoch)
        const previous = assignments.get(assignment.streamId)
        if (previous !== undefined && !previous.locked && sameAssignment(previous.assignment, assignment)) return
        const next = yield* kept(assignments.put(assignment), () => ({ assignment, sealed: null, locked: false }))
        const running = sessions.get(assignment.streamId) ?? shadows.giveUp(assignment.streamId)
        if (running !== undefined) sessions.set(assignment.streamId, running)
        if (running === undefined) yield* start(next)
        else yield* running.configure(next)
      })),
    withdraw: (streamId, epoch) =>
      guard.withPermits(1)(Effect.gen(function*() {
        yield* fence(streamId, epoch)
        yield* kept(assignments.remove(streamId, epoch), () => undefined)
        yield* stop(streamId, true)
        yield* shadows.fill
      })),
    assignments: Effect.sync(() => assignments.all().map(({ assignment }) => assignment)),
    status: (streamId) => sessions.get(streamId)?.status() ?? null,
    statuses: () => Array.from(sessions.values(), (session) => session.status()),
    changes: Stream.fromPubSub(changes),
    journal: journal.read,
    awaitJournal: journal.awaitEntry,
    acknowledge: (position) => Effect.sync(() => journal.acknowledge(position)),
    journalAcknowledged: Effect.sync(journal.acknowledged),
    journalLostAt: Effect.sync(journal.lostAt),
    gaps: (recordingId: RecordingId, interval) => ledgers.between(recordingId, interval),
    amend: Effect.fnUntraced(function*(recordingId, { covered, epoch, explained }) {
      const { commit, ledger } = yield* ledgers.open(recordingId, epoch)
      const nowMs = clock.currentTimeMillisUnsafe()
      const past = <A extends Interval>(all: ReadonlyArray<A>) =>
        all.map((one) => ({ ...one, end: Math.min(one.end, nowMs) })).filter(({ end, start }) => end > start)
      yield* commit([...ledger.cover(past(covered)), ...ledger.explain(past(explained))], epoch)
    }),
    secrets: {
      name: "assignments.json",
      keys: Effect.sync(() =>
        new Set(
          assignments.all().map(({ sealed }) => sealed === null ? null : keyIdOf(sealed)).filter((id) => id !== null),
        )
      ),
      reseal: guard.withPermits(1)(Effect.orDie(assignments.reseal)),
    },
    forget: (recordingId) =>
      guard.withPermits(1)(
        Effect.suspend(() =>
          assignments.all().some(({ assignment }) => assignment.recording?.recordingId === recordingId) ?
            Effect.void :
            ledgers.remove(recordingId)
        ),
      ),
  }
  const live: LiveStreams["Service"] = {
    watch: (streamId: StreamId, bounds: LiveBounds) =>
      Effect.suspend(() => {
        const hub = sessions.get(streamId)?.hub
        if (hub === undefined) return Effect.succeed(null)
        return Effect.map(
          Effect.acquireRelease(Effect.sync(() => hub.join(bounds)), ({ leave }) => Effect.sync(leave)),
          ({ view }) => view,
        )
      }),
    parameters: (streamId) => sessions.get(streamId)?.hub.newestParameters() ?? null,
  }
  return { supervisor, live, rings: shadows.service }
})
