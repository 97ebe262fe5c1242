/**
 * One stream of one camera: connect, watch, and connect again, for as long as it is assigned.
 *
 * Invariants
 * 1. A connection is one `run` that ends with a reason; the reason becomes the health, the one line for a person and the cause
 *    of the gap, and nothing else does.
 * 2. The watchdog counts media, not bytes or keep-alives: `frozenMs` without an access unit ends the run.
 * 3. Not recorded and not watched, the stream is only probed: connected until its first key picture, again every `probeEveryMs`. One
 *    that is on demand is `idle` after a good probe; a connection that failed is tried again until one is good.
 * 4. Settings of the recording change without touching the connection; settings of the connection replace it at once.
 * 5. A source that comes by itself is never called: it is waited for, taken at once, and kept while it is there, also unrecorded.
 * 6. It stays connected for `lingerSeconds` after the last viewer. A camera that refused the credentials is not tried sooner
 *    because somebody comes, and no camera because somebody goes.
 * 7. Callbacks do no effects; per unit they cost a few assignments, the hub and the intake.
 * 8. A session with a ring stays connected for it. Assigned, it goes on with the same connection (`inlet.ts`).
 */
import type { StreamHealth, StreamStatus } from "#media/recorder.ts"
import type { SourceDriver, SourceError, SourceListener, SourceOptions } from "#media/source.ts"
import type { GapCause } from "#schema/record.ts"
import { Clock, Effect, Latch, Random, Semaphore } from "effect"
import { type KeptAssignment, sameSource } from "./assignments.ts"
import { makeStreamHub, type StreamHub } from "./hub.ts"
import { Inlet } from "./inlet.ts"
import { makeRecordingSlot, type OpenRecording, type RecordingSlot } from "./recording-slot.ts"
import { causeOf, defaultRetryOptions, planRetry } from "./retry.ts"
import type { StreamRing } from "./ring.ts"
import { StatusBoard } from "./status-board.ts"

export interface SessionOptions {
  readonly requestTimeoutMs: number
  readonly drainEveryMs: number
  /** Longest time without an access unit. */
  readonly frozenMs: number
  /** The same before the first unit: it includes the requests. */
  readonly firstUnitMs: number
  /** Longest wait for a key picture where one is needed: at the start of a run, after other parameters. */
  readonly firstKeyMs: number
  readonly probeEveryMs: number
  /** How long a viewer who went is waited for. */
  readonly lingerSeconds: number
  /** So long after a loss the stream counts as degraded. */
  readonly degradedMs: number
}

export const defaultSessionOptions: SessionOptions = {
  requestTimeoutMs: 5_000,
  drainEveryMs: 60,
  frozenMs: 5_000,
  firstUnitMs: 12_000,
  firstKeyMs: 30_000,
  probeEveryMs: 60_000,
  lingerSeconds: 10,
  degradedMs: 10_000,
}

export interface SessionParts {
  readonly options: SessionOptions
  readonly driver: SourceDriver
  readonly initial: KeptAssignment
  readonly openRecording: OpenRecording
  readonly publish: (status: StreamStatus) => void
  /** Held until the stream is assigned. */
  readonly ring?: StreamRing
}

export interface Session {
  readonly run: Effect.Effect<never>
  readonly configure: (next: KeptAssignment) => Effect.Effect<void>
  /** The same for a session that only holds its ring. */
  readonly configureRing: (next: KeptAssignment) => Effect.Effect<void>
  /** What its ring holds; null: it has none. */
  readonly ring: () => StreamRing | null
  readonly status: () => StreamStatus
  /** Once a second. */
  readonly tick: () => void
  readonly clockStep: (deltaMs: number) => void
  readonly hub: StreamHub
  /** Ends the recording in order; `forGood`: nothing is expected any more. */
  readonly close: (forGood: boolean) => Effect.Effect<void>
}

/** How a run ended. */
interface RunEnd {
  readonly health: StreamHealth
  readonly cause: GapCause
  readonly reason: string
}

