/**
 * One timer for all connections that read at intervals: packets that arrive one by one are then read some dozen at once,
 * which is most of what receiving costs.
 *
 * Invariants
 * 1. There is one timer for each clock and interval, while at least one connection uses it.
 * 2. A connection that asked reads at the next tick, once.
 */
import { Clock, Effect, Fiber, type Scope } from "effect"

export interface Drain {
  /** Calls `read` at the next tick. */
  readonly wait: (read: () => void) => void
}

interface Shared extends Drain {
  users: number
  fiber: Fiber.Fiber<never> | null
}

const shared = new WeakMap<Clock.Clock, Map<number, Shared>>()

const make = (everyMs: number) => {
  let waiting: Array<() => void> = []
  const tick = Effect.sync(() => {
    const due = waiting
    waiting = []
    for (const read of due) read()
  })
  return {
    wait: (read: () => void) => {
      waiting.push(read)
    },
    loop: Effect.sleep(everyMs).pipe(Effect.andThen(tick), Effect.forever),
  }
}

/** The timer of this interval, in milliseconds, for as long as the scope is open. */
export const drainEvery = (everyMs: number): Effect.Effect<Drain, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.gen(function*() {
      const clock = yield* Clock.Clock
      const ofClock = shared.get(clock) ?? new Map<number, Shared>()
      shared.set(clock, ofClock)
      const running = ofClock.get(everyMs)
      if (running !== undefined) {
        running.users++
        return { ofClock, drain: running }
      }
      const { loop, wait } = make(everyMs)
      const drain: Shared = { wait, users: 1, fiber: null }
      ofClock.set(everyMs, drain)
      drain.fiber = yield* Effect.forkDetach(Effect.interruptible(loop))
      return { ofClock, drain }
    }),
    ({ drain, ofClock }) => {
      if (--drain.users > 0 || drain.fiber === null) return Effect.void
      ofClock.delete(everyMs)
      return Fiber.interrupt(drain.fiber)
    },
  ).pipe(Effect.map(({ drain }) => drain))
