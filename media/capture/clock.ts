/**
 * From a camera's media clock to the wall clock: ticks in, epoch milliseconds out. Pure; knows nothing of effects or disks.
 *
 * Invariants
 * 1. Within a run without a verdict other than `continues`, the mapping is continuous and rises with the ticks.
 * 2. The clock is corrected by slewing, never by a jump: at most `slewPpm` of the elapsed media time, ten times that while it is
 *    wrong by more than half a second (both too slow to be seen in the picture).
 * 3. A jump of the camera's ticks is not a jump of the wall clock: footage goes on where it ended, unless real time was lost too.
 * 4. A step of the node's clock moves the mapping by exactly the step.
 *
 * Where the truth comes from: the camera's RTCP sender reports while its clock is plausible (within `plausibleMs` of the node's),
 * else the arrival on this node. Arrival is only ever late, never early, so the smallest error of the last seconds is used.
 */
import type { EpochMs } from "#schema/common.ts"
import { type AccessUnit, videoClockHz } from "#schema/media.ts"

export interface MediaClockOptions {
  /** A camera clock further than this from the node's is not believed, milliseconds. */
  readonly plausibleMs: number
  /** Fastest correction in parts per million. Quartz drifts by less than 100. */
  readonly slewPpm: number
  /** A change of ticks further than this from the change of arrival is a jump of the camera's clock, milliseconds. */
  readonly jumpMs: number
  /** An error that persists beyond this cannot be drift: the camera left out, or repeated, that much time. Milliseconds. */
  readonly lostMs: number
  /** How long the smallest error is looked for, milliseconds. */
  readonly windowMs: number
}

export const defaultMediaClockOptions: MediaClockOptions = {
  plausibleMs: 5_000,
  slewPpm: 500,
  jumpMs: 1_500,
  lostMs: 5_000,
  windowMs: 5_000,
}

/**
 * What a unit tells about the clock. `continues`: nothing. `jumped`: its ticks have nothing to do with those before; wall time
 * goes on. `lost`: the ticks went on but time was left out (or repeated) in the camera; the mapping must move. After `jumped` and
 * `lost` the caller ends its fragment with the old mapping, then calls `restart`.
 */
export type ClockVerdict = "continues" | "jumped" | "lost"

export interface MediaClock {
  /** Judges the next video unit and, where it continues, takes it into account. */
  readonly observe: (unit: Pick<AccessUnit, "ticks" | "arrivalMs" | "senderMs">) => ClockVerdict
  /**
   * Begins anew at this unit. `endMs`: where footage ended; a start that lies up to `lostMs` before it is put on it. `seamless`:
   * nothing is missing as far as anybody knows, so a start up to `jumpMs` after it is put on it as well.
   */
  readonly restart: (
    unit: Pick<AccessUnit, "ticks" | "arrivalMs" | "senderMs">,
    endMs: EpochMs | null,
    seamless: boolean,
  ) => void
  /**
   * The node's clock was set by this much, milliseconds, to `nowMs`. Whether the mapping has to move: not where a run has begun
   * since, by the clock as it is now. If so, the caller ends its fragment with the old mapping, then calls `step`.
   */
  readonly stepped: (deltaMs: number, nowMs: EpochMs) => boolean
  readonly step: (deltaMs: number) => void
  /** Integer epoch milliseconds of a moment on the video's clock. Only after `restart`. */
  readonly wallMs: (ticks: number) => EpochMs
  /** Camera clock minus node clock by the newest report, milliseconds. */
  readonly offsetMs: () => number | null
  readonly started: () => boolean
}

const ticksPerMs = videoClockHz / 1_000
/** Presentation times go back by this much at most where pictures are reordered (16 pictures at 10 a second). */
const reorderMs = 1_600
const hurryMs = 500
const hurryFactor = 10