/** What came by itself and froze is taken again so soon: that costs nothing and disturbs nobody. */
const takeAgainMs = 1_000
const watchEveryMs = 500
const frozen = (afterMs: number): RunEnd => ({
  health: "degraded",
  cause: "camera_frozen",
  reason: `no picture for ${afterMs / 1_000} s; connecting anew`,
})
const keyless = (afterMs: number): RunEnd => ({
  health: "degraded",
  cause: "stream_invalid",
  reason: `no key picture within ${afterMs / 1_000} s`,
})
/** A driver's bug costs a connection, not the stream. */
const broken: RunEnd = { health: "degraded", cause: "stream_invalid", reason: "internal error in the camera driver" }

const endOf = (error: SourceError): RunEnd => {
  const cause = causeOf[error.reason]
  const health = cause === "auth_failed" ? "authFailed" : cause === "stream_invalid" ? "degraded" : "offline"
  return { health, cause, reason: error.message }
}

/** One connection's view of what came in. */
interface RunFacts {
  units: number
  keySeen: boolean
  firstMs: number
  lastMs: number
}

/** What the present connection is for; `probed`: a probe that has seen enough and is ending. */
type Mode = "off" | "idle" | "record" | "probe" | "probed"

class StreamSession implements Session {
  private readonly parts: SessionParts
  private readonly clock: Clock.Clock
  private readonly guard: Semaphore.Semaphore
  private readonly board: StatusBoard
  private readonly slot: RecordingSlot
  private readonly inlet: Inlet
  readonly hub: StreamHub
  private kept: KeptAssignment
  /** Bad runs in a row. */
  private attempt = 0
  private running: Mode = "off"
  private connected = false
  /** The last connection failed, and the next one is waited for. */
  private retrying = false
  /** A connection by the present settings was good, and none has failed since. */
  private good = false
  /** Seconds that the last viewer is still waited for. */
  private lingering = 0
  /** Opened to end the present connection or wait, and look at the settings again. */
  private readonly again = Latch.makeUnsafe(false)

  constructor(parts: SessionParts, clock: Clock.Clock, guard: Semaphore.Semaphore) {
    this.parts = parts
    this.clock = clock
    this.guard = guard
    this.kept = parts.initial
    const { streamId } = parts.initial.assignment
    this.board = new StatusBoard(streamId, parts.publish, () => this.slot.recorder())
    this.slot = makeRecordingSlot(parts.openRecording, () => this.board.tell())
    this.inlet = new Inlet(this.slot.wanted, parts.ring ?? null)
    this.hub = makeStreamHub(() => {
      this.lingering = this.hub.viewers() > 0 ? 0 : parts.options.lingerSeconds
      if (this.hub.viewers() > 0 && !(this.retrying && this.board.health === "authFailed")) this.look()
    })
  }

  get run(): Effect.Effect<never> {
    const begin = Effect.suspend(() => this.slot.set(this.kept.assignment))
    return Effect.andThen(this.guard.withPermits(1)(begin), Effect.forever(Effect.suspend(() => this.turn())))
  }

  status(): StreamStatus {
    return this.board.status()
  }

  configure(next: KeptAssignment): Effect.Effect<void> {
    return this.guard.withPermits(1)(Effect.gen({ self: this }, function*() {
      const previous = this.kept
      this.kept = next
      yield* this.slot.set(next.assignment, this.inlet.sinceMs())
      // May begin in the middle of a connection that a probe, viewers or a ring opened.
      this.inlet.assigned(this.board.parameters)
      if (this.parts.ring !== undefined) this.board.untold()
      this.follow(previous)
    }))
  }

  configureRing(next: KeptAssignment): Effect.Effect<void> {
    return this.guard.withPermits(1)(Effect.sync(() => {
      const previous = this.kept
      this.kept = next
      this.follow(previous)
    }))
  }

  ring(): StreamRing | null {
    return this.inlet.ring()
  }

  private follow(previous: KeptAssignment): void {
    const same = sameSource(previous.assignment, this.kept.assignment)
    if (!same) this.good = false
    if (!same || (this.mode() !== this.running && !this.goesOn())) {
      this.attempt = 0
      this.again.openUnsafe()
    }
    this.board.tell()
  }

