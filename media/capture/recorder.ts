/**
 * Fragments to files: one fiber a recording opens, fills, turns and closes its files and keeps its ledger true.
 *
 * Invariants
 * 1. What the ledger says is recorded was taken by the disk's queue; what the queue then fails to write is taken back.
 * 2. A gap is on disk before the footage that ends it (`KeptLedger.commit`).
 * 3. A file holds one set of parameters, one epoch and a wall clock that never goes back; it begins with a key picture. After a
 *    gap with the same parameters the same file goes on, but for a person's pause and for a gap that outlasts the file's time:
 *    both seal it, so that retention reaches it.
 * 4. After a failed write it tries again with the first group of pictures `retryMs` later, for ever; each try is one file.
 */
import type { Assignment } from "#media/recorder.ts"
import type { Fragment, Storage, StorageError } from "#media/storage.ts"
import type { EpochMs, Interval } from "#schema/common.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { GapCause, RecordingState } from "#schema/record.ts"
import { Clock, Effect, Fiber, Scope } from "effect"
import { type Hole, type Intake, makeIntake, sameParameters } from "./intake.ts"
import type { Journal } from "./journal.ts"
import type { KeptLedger } from "./ledger-store.ts"
import { type FileOpener, makeFileOpener, type OpenFile, spansOf, turnAfter } from "./open-file.ts"
import { type Item, RecorderQueue } from "./recorder-queue.ts"
import { causeOfHole, isWaking } from "./standstill.ts"

/** An assignment that has a recording. */
export type RecordingAssignment = Assignment & { readonly recording: NonNullable<Assignment["recording"]> }

export interface RecorderOptions {
  /** Length of a file, milliseconds. */
  readonly rotateMs: number
  /** First retry after a failed write; doubles up to eight times this. */
  readonly retryMs: number
  readonly maxHeldBytes: number
  /** How often a growing file is journalled. */
  readonly grownEveryMs: number
  /** Longest wait for the disk when the recorder ends. */
  readonly closeMs: number
  /** Longest wait for a new file. */
  readonly openMs: number
}

export const defaultRecorderOptions: RecorderOptions = {
  rotateMs: 600_000,
  retryMs: 3_000,
  maxHeldBytes: 16 * 1024 * 1024,
  grownEveryMs: 30_000,
  closeMs: 5_000,
  openMs: 10_000,
}

export interface RecorderParts {
  readonly options: RecorderOptions
  readonly storage: Storage["Service"]
  readonly makeBuilder: Parameters<typeof makeIntake>[0]["makeBuilder"]
  readonly kept: KeptLedger
  readonly journal: Journal
  readonly assignment: RecordingAssignment
  /** Where the files of this epoch go on. */
  readonly resume: { readonly sequence: number; readonly decodeTicks: number }
  /** The recording's state may have changed. */
  readonly onChange: () => void
  /** A folder is full: time to delete what is old. */
  readonly onDiskFull: () => void
  /** When this process last stood still. */
  readonly stoodStill: () => Interval | null
}

export interface Recorder {
  readonly intake: Intake
  /** Footage ends: gives out what is pending and opens a gap. */
  readonly interrupt: (cause: GapCause, detail: string) => void
  readonly clockStep: (deltaMs: number) => void
  /** Same recording, other flags or a newer epoch. */
  readonly configure: (assignment: RecordingAssignment) => void
  /** Once a second. */
  readonly tick: () => void
  /** Bytes of units that may be given to the intake at once, where they need not come at the camera's pace. */
  readonly room: () => number
  readonly state: () => RecordingState
  /** Why the footage is not stored, where it is the disk's fault; else empty. */
  readonly trouble: () => string
  /** Writes what is pending and seals. The ledger stays as it is: whoever comes next finds the end. */
  readonly close: Effect.Effect<void>
}

const maxBackoff = 8
/** Seconds without a stored fragment after which a gap is open even if nobody said that footage ended. */
const quietTicks = 10
/** A step of the clock is noticed at most this long after it; a run may have begun by the new clock in the meantime. */
const noticedLateMs = 1_500

