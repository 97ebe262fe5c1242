/**
 * Times in which this process stood still: stopped by the system, starved, or busy with one thing for seconds. What cameras sent
 * meanwhile is missing, and connections break on waking, by no fault of theirs.
 *
 * Invariants
 * 1. Measured by the monotonic clock between two beats; a step of the wall clock is none.
 * 2. It is noticed by whoever asks first after waking, though the beat itself may be late.
 * 3. Only a gap that began in it, or in what was not given out yet when it began, is put down to it; the disk's and a person's are not.
 */
import type { EpochMs, Interval } from "#schema/common.ts"
import type { GapCause } from "#schema/record.ts"
import type { Hole } from "./intake.ts"

/** Several beats were left out. */
const standstillMs = 3_000
/** A group of pictures of which not all had come. */
const unfinishedMs = 2_000
/** So long after waking broken connections are noticed. */
const wakingMs = 5_000

/** What is said of cameras, where they were not listened to. */
const misled: ReadonlySet<GapCause> = new Set(["camera_offline", "camera_frozen", "publisher_away", "packet_loss"])

export interface Standstill {
  /** Once a second. Answers the standstill that this beat ends, milliseconds. */
  readonly beat: () => number | null
  /** The newest one, on the wall clock. */
  readonly newest: () => Interval | null
}

export const makeStandstill = (
  clock: { readonly wallMs: () => EpochMs; readonly monotonicMs: () => number },
): Standstill => {
  let beatMs = clock.monotonicMs()
  let newest: Interval | null = null
  const stoodMs = (): number => {
    const stood = clock.monotonicMs() - beatMs
    if (stood < standstillMs) return 0
    const end = clock.wallMs()
    newest = { start: end - stood, end }
    return stood
  }
  return {
    beat: () => {
      const stood = stoodMs()
      beatMs = clock.monotonicMs()
      return stood === 0 ? null : stood
    },
    newest: () => {
      stoodMs()
      return newest
    },
  }
}

const standstillHole = ({ end, start }: Interval): Hole => ({
  cause: "node_down",
  detail: `this node stood still for ${Math.round((end - start) / 1_000)} s`,
})

/** What a hole that begins at `fromMs` is put down to. */
export const causeOfHole = (hole: Hole, fromMs: EpochMs, stood: Interval | null): Hole =>
  stood !== null && misled.has(hole.cause) && fromMs >= stood.start - unfinishedMs && fromMs < stood.end ?
    standstillHole(stood) :
    hole

/** Whether the gap that is open says already what a connection that breaks on waking would say again. */
export const isWaking = (hole: Hole, fromMs: EpochMs, stood: Interval | null, nowMs: EpochMs): boolean =>
  stood !== null && nowMs < stood.end + wakingMs && causeOfHole(hole, fromMs, stood) !== hole