  tick(): void {
    if (this.lingering > 0 && --this.lingering === 0 && !this.retrying) this.look()
    this.inlet.tick()
    this.slot.recorder()?.tick()
    this.board.tick(this.clock.currentTimeMillisUnsafe())
  }

  clockStep(deltaMs: number): void {
    this.slot.recorder()?.clockStep(deltaMs)
  }

  close(forGood: boolean): Effect.Effect<void> {
    return this.guard.withPermits(1)(Effect.andThen(this.slot.close(forGood), Effect.sync(() => this.inlet.close())))
  }

  private mode(): Mode {
    if (!this.kept.assignment.enabled) return "off"
    if (this.inlet.isWanted() || this.hub.viewers() > 0 || this.lingering > 0) return "record"
    const onDemand = this.kept.assignment.onDemand === true && this.parts.driver.comes === undefined
    return this.good && onDemand ? "idle" : "probe"
  }

  /** After viewers came or went: ends the present connection or wait if it is not what is wanted now. */
  private look(): void {
    if (this.mode() !== this.running && !this.goesOn()) this.again.openUnsafe()
  }

  /** Whether the probe's connection became the one that is now wanted. */
  private goesOn(): boolean {
    if (!this.connected || this.running !== "probe" || this.mode() !== "record") return false
    this.running = "record"
    return true
  }

  private listen(facts: RunFacts, onKey: () => void): SourceListener {
    const { board, hub, inlet } = this
    return {
      onParameters: (parameters) => {
        board.parameters = parameters
        hub.parameters(parameters)
        inlet.parameters(parameters)
        board.tell()
      },
      onUnit: (unit) => {
        if (facts.units++ === 0) facts.firstMs = unit.arrivalMs
        facts.lastMs = unit.arrivalMs
        board.lastUnitMs = unit.arrivalMs
        board.bytes += unit.data.length
        if (unit.track === "video") board.frames++
        if (unit.senderMs !== null) board.clockOffsetMs = unit.senderMs - unit.arrivalMs
        if (!facts.keySeen && unit.key && unit.track === "video") {
          facts.keySeen = true
          onKey()
        }
        if (this.running === "record") inlet.unit(unit)
        hub.unit(unit)
      },
      onLoss: (packets) => {
        board.lost(packets, this.clock.currentTimeMillisUnsafe() + this.parts.options.degradedMs)
        inlet.loss(packets)
      },
    }
  }

  /** Ends when the media stops. Counts its own turns, so that neither a clock step nor a suspended process frightens it. */
  private watchdog(facts: RunFacts): Effect.Effect<RunEnd> {
    const { firstKeyMs, firstUnitMs, frozenMs } = this.parts.options
    return Effect.gen({ self: this }, function*() {
      let seen = 0
      let idleMs = 0
      let keylessMs = 0
      while (true) {
        yield* Effect.sleep(watchEveryMs)
        idleMs = facts.units === seen ? idleMs + watchEveryMs : 0
        const waiting = !facts.keySeen || this.inlet.awaitingKey()
        keylessMs = facts.units > 0 && waiting ? keylessMs + watchEveryMs : 0
        seen = facts.units
        const limit = seen === 0 ? firstUnitMs : frozenMs
        if (idleMs >= limit) return frozen(limit)
        if (keylessMs >= firstKeyMs) return keyless(firstKeyMs)
      }
    })
  }

  private source(): SourceOptions {
    const { password, transport, url, username } = this.kept.assignment
    const { drainEveryMs, requestTimeoutMs } = this.parts.options
    return { url, username, password, transport, requestTimeoutMs, drainEveryMs }
  }