class RecorderWorker {
  private readonly parts: RecorderParts
  private readonly scope: Scope.Scope
  private readonly clock: Clock.Clock
  readonly intake: Intake
  private assignment: RecordingAssignment
  private readonly queue: RecorderQueue
  private file: OpenFile | null = null
  private readonly create: FileOpener
  private sequence: number
  /** Nothing is written before this; null while all is well. */
  private retryAt: EpochMs | null = null
  private failures = 0
  private lastError = ""
  private grownAt = 0
  private quietTicks = 0

  constructor(parts: RecorderParts, scope: Scope.Scope, clock: Clock.Clock) {
    this.parts = parts
    this.scope = scope
    this.clock = clock
    this.assignment = parts.assignment
    this.sequence = parts.resume.sequence
    this.queue = new RecorderQueue(parts.options.maxHeldBytes)
    this.create = makeFileOpener(parts.storage, scope, parts.options.openMs)
    this.intake = makeIntake({
      makeBuilder: parts.makeBuilder,
      decodeTicks: parts.resume.decodeTicks,
      onFragment: (fragment, parameters, hole) => this.queue.offer(fragment, parameters, hole),
    })
  }

  get now(): EpochMs {
    return this.clock.currentTimeMillisUnsafe()
  }

  put(item: Item): void {
    this.queue.put(item)
  }

  configure(assignment: RecordingAssignment): void {
    const changed = assignment.epoch !== this.assignment.epoch
    this.assignment = assignment
    if (changed) this.sequence = 0
  }

  get run(): Effect.Effect<never> {
    return this.queue.drain((item) => this.handle(item))
  }

  /** A bug, or bytes of a camera that nobody foresaw, costs what it met; the recording goes on. */
  private handle(item: Item): Effect.Effect<void> {
    const detail = "internal error while storing; see the log"
    return Effect.catchDefect(
      this.perform(item),
      (defect) =>
        Effect.andThen(
          Effect.logError(`Recording ${this.assignment.recording.recordingId}: ${detail}`, defect),
          item._tag === "Fragment" ? this.backOff({ cause: "stream_invalid", detail }) : Effect.void,
        ),
    )
  }

  private perform(item: Item): Effect.Effect<void> {
    switch (item._tag) {
      case "Fragment":
        return this.store(item.fragment, item.parameters, item.hole)
      case "Missing":
        return this.missing(item.hole)
      case "SetBack":
        return this.setBack(item.nowMs)
      case "Failed":
        return this.failed(item.open, item.error)
      case "Tick":
        return this.ticked()
    }
  }

  private commit(changes: Parameters<KeptLedger["commit"]>[0]): Effect.Effect<void> {
    if (changes.length === 0) return Effect.void
    return Effect.andThen(this.parts.kept.commit(changes, this.assignment.epoch), Effect.sync(this.parts.onChange))
  }

  private missing(said: Hole): Effect.Effect<void> {
    const stood = this.parts.stoodStill()
    const { mark, open } = this.parts.kept.ledger.snapshot()
    if (open !== null && isWaking(said, open.startMs, stood, this.now)) return Effect.void
    const hole = open === null ? causeOfHole(said, mark, stood) : said
    const told = this.commit(this.parts.kept.ledger.missing(hole.cause, hole.detail, this.now))
    return hole.cause === "operator_paused" ? Effect.andThen(told, this.leave()) : told
  }

  /** The open file is sealed behind; what comes next begins another. */
  private leave(): Effect.Effect<void> {
    return Effect.suspend(() => {
      const open = this.file
      this.file = null
      return open === null ? Effect.void : Effect.asVoid(Effect.forkIn(this.seal(open), this.scope))
    })
  }

  private setBack(nowMs: EpochMs): Effect.Effect<void> {
    const { recordingId } = this.assignment.recording
    const stored = this.parts.storage.files(recordingId, { start: nowMs, end: Number.MAX_SAFE_INTEGER })
    const gaps = this.parts.kept.ledger.between({ start: nowMs, end: Number.MAX_SAFE_INTEGER })
    const spans = stored.flatMap((file) => spansOf(file, gaps))
    return this.commit(this.parts.kept.ledger.setBack(nowMs, spans))
  }

