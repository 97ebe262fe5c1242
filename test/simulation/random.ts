/** Chance from a seed: the same seed gives the same run, on any machine. */
export interface Chance {
  /** In [0, 1). */
  readonly unit: () => number
  /** An integer in [low, high]. */
  readonly int: (low: number, high: number) => number
  readonly chance: (probability: number) => boolean
  readonly pick: <A>(of: ReadonlyArray<A>) => A
  /** Between low and high, small ones as often as large ones. */
  readonly spread: (low: number, high: number) => number
}

/** Mulberry32: 32 bits of state, which is plenty for one run. */
export const chanceOf = (seed: number): Chance => {
  let a = (seed * 2_654_435_761) >>> 0
  const unit = (): number => {
    a = (a + 0x6d2b79f5) >>> 0
    let t = a
    t = Math.imul(t ^ (t >>> 15), t | 1)
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61)
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296
  }
  for (let n = 0; n < 4; n++) unit()
  return {
    unit,
    int: (low, high) => low + Math.floor(unit() * (high - low + 1)),
    chance: (probability) => unit() < probability,
    pick: (of) => of[Math.floor(unit() * of.length)]!,
    spread: (low, high) => Math.round(low * (high / low) ** unit()),
  }
}
