/**
 * Recorded moments on a player's own clock (RFC 2326, appendix B; ONVIF Streaming Specification, section 6.6).
 *
 * Invariants
 * 1. Paced: what is walked without a break is one straight line, so that neither milliseconds of the index nor gaps show in it; gaps take
 *    no time; backwards the line runs the other way.
 * 2. Not paced: seconds since the beginning of the interval, as they were recorded; forwards never less than before.
 */
import { videoClockHz } from "#schema/media.ts"
import type { Step } from "./walk.ts"

/** What is sent at once at the beginning, so that a picture is there before the first second is over. */
export const leadMs = 1_000

/**
 * How long before its moment a picture is sent that so much of the line follows, milliseconds. The end comes twice as fast, a second earlier:
 * players work out from the pictures' times and a Range when they have all, and GStreamer (`rtpjitterbuffer`, `on-npt-stop`) hands on
 * nothing of what comes later, which on a machine that stands still for a moment would be the last pictures.
 */
export const leadAt = (leftSeconds: number): number => leadMs + Math.max(0, leadMs - leftSeconds * 500)

export interface TimelineOptions {
  readonly paced: boolean
  readonly backwards: boolean
  /** At least 1. */
  readonly speed: number
  /** Beginning of the interval, epoch milliseconds. */
  readonly originMs: number
}

export class ReplayTimeline {
  private readonly options: TimelineOptions
  /** A moment of the footage, seconds, and where it is on the line. */
  private anchor: { readonly footage: number; readonly line: number } | null = null
  /** Behind everything so far. */
  private end = 0

  constructor(options: TimelineOptions) {
    this.options = options
  }

  /** Seconds behind the last picture. */
  get endSeconds(): number {
    return this.end
  }

  /** Before the units of a step; `broken`: see `Step`. */
  enter({ broken, from, table, to }: Step): void {
    const { backwards, originMs, paced } = this.options
    if (paced) {
      if (this.anchor !== null && !broken) return
      const ticks = backwards ? table.endTicks(to - 1) : table.decodeTicks(from)
      this.anchor = { footage: ticks / videoClockHz, line: this.end }
    } else if (this.anchor === null || broken || backwards) {
      const recorded = (table.startMs(from) - originMs) / 1000
      // Clocks of two nodes differ a little: what is sent later is not earlier.
      const line = backwards ? recorded : Math.max(recorded, this.end)
      this.anchor = { footage: table.decodeTicks(from) / videoClockHz, line }
    }
  }

  /** Where a moment of the footage is, in seconds. */
  at(footageSeconds: number): number {
    const { footage, line } = this.anchor ?? { footage: footageSeconds, line: this.end }
    const { backwards, paced, speed } = this.options
    return paced ?
      line + (backwards ? footage - footageSeconds : footageSeconds - footage) / speed :
      line + footageSeconds - footage
  }

  /** So far the line is used up. */
  passed(seconds: number): void {
    this.end = Math.max(this.end, seconds)
  }
}
