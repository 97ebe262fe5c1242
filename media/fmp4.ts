/**
 * The door to fragmented MP4 (ISO/IEC 14496-12): what capture, storage and replay need of the format. Rooms: `media/fmp4/`.
 *
 * Invariants
 * 1. Equal track parameters give equal initialisation bytes: two files play as one stream when their `init` bytes are equal.
 * 2. A fragment is independent of its file and of its position in it: offsets are relative to its own `moof`.
 * 3. Decode times never go back within a builder; video decode time equals the earliest presentation time of what follows
 *    (composition offsets may be negative), so a fragment's decode interval is also its presentation interval.
 * 4. What is pushed is copied, once, into memory that goes from builder to disk and back (`fragment-memory.ts`).
 * 5. Every fragment carries its own index line (see `fragment-box.ts`), every file its identity (`identity-box.ts`).
 */
import type { EpochMs } from "#schema/common.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import type { Fragment } from "./storage.ts"

export { makeFragmentBuilder } from "./fmp4/builder.ts"
export { moveFragment } from "./fmp4/fragment-move.ts"
export { readInit } from "./fmp4/init-reader.ts"
export { initSegment } from "./fmp4/init-writer.ts"

export interface FragmentBuilderOptions {
  readonly parameters: TrackParameters
  /** Video decode time of the first picture, 90 kHz: `nextDecodeTicks` of the builder before within one epoch, else 0. */
  readonly decodeTicks: number
  /**
   * Wall clock of a moment on the video's own clock (`AccessUnit.ticks`, presentation), milliseconds. Asked once for each
   * fragment border, with rising ticks, after the unit that made the border was pushed. What it answers for the border is the
   * end of one fragment and the start of the next, so that they meet; an answer that goes back is raised to the one before.
   */
  readonly wallMs: (videoTicks: number) => EpochMs
  /** Called inside `push`, `discontinuity` or `flush`, in order. */
  readonly onFragment: (fragment: Fragment) => void
  /** Longest fragment in 90 kHz ticks; 90 000 (one second) if left out. */
  readonly maxFragmentTicks?: number
}

/** Access units in, fragments out. One builder serves one run of one set of parameters; it may span several files. */
export interface FragmentBuilder {
  /**
   * Takes the next unit in stream order. Everything before the first key picture is dropped, audio included. A picture's
   * length is known with the next one, so a fragment comes out one picture late (and as many more as the stream reorders).
   */
  readonly push: (unit: AccessUnit) => void
  /**
   * What follows does not continue what was pushed (a gap, another connection, a step of the wall clock): gives out what is
   * pending; the next fragment is marked `discontinuity`, and `wallMs` is asked anew for its start. Media ticks may start
   * over. Does not wait for a key picture by itself.
   */
  readonly discontinuity: () => void
  /** Gives out what is pending; the last picture lasts as long as the one before it. Ends the run. */
  readonly flush: () => void
  /** Where the next builder of the same epoch has to start so that decode time runs on. Exact after `flush`. */
  readonly nextDecodeTicks: () => number
  /** Bytes held back: units pushed and not yet given out. */
  readonly pendingBytes: () => number
}
