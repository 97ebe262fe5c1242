/**
 * How a camera is held in motion from a page: by keys, by a pad, by a gamepad.
 *
 * Invariants
 * 1. One command is on its way at a time; of the wishes that come meanwhile the last one counts.
 * 2. A move is repeated every {@link repeatMs} and told to end after {@link moveMs}: it ends by itself when this page does.
 * 3. What was set in motion is stopped once nobody wishes it any more, after the move that is on its way.
 */

export interface Velocity {
  /** Each from -1 to 1. */
  readonly pan: number
  readonly tilt: number
  readonly zoom: number
}

/** A command took that long and more to come to the camera before it was late. */
const repeatMs = 500
/** Two repetitions may be lost. */
export const moveMs = 1500

/** What is moved, by wishes of one kind: a {@link Velocity}, the speed of a focus. */
interface Moved<W> {
  readonly move: (wish: W, timeoutMs: number) => Promise<unknown>
  readonly stop: () => Promise<unknown>
  readonly onError: (error: unknown) => void
}

const same = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)

export class Motion<W> {
  readonly #moved: Moved<W>
  #wanted: W | null = null
  /** Told to the camera last; null: it stands, as far as we know. */
  #told: W | null = null
  #busy = false
  #timer: ReturnType<typeof setTimeout> | undefined = undefined

  constructor(moved: Moved<W>) {
    this.#moved = moved
  }

  /** Null: stand still. */
  want(wish: W | null): void {
    if (same(wish, this.#wanted)) return
    this.#wanted = wish
    this.#next()
  }

  #next(): void {
    if (this.#busy) return
    globalThis.clearTimeout(this.#timer)
    const wanted = this.#wanted
    if (wanted === null && this.#told === null) return
    this.#busy = true
    this.#told = wanted
    const asked = wanted === null ? this.#moved.stop() : this.#moved.move(wanted, moveMs)
    asked.then(() => {
      this.#busy = false
      if (!same(this.#wanted, wanted)) this.#next()
      else if (wanted !== null) this.#timer = globalThis.setTimeout(() => this.#next(), repeatMs)
    }, (error: unknown) => {
      this.#busy = false
      // Whoever was refused is not heard again until he lets go and presses anew.
      this.#wanted = null
      this.#told = null
      this.#moved.onError(error)
    })
  }
}

/** Sticks never rest at zero. */
const deadZone = 0.15

/** What a stick tells beyond its dead zone, from -1 to 1. */
const beyond = (value: number): number => {
  const size = Math.abs(value)
  return size < deadZone ? 0 : Math.sign(value) * Math.min(1, (size - deadZone) / (1 - deadZone))
}

/** Two digits, so that a trembling hand is not a new command. */
const rounded = (value: number): number => Math.round(value * 20) / 20 + 0

/**
 * Of a gamepad with the standard mapping: the left stick turns, the right stick up and down zooms. Null: at rest.
 * `speed`: the greatest, from 0 to 1.
 */
export const velocityOf = (axes: ReadonlyArray<number>, speed: number): Velocity | null => {
  const at = (axis: number) => rounded(beyond(axes[axis] ?? 0) * speed)
  const velocity = { pan: at(0), tilt: at(1) === 0 ? 0 : -at(1), zoom: at(3) === 0 ? 0 : -at(3) }
  return velocity.pan === 0 && velocity.tilt === 0 && velocity.zoom === 0 ? null : velocity
}

const keys: Readonly<Record<string, Partial<Velocity>>> = {
  ArrowLeft: { pan: -1 },
  ArrowRight: { pan: 1 },
  ArrowUp: { tilt: 1 },
  ArrowDown: { tilt: -1 },
  "+": { zoom: 1 },
  "=": { zoom: 1 },
  "-": { zoom: -1 },
}

export const isMoveKey = (key: string): boolean => key in keys

/** Of the keys that are held down; opposite ones rest. */
export const velocityOfKeys = (held: Iterable<string>, speed: number): Velocity | null => {
  const sum = { pan: 0, tilt: 0, zoom: 0 }
  for (const key of held) {
    for (const axis of ["pan", "tilt", "zoom"] as const) sum[axis] += keys[key]?.[axis] ?? 0
  }
  const at = (value: number) => Math.sign(value) * speed + 0
  const velocity = { pan: at(sum.pan), tilt: at(sum.tilt), zoom: at(sum.zoom) }
  return velocity.pan === 0 && velocity.tilt === 0 && velocity.zoom === 0 ? null : velocity
}
