/**
 * One track of a mount in time: which unit is due when, its number, its RTP timestamp.
 *
 * Invariants
 * 1. Unit numbers follow the clock, whether anybody watches or not, and never start again.
 * 2. Footage changes only before a key frame of the new footage; numbers and timestamps run on.
 * 3. A late timer sends what is due, so nothing is lost, up to `CATCH_UP_MS`; a longer sleep is left out.
 */
import type { Template } from "./packets.ts"

const CATCH_UP_MS = 5_000

export interface Source {
  readonly templates: ReadonlyArray<Template>
  readonly ticksPerUnit: number
  readonly clockRate: number
}

/** Epoch milliseconds with a fraction, free of clock steps. */
export const wallNow = (): number => performance.timeOrigin + performance.now()

export class Feed {
  #source: Source
  #pending: Source | null = null
  #anchorMs: number
  #anchorUnit = 0
  #anchorTicks: number
  #jumpTicks = 0
  #next = 0
  #timer: NodeJS.Timeout | null = null
  readonly #emit: (unit: number, template: Template, ticks: number) => void

  constructor(
    source: Source,
    startMs: number,
    firstTicks: number,
    emit: (unit: number, template: Template, ticks: number) => void,
  ) {
    this.#source = source
    this.#anchorMs = startMs
    this.#anchorTicks = firstTicks
    this.#emit = emit
  }

  get clockRate(): number {
    return this.#source.clockRate
  }

  get unitMs(): number {
    return (this.#source.ticksPerUnit * 1000) / this.#source.clockRate
  }

  /** RTP timestamp, not wrapped, at a moment of the wall clock. */
  ticksAt(wallMs: number): number {
    return Math.max(
      0,
      Math.round(this.#anchorTicks + ((wallMs - this.#anchorMs) * this.#source.clockRate) / 1000) + this.#jumpTicks,
    )
  }

  /** RTP timestamp of the unit that is sent next. */
  nextTicks(): number {
    return this.#ticksOf(this.#next)
  }

  start(): void {
    if (this.#timer !== null) return
    this.#next = Math.max(this.#next, this.#unitAt(wallNow()))
    this.#arm()
  }

  stop(): void {
    if (this.#timer !== null) clearTimeout(this.#timer)
    this.#timer = null
  }

  jump(seconds: number): void {
    this.#jumpTicks += Math.round(seconds * this.#source.clockRate)
  }

  /** Goes over to other footage at once, which begins with a key frame. */
  replace(source: Source): void {
    this.#pending = source
  }

  #unitAt(wallMs: number): number {
    return this.#anchorUnit + Math.max(0, Math.ceil((wallMs - this.#anchorMs) / this.unitMs))
  }

  #dueMs(unit: number): number {
    return this.#anchorMs + (unit - this.#anchorUnit) * this.unitMs
  }

  #ticksOf(unit: number): number {
    return this.#anchorTicks + (unit - this.#anchorUnit) * this.#source.ticksPerUnit + this.#jumpTicks
  }

  #arm(): void {
    this.#timer = setTimeout(() => this.#tick(), Math.max(0, this.#dueMs(this.#next) - wallNow()))
  }

  #tick(): void {
    const now = wallNow()
    if (now - this.#dueMs(this.#next) > CATCH_UP_MS) this.#next = this.#unitAt(now)
    while (this.#dueMs(this.#next) <= now) {
      if (this.#pending !== null) this.#change(this.#pending)
      const unit = this.#next++
      const { templates, ticksPerUnit } = this.#source
      const template = templates[this.#indexOf(unit)]!
      this.#emit(unit, template, this.#ticksOf(unit) + template.delay * ticksPerUnit)
    }
    this.#arm()
  }

  #change(source: Source): void {
    const unit = this.#next
    const ticks = this.#ticksOf(unit) - this.#jumpTicks
    this.#anchorMs = this.#dueMs(unit)
    this.#anchorTicks = ticks
    this.#anchorUnit = unit
    this.#source = source
    this.#pending = null
  }

  #indexOf(unit: number): number {
    return (unit - this.#anchorUnit) % this.#source.templates.length
  }
}
