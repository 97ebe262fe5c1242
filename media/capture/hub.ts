/**
 * One stream's hub (the door: `media/hub.ts`): what comes in is handed to every consumer at once, by reference.
 *
 * Invariants
 * 1. Without viewers a unit costs one array push; the newest group of pictures is kept for whoever comes: at most
 *    `maxGroupBytes` and `maxGroupUnits`, else none of it (half a group is of no use).
 * 2. A viewer's queue holds at most its own bounds. On overflow everything in it is dropped, and what follows up to the next
 *    key picture too.
 */
import type { LiveBounds, LiveItem, LiveView } from "#media/hub.ts"
import type { AccessUnit, TrackParameters } from "#schema/media.ts"
import { Effect, Latch } from "effect"

/** Ten seconds of 12 Mbit/s. */
const maxGroupBytes = 16 * 1024 * 1024
const maxGroupUnits = 2_000

export interface StreamHub {
  readonly parameters: (parameters: TrackParameters) => void
  readonly unit: (unit: AccessUnit) => void
  /** The connection is over. */
  readonly end: () => void
  readonly viewers: () => number
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

export const makeStreamHub = (onViewers: () => void): StreamHub => {
  const seats = new Set<Seat>()
  let parameters: TrackParameters | null = null
  let group: Array<AccessUnit> = []
  let groupBytes = 0
  let whole = false

  const startGroup = (live: boolean) => {
    group = []
    groupBytes = 0
    whole = live
  }
  const remember = (unit: AccessUnit) => {
    if (unit.track === "video" && unit.key) startGroup(true)
    if (!whole) return
    group.push(unit)
    groupBytes += unit.data.length
    if (groupBytes > maxGroupBytes || group.length > maxGroupUnits) startGroup(false)
  }
  const tell = (item: LiveItem) => {
    for (const seat of seats) seat.item(item)
  }
  return {
    viewers: () => seats.size,
    parameters: (next) => {
      parameters = next
      startGroup(false)
      if (seats.size > 0) tell({ _tag: "Parameters", parameters: next })
    },
    unit: (unit) => {
      remember(unit)
      if (seats.size > 0) tell({ _tag: "Unit", unit })
    },
    end: () => {
      startGroup(false)
      tell({ _tag: "Break" })
    },
    join: (bounds) => {
      const known: Array<LiveItem> = parameters === null ? [] : [{ _tag: "Parameters", parameters }]
      const { seat, view } = makeSeat(bounds, [...known, ...group.map((unit): LiveItem => ({ _tag: "Unit", unit }))])
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
