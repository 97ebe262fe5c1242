/** Randomness that is the same on every machine: a failure names its seed. */

/** Mulberry32; gives integers from 0 up to, but not including, `below`. */
export const random = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (state + 0x6d2b_79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) % below
  }
}