  /** One connection. `null`: it did what it was for, or the settings changed. */
  private connect(facts: RunFacts): Effect.Effect<RunEnd | null> {
    const probed = Latch.makeUnsafe(false)
    const listener = this.listen(facts, () => {
      this.good = true
      if (this.board.health !== "online") this.board.set("online", "")
      // What comes by itself sends in any case: staying with it tells when it goes.
      if (this.running !== "probe" || this.parts.driver.comes !== undefined) return
      this.running = "probed"
      probed.openUnsafe()
    })
    this.connected = true
    return this.parts.driver.open(this.source(), listener).pipe(
      Effect.catchTag("SourceError", (error) => Effect.succeed(endOf(error))),
      Effect.catchDefect((defect) =>
        Effect.as(Effect.logError(`Driver defect on stream ${this.kept.assignment.streamId}`, defect), broken)
      ),
      Effect.raceFirst(this.watchdog(facts)),
      Effect.raceFirst(Effect.as(Effect.raceFirst(probed.await, this.again.await), null)),
      Effect.ensuring(Effect.sync(() => {
        this.connected = false
      })),
    )
  }

  /** Until the time has passed or the settings change. */
  private pause(ms: number): Effect.Effect<void> {
    return Effect.asVoid(Effect.timeoutOption(this.again.await, ms))
  }

  private ended(end: RunEnd, facts: RunFacts): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      this.inlet.interrupt(end.cause, end.reason)
      const locked = this.kept.locked ? "the stored password cannot be opened (another master key?); " : ""
      this.board.set(end.health, `${locked}${end.reason}`)
      const mediaMs = facts.units === 0 ? 0 : Math.max(0, facts.lastMs - facts.firstMs)
      // Nobody is called again: it is waited for, and taken when it comes.
      if (end.cause === "publisher_away") return
      const outcome = { mediaMs, authFailed: end.cause === "auth_failed" }
      const plan = planRetry(this.attempt, outcome, yield* Random.next, defaultRetryOptions)
      this.attempt = plan.attempt
      const delayMs = this.parts.driver.comes === undefined ? plan.delayMs : Math.min(plan.delayMs, takeAgainMs)
      this.board.reconnects++
      const { streamId } = this.kept.assignment
      yield* Effect.logInfo(`Stream ${streamId}: ${end.reason}; next attempt in ${delayMs} ms`)
      this.good = false
      this.retrying = true
      yield* Effect.ensuring(
        this.pause(delayMs),
        Effect.sync(() => {
          this.retrying = false
        }),
      )
    })
  }

  /** A source that comes by itself is waited for outside of any connection. True: the settings changed meanwhile. */
  private away(): Effect.Effect<boolean> {
    const { comes } = this.parts.driver
    return Effect.suspend(() => {
      const source = this.source()
      if (comes === undefined || comes.isHere(source)) return Effect.succeed(false)
      this.board.set("offline", comes.awayText)
      this.inlet.interrupt("publisher_away", comes.awayText)
      return Effect.raceFirst(Effect.as(comes.arrival(source), false), Effect.as(this.again.await, true))
    })
  }

  private turn(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const { board } = this
      this.again.closeUnsafe()
      this.running = this.mode()
      if (this.running === "off") {
        board.set("disabled", "")
        yield* this.again.await
        return
      }
      if (this.running === "idle") {
        board.set("idle", "")
        yield* this.again.await
        return
      }
      if (yield* this.away()) return
      if (board.health === "registered" || board.health === "disabled") board.set("probing", "")
      const facts: RunFacts = { units: 0, keySeen: false, firstMs: 0, lastMs: 0 }
      const end = yield* this.connect(facts)
      this.hub.end()
      if (end !== null) {
        yield* this.ended(end, facts)
        return
      }
      // The settings changed, somebody began or ceased to watch, or the probe has seen enough.
      this.inlet.interrupt("starting", "connecting anew")
      if (facts.keySeen) this.attempt = 0
      if (this.parts.driver.comes !== undefined) return
      if (this.mode() === "probe" && facts.keySeen) yield* this.pause(this.parts.options.probeEveryMs)
    })
  }
}

export const makeSession = (parts: SessionParts): Effect.Effect<Session> =>
  Effect.gen(function*() {
    return new StreamSession(parts, yield* Clock.Clock, yield* Semaphore.make(1))
  })
