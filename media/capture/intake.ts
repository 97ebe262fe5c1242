/**
 * From access units to fragments with a wall clock: the part of a recording that runs in the driver's callbacks.
 *
 * Invariants
 * 1. No effect and no copy: a unit costs a few comparisons, a fragment one callback.
 * 2. A run of a connection, and what follows changed parameters, begins with a key picture.
 * 3. A fragment begins where the one before ended, unless `hole` of it says why not.
 * 4. Lost packets end a fragment only where a picture is missing: the hole is exactly as long as the pictures that did not come.
 *    Later pictures are kept although they refer to a lost one: a damaged picture shows more than none. A lost picture that
 *    no other waits for (a B picture) cannot be told from the ticks and is only counted.
 * 5. Holds at most one fragment and one reorder window (`FragmentBuilder`).
 */
import type { FragmentBuilder, makeFragmentBuilder } from "#media/fmp4.ts"
import type { Fragment } from "#media/storage.ts"
import type { EpochMs } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import type { GapCause } from "#schema/record.ts"
import { makeMediaClock, type MediaClock } from "./clock.ts"

/** Why footage does not continue. */
export interface Hole {
  readonly cause: GapCause
  readonly detail: string
}

export interface IntakeOptions {
  readonly makeBuilder: typeof makeFragmentBuilder
  /** Where decode time goes on, 90 kHz. */
  readonly decodeTicks: number
  /** `hole`: what the gap before this fragment is put down to, should there be one that nobody announced. */
  readonly onFragment: (fragment: Fragment, parameters: TrackParameters, hole: Hole) => void
}

export interface Intake {
  readonly parameters: (parameters: TrackParameters) => void
  readonly unit: (unit: AccessUnit) => void
  readonly loss: (packets: number) => void
  /** The connection is over, or nothing is wanted for a while: gives out what is pending. */
  readonly endRun: () => void
  /** The node's clock was set by this much. Footage never goes back within a file: after a step back it waits for a key picture. */
  readonly clockStep: (deltaMs: number, nowMs: EpochMs) => void
  readonly clock: MediaClock
  /** Units wait for a key picture. */
  readonly awaitingKey: () => boolean
  /** What the next hole will be put down to. */
  readonly hole: () => Hole
}

const sameBytes = (a: Uint8Array, b: Uint8Array) => a.length === b.length && a.every((byte, i) => byte === b[i])

/** Whether footage with either can stand in one file. */
export const sameParameters = (a: TrackParameters, b: TrackParameters): boolean => {
  const [v, w, s, t] = [a.video, b.video, a.audio, b.audio]
  const video = v.codec === w.codec && sameBytes(v.sps, w.sps) && sameBytes(v.pps, w.pps) && sameBytes(v.vps, w.vps)
  if (!video || s === null || t === null) return video && s === t
  return s.codec === t.codec && s.sampleRate === t.sampleRate && s.channels === t.channels &&
    sameBytes(s.config, t.config)
}

/** Nothing else being said, a hole is put down to the network. */
const unannounced: Hole = { cause: "packet_loss", detail: "pictures did not arrive" }
/** A picture that comes later than this many frame times after the one before has lost one in between. */
const missedFrames = 1.5

/** The usual advance from picture to picture, learnt from those that came without loss. */
const makePace = () => {
  let newest: number | null = null
  let usual = 0
  return {
    restart: () => {
      newest = null
    },
    /** How far the unit is ahead of the newest before it, in usual advances; 0 where it is not. */
    ahead: (ticks: number) => newest === null || usual === 0 ? 0 : (ticks - newest) / usual,
    learn: (ticks: number) => {
      const advance = newest === null ? 0 : ticks - newest
      if (advance > 0) usual = usual === 0 || advance < usual ? advance : usual + (advance - usual) / 8
      if (newest === null || advance > 0) newest = ticks
    },
    usualMs: () => usual / 90,
    pass: (ticks: number) => {
      newest = ticks
    },
  }
}

export const makeIntake = (options: IntakeOptions): Intake => {
  const clock = makeMediaClock()
  const pace = makePace()
  let parameters: TrackParameters | null = null
  let builder: FragmentBuilder | null = null
  let decodeTicks = options.decodeTicks
  let endMs: EpochMs | null = null
  let fresh = true
  let awaitingKey = true
  let lost = 0
  let hole = unannounced
  /** The next border is put on the last end if it lies this near. */
  let snapMs = 0

  const border = (ticks: number): EpochMs => {
    const at = clock.wallMs(ticks)
    const near = endMs !== null && Math.abs(at - endMs) <= snapMs
    snapMs = 0
    return near && endMs !== null ? endMs : at
  }
  const build = (of: TrackParameters): FragmentBuilder =>
    options.makeBuilder({
      parameters: of,
      decodeTicks,
      wallMs: border,
      onFragment: (fragment) => {
        endMs = fragment.endMs
        const before = hole
        hole = unannounced
        options.onFragment(fragment, of, before)
      },
    })
  /** Ends the fragment under the mapping so far; the hole is put down to this. */
  const interrupt = (why: Hole) => {
    builder?.discontinuity()
    hole = why
  }
  const retire = () => {
    if (builder === null) return
    builder.flush()
    decodeTicks = builder.nextDecodeTicks()
    builder = null
  }

  const begin = (unit: AccessUnit) => {
    clock.restart(unit, endMs, false)
    pace.restart()
    fresh = false
    lost = 0
  }
  const follow = (unit: AccessUnit) => {
    const verdict = clock.observe(unit)
    if (verdict === "jumped") {
      interrupt({ cause: "camera_frozen", detail: "the camera's media clock jumped" })
      clock.restart(unit, endMs, true)
      pace.restart()
    } else if (verdict === "lost") {
      interrupt({ cause: "camera_frozen", detail: "the camera left out time without telling" })
      clock.restart(unit, null, false)
      pace.restart()
    } else if (lost > 0 && pace.ahead(unit.ticks) > missedFrames) {
      interrupt({ cause: "packet_loss", detail: `${lost} packets lost` })
      pace.pass(unit.ticks)
    }
    lost = 0
  }

  return {
    clock,
    awaitingKey: () => awaitingKey,
    hole: () => hole,
    parameters: (next) => {
      if (parameters !== null && sameParameters(parameters, next)) return
      if (builder !== null) {
        retire()
        snapMs = pace.usualMs() * 0.75
        hole = { cause: "stream_changed", detail: "the camera changed its parameters" }
        awaitingKey = true
      }
      parameters = next
    },
    unit: (unit) => {
      if (unit.track === "audio") {
        if (!awaitingKey) builder?.push(unit)
        return
      }
      if (parameters === null || (awaitingKey && !unit.key)) return
      if (fresh) begin(unit)
      else follow(unit)
      awaitingKey = false
      pace.learn(unit.ticks)
      builder ??= build(parameters)
      builder.push(unit)
    },
    loss: (packets) => {
      lost += packets
    },
    endRun: () => {
      builder?.discontinuity()
      hole = unannounced
      fresh = true
      awaitingKey = true
    },
    clockStep: (deltaMs, nowMs) => {
      if (deltaMs < 0) endMs = null
      if (fresh || !clock.stepped(deltaMs, nowMs)) return
      const detail = `the node's clock was set ${deltaMs < 0 ? "back" : "forward"} by ${
        Math.abs(Math.round(deltaMs))
      } ms`
      interrupt({ cause: "clock_step", detail })
      clock.step(deltaMs)
      if (deltaMs >= 0) return
      endMs = null
      awaitingKey = true
    },
  }
}