  /** `now`: this fragment cannot stand in the open file. `withKey`: it can, but the file should end at the next key picture. */
  private turnWhen(fragment: Fragment, parameters: TrackParameters): "never" | "withKey" | "now" {
    const open = this.file
    if (open === null || !sameParameters(open.parameters, parameters)) return "now"
    if (open.endMs !== null && fragment.startMs < open.endMs) return "now"
    return open.epoch !== this.assignment.epoch || fragment.startMs >= open.rotateAt ? "withKey" : "never"
  }

  private store(fragment: Fragment, parameters: TrackParameters, hole: Hole): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      if (this.retryAt !== null && !(fragment.key && this.now >= this.retryAt)) return fragment.release()
      const when = this.turnWhen(fragment, parameters)
      if (when === "now" && !fragment.key) return yield* this.missing(hole)
      if (when !== "never" && fragment.key && !(yield* this.turn(fragment, parameters))) return
      const open = this.file
      if (open === null) return
      const { cause, detail } = causeOfHole(hole, open.endMs ?? fragment.startMs, this.parts.stoodStill())
      yield* this.commit(this.parts.kept.ledger.resume(fragment.startMs, cause, detail))
      if (!open.writer.append(fragment)) {
        // Refused for want of room, or because the file has failed and word of it is still under way.
        const error = yield* Effect.raceFirst(Effect.flip(open.writer.failure), Effect.as(Effect.yieldNow, null))
        return yield* error === null ?
          this.backOff({ cause: "disk_slow", detail: "the write queue is full" }) :
          this.failed(open, error)
      }
      this.parts.kept.ledger.extend(fragment.endMs)
      this.quietTicks = 0
      open.endMs = fragment.endMs
      if (this.retryAt === null) return
      this.retryAt = null
      this.failures = 0
      this.lastError = ""
      this.parts.onChange()
    })
  }

  private backOff(hole: Hole): Effect.Effect<void> {
    if (hole.cause === "disk_full") this.parts.onDiskFull()
    const factor = Math.min(maxBackoff, 2 ** this.failures)
    this.failures++
    this.retryAt = this.now + this.parts.options.retryMs * factor
    this.lastError = hole.detail
    return Effect.andThen(this.missing(hole), Effect.sync(this.parts.onChange))
  }

  /** Opens the next file and leaves the one before to be sealed behind. False, and a gap, where no file can be opened. */
  private turn(first: Fragment, parameters: TrackParameters): Effect.Effect<boolean> {
    const { cameraId, cameraName, channelId, channelName, epoch, nodeId, recording, role, streamId } = this.assignment
    const { recordingId, recordingToken } = recording
    const { rotateMs } = this.parts.options
    return Effect.gen({ self: this }, function*() {
      const identity = { recordingId, recordingToken, streamId, channelId, nodeId, epoch }
      const writer = yield* this.create(identity, parameters, { sequence: this.sequence, startMs: first.startMs }, {
        cameraId,
        cameraName,
        channelName,
        role,
      })
      this.sequence++
      const previous = this.file
      const rotateAt = turnAfter(first.startMs, streamId, rotateMs)
      const watch = yield* writer.failure.pipe(
        Effect.catch((error) => Effect.sync(() => this.put({ _tag: "Failed", open, error }))),
        Effect.forkIn(this.scope),
      )
      const open: OpenFile = { writer, parameters, epoch, rotateAt, watch, endMs: null, broken: false }
      this.file = open
      this.parts.journal.append([{ _tag: "FileOpened", file: writer.file() }])
      this.grownAt = this.now
      if (previous !== null) yield* Effect.forkIn(this.seal(previous), this.scope)
      return true
    }).pipe(
      Effect.catchTag("StorageError", (error) =>
        Effect.as(this.backOff({ cause: error.cause, detail: error.message }), false)),
    )
  }

  private seal(open: OpenFile): Effect.Effect<void> {
    return open.writer.seal.pipe(
      Effect.flatMap((file) => Effect.sync(() => this.parts.journal.append([{ _tag: "FileSealed", file }]))),
      Effect.catchTag("StorageError", (error) => Effect.sync(() => this.put({ _tag: "Failed", open, error }))),
      Effect.ensuring(Fiber.interrupt(open.watch)),
    )
  }

  /** Invariant 1: what the file does not hold is missing after all. */
  private failed(open: OpenFile, error: StorageError): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      if (open.broken) return
      open.broken = true
      const current = this.file === open
      if (current) this.file = null
      // A write that was under way may still succeed: only a writer that is done with its file tells where it ends.
      yield* this.atMost(Effect.ignore(open.writer.seal))
      const file = open.writer.file()
      const missing = {
        start: open.endMs === null ? file.endMs : Math.min(file.endMs, open.endMs),
        end: open.endMs ?? file.endMs,
      }
      yield* this.commit(this.parts.kept.ledger.lost(missing, error.cause, error.message))
      this.parts.journal.append([{ _tag: file.sealed ? "FileSealed" : "FileGrown", file }])
      yield* Effect.logWarning(`Writing of recording ${file.recordingId} failed`, error)
      if (current) yield* this.backOff({ cause: error.cause, detail: error.message })
    })
  }

  /** A hung disk does not let go of its caller: whoever waits for it waits apart, and no longer than `closeMs`. */
  private atMost(effect: Effect.Effect<void>): Effect.Effect<void> {
    return Effect.flatMap(
      Effect.forkIn(effect, this.scope),
      (fiber) => Effect.asVoid(Effect.timeoutOption(Fiber.await(fiber), this.parts.options.closeMs)),
    )
  }

  private ticked(): Effect.Effect<void> {
    return Effect.suspend(() => {
      if (this.file !== null && this.now - this.grownAt >= this.parts.options.grownEveryMs) {
        this.grownAt = this.now
        this.parts.journal.append([{ _tag: "FileGrown", file: this.file.writer.file() }])
      }
      const { ledger } = this.parts.kept
      const gap = ledger.snapshot().open
      if (gap !== null) this.quietTicks = 0
      else if (++this.quietTicks > quietTicks) return this.missing(this.intake.hole())
      const outlasted = gap !== null && this.file !== null && this.now >= this.file.rotateAt
      return Effect.andThen(this.commit(ledger.tick(this.now)), outlasted ? this.leave() : Effect.void)
    })
  }

  get close(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      this.intake.endRun()
      yield* Effect.timeoutOption(this.queue.idle, this.parts.options.closeMs)
      const open = this.file
      this.file = null
      if (open === null) return
      yield* this.atMost(this.seal(open))
      // A seal that failed has left word of what is missing.
      yield* Effect.timeoutOption(this.queue.idle, this.parts.options.closeMs)
    })
  }

  state(): RecordingState {
    if (!this.assignment.recording.enabled || !this.assignment.enabled) return "disabled"
    const { open } = this.parts.kept.ledger.snapshot()
    if (open === null) return (this.file?.endMs ?? null) === null ? "waiting" : "recording"
    return open.cause === "starting" || open.cause === "node_down" || open.cause === "takeover" ? "waiting" : "failed"
  }

  trouble(): string {
    return this.lastError
  }

  room(): number {
    const waiting = this.queue.waitingBytes()
    return Math.min(this.parts.options.maxHeldBytes, this.file?.writer.room() ?? Number.POSITIVE_INFINITY) / 2 - waiting
  }
}

export const makeRecorder = Effect.fnUntraced(
  function*(parts: RecorderParts): Effect.fn.Return<Recorder, never, Scope.Scope> {
    const scope = yield* Scope.Scope
    const clock = yield* Clock.Clock
    const worker = new RecorderWorker(parts, scope, clock)
    yield* Effect.forkIn(worker.run, scope)
    return {
      intake: worker.intake,
      interrupt: (cause, detail) => {
        worker.intake.endRun()
        worker.put({ _tag: "Missing", hole: { cause, detail } })
      },
      clockStep: (deltaMs) => {
        worker.intake.clockStep(deltaMs, worker.now)
        if (deltaMs < 0) worker.put({ _tag: "SetBack", nowMs: worker.now - noticedLateMs })
      },
      configure: (assignment) => worker.configure(assignment),
      tick: () => worker.put({ _tag: "Tick" }),
      room: () => worker.room(),
      state: () => worker.state(),
      trouble: () => worker.trouble(),
      close: worker.close,
    }
  },
)
