/**
 * One stream's hub (the door: `media/hub.ts`): what comes in is handed to every viewer at once.
 *
 * Invariants
 * 1. The newest group of pictures is kept for whoever comes, in memory that the next group uses again: at most `maxGroupBytes`
 *    and `maxGroupUnits`, else none of it (half a group is of no use).
 * 2. What a viewer gets are copies that all viewers share and may keep.
 * 3. A viewer's queue holds at most its own bounds. On overflow everything in it is dropped, and what follows up to the next
 *    key picture too.
 */
import type { LiveBounds, LiveItem, LiveView } from "#media/hub.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { Effect, Latch } from "effect"

/** Ten seconds of 12 Mbit/s. */
const maxGroupBytes = 16 * 1024 * 1024
const maxGroupUnits = 2_000
const growthBytes = 256 * 1024

export interface StreamHub {
  readonly parameters: (parameters: TrackParameters) => void
  readonly unit: (unit: AccessUnit) => void
  /** The connection is over. */
  readonly end: () => void
  readonly viewers: () => number
  /** Newest parameters, kept when the connection is over. */
  readonly newestParameters: () => TrackParameters | null
  /** `onViewers` is told when the first comes and the last goes. */
  readonly join: (bounds: LiveBounds) => { readonly view: LiveView; readonly leave: () => void }
}

interface Seat {
  readonly item: (item: LiveItem) => void
}

const makeSeat = (
  bounds: LiveBounds,
  group: ReadonlyArray<LiveItem>,
): { readonly seat: Seat; readonly view: LiveView } => {
  let waiting: Array<LiveItem> = []
  let bytes = 0
  let dropped = 0
  let skipping = false
  const wake = Latch.makeUnsafe(false)
  const drop = () => {
    // Parameters outlive what they were for: the next group needs them as well.
    const parameters = waiting.findLast((item) => item._tag === "Parameters")
    dropped += waiting.filter((item) => item._tag === "Unit").length
    waiting = parameters === undefined ? [{ _tag: "Break" }] : [parameters, { _tag: "Break" }]
    bytes = 0
    skipping = true
  }
  const item = (next: LiveItem) => {
    const size = next._tag === "Unit" ? next.unit.data.length : 0
    const begins = next._tag === "Unit" && next.unit.track === "video" && next.unit.key
    const room = () => waiting.length < bounds.maxItems && bytes + size <= bounds.maxBytes
    if (!skipping && !room()) drop()
    // After a drop only a key picture goes on, and not one that is too much by itself.
    if (next._tag === "Unit" && ((skipping && !begins) || !room())) {
      dropped++
      skipping = true
      return
    }
    if (begins) skipping = false
    waiting.push(next)
    bytes += size
    wake.openUnsafe()
  }
  for (const first of group) item(first)
  return {
    seat: { item },
    view: {
      dropped: () => dropped,
      take: Effect.gen(function*() {
        while (waiting.length === 0) {
          wake.closeUnsafe()
          yield* wake.await
        }
        const taken = waiting
        waiting = []
        bytes = 0
        return taken
      }),
    },
  }
}

const copyOf = (unit: AccessUnit): AccessUnit => ({ ...unit, data: Uint8Array.from(unit.data) })

/** The newest group of pictures. */
class Group {
  private bytes: Buffer = Buffer.alloc(0)
  private end = 0
  /** Units whose bytes stand in `bytes`, one behind the other. */
  private members: Array<AccessUnit> = []
  private whole = false

  get units(): ReadonlyArray<AccessUnit> {
    return this.members.map(copyOf)
  }

  forget(): void {
    this.restart(false)
  }

  add(unit: AccessUnit): void {
    if (unit.track === "video" && unit.key) this.restart(true)
    if (!this.whole) return
    const end = this.end + unit.data.length
    if (end > maxGroupBytes || this.members.length === maxGroupUnits) return this.forget()
    if (end > this.bytes.length) this.grow(end)
    this.bytes.set(unit.data, this.end)
    this.members.push({ ...unit, data: this.bytes.subarray(this.end, end) })
    this.end = end
  }

  private restart(whole: boolean): void {
    this.members = []
    this.end = 0
    this.whole = whole
  }

  /** The units so far keep their views of the old memory, which goes when the group does. */
  private grow(needed: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.min(needed + growthBytes, maxGroupBytes))
    this.bytes.copy(larger, 0, 0, this.end)
    this.bytes = larger
  }
}

export const makeStreamHub = (onViewers: () => void): StreamHub => {
  const seats = new Set<Seat>()
  const group = new Group()
  let parameters: TrackParameters | null = null

  const tell = (item: LiveItem) => {
    for (const seat of seats) seat.item(item)
  }
  return {
    viewers: () => seats.size,
    newestParameters: () => parameters,
    parameters: (next) => {
      parameters = next
      group.forget()
      if (seats.size > 0) tell({ _tag: "Parameters", parameters: next })
    },
    unit: (unit) => {
      group.add(unit)
      if (seats.size > 0) tell({ _tag: "Unit", unit: copyOf(unit) })
    },
    end: () => {
      group.forget()
      tell({ _tag: "Break" })
    },
    join: (bounds) => {
      const known: Array<LiveItem> = parameters === null ? [] : [{ _tag: "Parameters", parameters }]
      const { seat, view } = makeSeat(bounds, [
        ...known,
        ...group.units.map((unit): LiveItem => ({ _tag: "Unit", unit })),
      ])
      seats.add(seat)
      if (seats.size === 1) onViewers()
      return {
        view,
        leave: () => {
          if (seats.delete(seat) && seats.size === 0) onViewers()
        },
      }
    },
  }
}
