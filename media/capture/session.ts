/**
 * One stream of one camera: connect, watch, and connect again, for as long as it is assigned.
 *
 * Invariants
 * 1. A connection is one `run` that ends with a reason; the reason becomes the health, the one line for a person and the cause
 *    of the gap, and nothing else does.
 * 2. The watchdog counts media, not bytes or keep-alives: `frozenMs` without an access unit ends the run.
 * 3. Not recorded and not watched, the stream is only probed: connected until its first key picture, again every `probeEveryMs`.
 * 4. Settings of the recording change without touching the connection; settings of the connection replace it at once.
 * 5. Callbacks do no effects; per unit they cost a few assignments, the hub and the intake.
 */
import type { StreamHealth, StreamStatus } from "#media/recorder.ts"
import type { SourceDriver, SourceError, SourceListener, SourceOptions } from "#media/source.ts"
import type { TrackParameters } from "#schema/media.ts"
import type { GapCause } from "#schema/record.ts"
import { Clock, Effect, Latch, Random, Semaphore } from "effect"
import { type KeptAssignment, sameSource } from "./assignments.ts"
import { makeStreamHub, type StreamHub } from "./hub.ts"
import { sameParameters } from "./intake.ts"
import type { Recorder } from "./recorder.ts"
import { makeRecordingSlot, type OpenRecording } from "./recording-slot.ts"
import { causeOf, defaultRetryOptions, planRetry } from "./retry.ts"

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
  /** So long after a loss the stream counts as degraded. */
  readonly degradedMs: number
}

export const defaultSessionOptions: SessionOptions = {
  requestTimeoutMs: 5_000,
  drainEveryMs: 40,
  frozenMs: 5_000,
  firstUnitMs: 12_000,
  firstKeyMs: 30_000,
  probeEveryMs: 60_000,
  degradedMs: 10_000,
}

export interface SessionParts {
  readonly options: SessionOptions
  readonly driver: SourceDriver
  readonly initial: KeptAssignment
  readonly openRecording: OpenRecording
  readonly publish: (status: StreamStatus) => void
}

export interface Session {
  readonly run: Effect.Effect<never>
  readonly configure: (next: KeptAssignment) => Effect.Effect<void>
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

const watchEveryMs = 500

const endOf = (error: SourceError): RunEnd => {
  const cause = causeOf[error.reason]
  const health = cause === "auth_failed" ? "authFailed" : cause === "stream_invalid" ? "degraded" : "offline"
  return { health, cause, reason: error.message }
}

/** What a person sees, and when it changed. */
class StatusBoard {
  health: StreamHealth = "registered"
  reason = ""
  parameters: TrackParameters | null = null
  frames = 0
  lostPackets = 0
  bytes = 0
  reconnects = 0
  lastUnitMs: number | null = null
  clockOffsetMs: number | null = null
  private told = ""
  private toldParameters: TrackParameters | null = null
  private readonly streamId: StreamStatus["streamId"]
  private readonly publish: (status: StreamStatus) => void
  private readonly recorder: () => Recorder | null

  constructor(
    streamId: StreamStatus["streamId"],
    publish: (status: StreamStatus) => void,
    recorder: () => Recorder | null,
  ) {
    this.streamId = streamId
    this.publish = publish
    this.recorder = recorder
  }

  status(): StreamStatus {
    const recorder = this.recorder()
    const { bytes, clockOffsetMs, frames, health, lastUnitMs, lostPackets, parameters, reconnects, streamId } = this
    const reason = this.reason === "" ? recorder?.trouble() ?? "" : this.reason
    const recordingState = recorder?.state() ?? "disabled"
    return {
      streamId,
      health,
      reason,
      parameters,
      recordingState,
      frames,
      lostPackets,
      bytes,
      reconnects,
      lastUnitMs,
      clockOffsetMs,
    }
  }

  set(health: StreamHealth, reason: string): void {
    this.health = health
    this.reason = reason
    this.tell()
  }