/** The smallest value of the last one to two half windows: two numbers instead of a list. */
const makeFloor = (windowMs: number) => {
  let since = 0
  let current = Number.POSITIVE_INFINITY
  let previous = Number.POSITIVE_INFINITY
  let full = false
  return {
    reset: (atMs: number) => {
      since = atMs
      current = Number.POSITIVE_INFINITY
      previous = Number.POSITIVE_INFINITY
      full = false
    },
    add: (atMs: number, value: number) => {
      if (atMs - since >= windowMs / 2 || atMs < since) {
        full = previous !== Number.POSITIVE_INFINITY
        previous = current
        current = Number.POSITIVE_INFINITY
        since = atMs
      }
      if (value < current) current = value
    },
    /** Errors shrink as they are corrected; what was seen before has to follow. */
    shift: (by: number) => {
      current += by
      previous += by
    },
    value: () => Math.min(current, previous),
    full: () => full,
  }
}

export const makeMediaClock = (options: MediaClockOptions = defaultMediaClockOptions): MediaClock => {
  const floor = makeFloor(options.windowMs)
  let started = false
  let refTicks = 0
  let refWall = 0
  let lastTicks = 0
  let lastArrival: number | null = null
  let offset: number | null = null
  let sender = false
  /** Arrival went back: the node's clock was set, and `stepped` will be asked within a second. Until then nothing is learnt. */
  let stepSeen = false

  const predict = (ticks: number) => refWall + (ticks - refTicks) / ticksPerMs

  /** Where this unit's truth comes from; a change of source starts the window anew. */
  const observed = (unit: Pick<AccessUnit, "arrivalMs" | "senderMs">): number => {
    if (unit.senderMs !== null) offset = unit.senderMs - unit.arrivalMs
    const believed = unit.senderMs !== null && Math.abs(unit.senderMs - unit.arrivalMs) < options.plausibleMs
    if (believed !== sender) {
      sender = believed
      floor.reset(unit.arrivalMs)
    }
    return believed && unit.senderMs !== null ? unit.senderMs : unit.arrivalMs
  }

  const slew = (ticks: number) => {
    const elapsed = (ticks - refTicks) / ticksPerMs
    if (elapsed <= 0) return
    const error = floor.value()
    const ppm = Math.abs(error) > hurryMs ? options.slewPpm * hurryFactor : options.slewPpm
    const most = elapsed * ppm / 1_000_000
    const by = Math.max(-most, Math.min(most, error))
    refWall = predict(ticks) + by
    refTicks = ticks
    floor.shift(-by)
  }

  return {
    started: () => started,
    offsetMs: () => offset,
    wallMs: (ticks) => Math.round(predict(ticks)),
    stepped: (deltaMs, nowMs) => {
      stepSeen = false
      return started && Math.abs(refWall + deltaMs - nowMs) < Math.abs(refWall - nowMs)
    },
    step: (deltaMs) => {
      refWall += deltaMs
      // Units may have come by the new clock before anybody noticed.
      lastArrival = null
      floor.reset(refWall)
    },
    restart: (unit, endMs, seamless) => {
      const at = observed(unit)
      refTicks = unit.ticks
      refWall = endMs !== null && at >= endMs - options.lostMs && at <= endMs + (seamless ? options.jumpMs : 0) ?
        endMs :
        at
      lastTicks = unit.ticks
      lastArrival = unit.arrivalMs
      floor.reset(unit.arrivalMs)
      started = true
      stepSeen = false
    },
    observe: (unit) => {
      const media = (unit.ticks - lastTicks) / ticksPerMs
      const arrival = lastArrival === null ? media : unit.arrivalMs - lastArrival
      const error = observed(unit) - predict(unit.ticks)
      // A stall is arrival without ticks and a burst after it ticks without arrival; neither moves the ticks of one unit far
      // ahead of what has elapsed since the clock last agreed.
      if (arrival < -options.jumpMs) stepSeen = true
      const early = !stepSeen && media - arrival > options.jumpMs && error < -options.jumpMs
      if (media < -reorderMs || early) return "jumped"
      lastTicks = unit.ticks
      lastArrival = unit.arrivalMs
      if (stepSeen) return "continues"
      floor.add(unit.arrivalMs, error)
      if (floor.full() && Math.abs(floor.value()) > options.lostMs) return "lost"
      slew(unit.ticks)
      return "continues"
    },
  }
}
