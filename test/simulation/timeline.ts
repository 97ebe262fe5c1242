/**
 * Virtual time: a heap of things to do, by time and then by order of arrival.
 *
 * Invariants
 * 1. Nothing runs but from here, so a run is a function of its seed.
 */
export interface Timeline {
  readonly now: () => number
  /** `delay` in milliseconds, at least 0. */
  readonly after: (delay: number, run: () => void) => void
  readonly runUntil: (end: number) => void
  readonly events: () => number
}

export const timeline = (): Timeline => {
  const times: Array<number> = []
  const orders: Array<number> = []
  const runs: Array<() => void> = []
  let now = 0
  let order = 0
  let events = 0
  const before = (a: number, b: number): boolean => {
    const earlier = times[a]! - times[b]!
    return earlier < 0 || (earlier === 0 && orders[a]! < orders[b]!)
  }
  const swap = (a: number, b: number): void => {
    const time = times[a]!
    const seq = orders[a]!
    const run = runs[a]!
    times[a] = times[b]!
    orders[a] = orders[b]!
    runs[a] = runs[b]!
    times[b] = time
    orders[b] = seq
    runs[b] = run
  }
  const pop = (): () => void => {
    const run = runs[0]!
    const last = times.length - 1
    swap(0, last)
    times.pop()
    orders.pop()
    runs.pop()
    for (let n = 0;;) {
      const left = 2 * n + 1
      if (left >= last) return run
      const least = left + 1 < last && before(left + 1, left) ? left + 1 : left
      if (!before(least, n)) return run
      swap(least, n)
      n = least
    }
  }
  return {
    now: () => now,
    after: (delay, run) => {
      times.push(now + Math.max(0, Math.round(delay)))
      orders.push(order++)
      runs.push(run)
      for (let n = times.length - 1; n > 0;) {
        const parent = (n - 1) >> 1
        if (!before(n, parent)) return
        swap(n, parent)
        n = parent
      }
    },
    runUntil: (end) => {
      while (times.length > 0 && times[0]! <= end) {
        now = times[0]!
        events++
        pop()()
      }
      now = end
    },
    events: () => events,
  }
}