  /** Publishes, if there is news. */
  tell(): void {
    const status = this.status()
    const told = `${status.health} ${status.recordingState} ${status.reason}`
    const parameters = status.parameters
    const seen = parameters === this.toldParameters ||
      (parameters !== null && this.toldParameters !== null && sameParameters(parameters, this.toldParameters))
    if (told === this.told && seen) return
    this.told = told
    this.toldParameters = parameters
    this.publish(status)
  }
}

/** One connection's view of what came in. */
interface RunFacts {
  units: number
  keySeen: boolean
  firstMs: number
  lastMs: number
}

export const makeSession = Effect.fnUntraced(function*(parts: SessionParts): Effect.fn.Return<Session> {
  const { options } = parts
  const clock = yield* Clock.Clock
  const { streamId } = parts.initial.assignment
  let kept = parts.initial
  let attempt = 0
  let lossUntil = 0
  let lossCount = 0
  let degradedByLoss = false
  let running: "off" | "record" | "probe" = "off"
  /** Opened to end the present connection or wait, and look at the settings again. */
  const again = Latch.makeUnsafe(false)
  const guard = yield* Semaphore.make(1)
  const board = new StatusBoard(streamId, parts.publish, () => slot.recorder())
  const slot = makeRecordingSlot(parts.openRecording, () => board.tell())
  const mode = (): typeof running =>
    !kept.assignment.enabled ? "off" : slot.wanted() !== null || hub.viewers() > 0 ? "record" : "probe"
  const hub: StreamHub = makeStreamHub(() => {
    if (mode() !== running) again.openUnsafe()
  })

  const listen = (facts: RunFacts, onKey: () => void): SourceListener => ({
    onParameters: (parameters) => {
      board.parameters = parameters
      hub.parameters(parameters)
      slot.wanted()?.intake.parameters(parameters)
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
      slot.wanted()?.intake.unit(unit)
      hub.unit(unit)
    },
    onLoss: (packets) => {
      board.lostPackets += packets
      lossCount += packets
      lossUntil = clock.currentTimeMillisUnsafe() + options.degradedMs
      slot.wanted()?.intake.loss(packets)
    },
  })

  /** Ends when the media stops. Counts its own turns, so that neither a clock step nor a suspended process frightens it. */
  const watchdog = (facts: RunFacts) =>
    Effect.gen(function*() {
      let seen = 0
      let idleMs = 0
      let keylessMs = 0
      while (true) {
        yield* Effect.sleep(watchEveryMs)
        idleMs = facts.units === seen ? idleMs + watchEveryMs : 0
        const waiting = !facts.keySeen || (slot.wanted()?.intake.awaitingKey() ?? false)
        keylessMs = facts.units > 0 && waiting ? keylessMs + watchEveryMs : 0
        seen = facts.units
        const limit = seen === 0 ? options.firstUnitMs : options.frozenMs
        if (idleMs >= limit) {
          const end: RunEnd = {
            health: "degraded",
            cause: "camera_frozen",
            reason: `no picture for ${limit / 1_000} s; connecting anew`,
          }
          return end
        }
        if (keylessMs >= options.firstKeyMs) {
          const end: RunEnd = {
            health: "degraded",
            cause: "stream_invalid",
            reason: `no key picture within ${options.firstKeyMs / 1_000} s`,
          }
          return end
        }
      }
    })

  const source = (): SourceOptions => ({
    url: kept.assignment.url,
    username: kept.assignment.username,
    password: kept.assignment.password,
    transport: kept.assignment.transport,
    requestTimeoutMs: options.requestTimeoutMs,
    drainEveryMs: options.drainEveryMs,
  })

  /** One connection. `null`: it did what it was for, or the settings changed. */
  const connect = (facts: RunFacts, probing: boolean) => {
    const probed = Latch.makeUnsafe(false)
    const listener = listen(facts, () => {
      if (board.health !== "online") board.set("online", "")
      if (probing) probed.openUnsafe()
    })
    return parts.driver.open(source(), listener).pipe(
      Effect.catchTag("SourceError", (error) => Effect.succeed(endOf(error))),
      // A driver's bug costs a connection, not the stream.
      Effect.catchDefect((defect) =>
        Effect.logError(`Driver defect on stream ${streamId}`, defect).pipe(Effect.as<RunEnd>({
          health: "degraded",
          cause: "stream_invalid",
          reason: "internal error in the camera driver",
        }))
      ),
      Effect.raceFirst(watchdog(facts)),
      Effect.raceFirst(Effect.as(Effect.raceFirst(probed.await, again.await), null)),
    )
  }

  const ended = (end: RunEnd, facts: RunFacts) =>
    Effect.gen(function*() {
      slot.wanted()?.interrupt(end.cause, end.reason)
      degradedByLoss = false
      const locked = kept.locked ? "the stored password cannot be opened (another master key?); " : ""
      board.set(end.health, `${locked}${end.reason}`)
      const mediaMs = facts.units === 0 ? 0 : Math.max(0, facts.lastMs - facts.firstMs)
      const plan = planRetry(
        attempt,
        { mediaMs, authFailed: end.cause === "auth_failed" },
        yield* Random.next,
        defaultRetryOptions,
      )
      attempt = plan.attempt
      board.reconnects++
      yield* Effect.logInfo(`Stream ${streamId}: ${end.reason}; next attempt in ${plan.delayMs} ms`)
      yield* Effect.raceFirst(Effect.sleep(plan.delayMs), again.await)
    })

  const turn = Effect.gen(function*() {
    again.closeUnsafe()
    const what = mode()
    running = what
    if (what === "off") {
      board.set("disabled", "")
      return yield* again.await
    }
    if (board.health === "registered" || board.health === "disabled") board.set("probing", "")
    const facts: RunFacts = { units: 0, keySeen: false, firstMs: 0, lastMs: 0 }
    const end = yield* connect(facts, what === "probe")
    hub.end()
    if (end !== null) return yield* ended(end, facts)
    // The settings changed, somebody began or ceased to watch, or the probe has seen enough.
    slot.wanted()?.interrupt("starting", "connecting anew")
    if (!facts.keySeen) return
    attempt = 0
    if (what === "probe" && mode() === "probe") yield* Effect.raceFirst(Effect.sleep(options.probeEveryMs), again.await)
  })

  return {
    hub,
    status: () => board.status(),
    run: Effect.andThen(guard.withPermits(1)(Effect.suspend(() => slot.set(kept.assignment))), Effect.forever(turn)),
    configure: (next) =>
      guard.withPermits(1)(Effect.gen(function*() {
        const previous = kept
        kept = next
        yield* slot.set(next.assignment)
        const attached = slot.wanted()
        // Begins in the middle of a connection that viewers keep up.
        if (attached !== null && board.parameters !== null) attached.intake.parameters(board.parameters)
        if (!sameSource(previous.assignment, next.assignment) || mode() !== running) {
          attempt = 0
          again.openUnsafe()
        }
        board.tell()
      })),
    tick: () => {
      slot.recorder()?.tick()
      const lossy = clock.currentTimeMillisUnsafe() < lossUntil
      if (lossy && board.health === "online") {
        degradedByLoss = true
        board.set("degraded", `${lossCount} packets lost in the last seconds`)
      } else if (!lossy) {
        lossCount = 0
        if (degradedByLoss) board.set("online", "")
        degradedByLoss = false
      }
      board.tell()
    },
    clockStep: (deltaMs) => slot.recorder()?.clockStep(deltaMs),
    close: (forGood) => guard.withPermits(1)(slot.close(forGood)),
  }
})
