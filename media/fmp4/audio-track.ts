/**
 * Puts audio on the video's timeline. RTP gives each track a clock with a zero of its own; what they have in common is the
 * camera's wall clock in the sender reports of both (RFC 3550, section 6.4.1) or, without them, the arrival.
 *
 * Invariants
 * 1. Decode times of frames given out rise strictly within a run.
 * 2. Frames follow their own clock exactly; they are moved against the video only at the start, after a jump of their clock, or
 *    when the two clocks have drifted apart by more than the tolerance.
 * 3. Frames that wait are copies. At most {@link maxPendingFrames} frames wait (video stands still); the oldest go first.
 */
import type { AccessUnit } from "#schema/media.ts"
import { videoClockHz } from "#schema/media.ts"

/** 10 s of 20 ms frames, several times over. */
const maxPendingFrames = 2_048
/** Lips and voice 60 ms apart are not yet seen (ITU-R BT.1359-1: 90 ms late, 45 ms early). */
const senderToleranceMs = 60
/** Arrival says little: correct only what a person would notice. */
const arrivalToleranceMs = 400
const jumpSeconds = 10
/** Arrivals that the smallest delay is taken from. */
const window = 64

type PendingFrame = Pick<AccessUnit, "ticks" | "durationTicks" | "data">

export interface AudioFrame {
  readonly data: Uint8Array
  /** Ticks of the sample rate on the video's timeline. */
  readonly time: number
  readonly duration: number
}

/** Wall clock of a track's tick 0, by both sources. */
const makeBase = (ticksPerMs: number) => {
  let sender: number | null = null
  const delays: Array<number> = []
  return {
    observe: (unit: AccessUnit) => {
      if (unit.senderMs !== null) sender = unit.senderMs - unit.ticks / ticksPerMs
      // A packet can be late, never early: the smallest difference is the truest.
      if (delays.push(unit.arrivalMs - unit.ticks / ticksPerMs) > window) delays.shift()
    },
    sender: () => sender,
    arrival: () => delays.reduce((least, delay) => Math.min(least, delay), Number.POSITIVE_INFINITY),
    reset: () => {
      sender = null
      delays.length = 0
    },
  }
}

export interface AudioTrack {
  readonly observeVideo: (unit: AccessUnit) => void
  readonly push: (unit: AccessUnit) => void
  /**
   * Frames that begin before `end`, in 90 kHz ticks of the timeline. `offset`: timeline minus the video's own ticks; `from`:
   * nothing before it belongs to this run.
   */
  readonly take: (offset: number, from: number, end: number) => ReadonlyArray<AudioFrame>
  /** Another run begins: both clocks may start over. */
  readonly restart: () => void
  /** End of what was given out, 90 kHz ticks of the timeline. */
  readonly endTicks: () => number
  readonly heldBytes: () => number
}

export const makeAudioTrack = (sampleRate: number): AudioTrack => {
  const perVideoTick = sampleRate / videoClockHz
  const video = makeBase(videoClockHz / 1_000)
  const audio = makeBase(sampleRate / 1_000)
  let pending: Array<PendingFrame> = []
  let held = 0
  /** Timeline minus the audio's own ticks, in audio ticks; whole, so that frames stay exact. Null: not yet known. */
  let shift: number | null = null
  let lastTicks: number | null = null
  let lastTime = Number.NEGATIVE_INFINITY
  let end = 0

  /** Keeps, sets or corrects `shift`. */
  const align = (offset: number) => {
    const [videoSender, audioSender] = [video.sender(), audio.sender()]
    const bySender = videoSender !== null && audioSender !== null
    const skewMs = bySender ? audioSender - videoSender : audio.arrival() - video.arrival()
    const wanted = (skewMs * (videoClockHz / 1_000) + offset) * perVideoTick
    const tolerance = (bySender ? senderToleranceMs : arrivalToleranceMs) * sampleRate / 1_000
    if (shift === null || Math.abs(wanted - shift) > tolerance) shift = Math.round(wanted)
    return shift
  }

  const durationOf = (unit: PendingFrame, next: PendingFrame | undefined): number => {
    const gap = next === undefined ? 0 : next.ticks - unit.ticks
    return gap > 0 && gap < sampleRate * jumpSeconds ? gap : Math.max(unit.durationTicks, 1)
  }

  const restart = () => {
    video.reset()
    audio.reset()
    pending = []
    held = 0
    shift = null
    lastTicks = null
  }

  const push = (unit: AccessUnit) => {
    if (lastTicks !== null && Math.abs(unit.ticks - lastTicks) > sampleRate * jumpSeconds) {
      audio.reset()
      shift = null
      pending = []
      held = 0
    }
    lastTicks = unit.ticks
    audio.observe(unit)
    pending.push({ ticks: unit.ticks, durationTicks: unit.durationTicks, data: Buffer.from(unit.data) })
    held += unit.data.length
    if (pending.length > maxPendingFrames) held -= pending.shift()?.data.length ?? 0
  }

  const take = (offset: number, from: number, until: number): ReadonlyArray<AudioFrame> => {
    if (pending.length === 0) return []
    const by = align(offset)
    const frames: Array<AudioFrame> = []
    let used = 0
    for (const unit of pending) {
      const time = unit.ticks + by
      if (time >= until * perVideoTick) break
      const next = pending[++used]
      held -= unit.data.length
      if (time <= lastTime || time < from * perVideoTick) continue
      const duration = durationOf(unit, next)
      frames.push({ data: unit.data, time, duration })
      lastTime = time
      end = (time + duration) / perVideoTick
    }
    pending.splice(0, used)
    return frames
  }

  return {
    observeVideo: (unit) => video.observe(unit),
    push,
    take,
    restart,
    endTicks: () => Math.ceil(end),
    heldBytes: () => held,
  }
}
