/** Memory with a bound: what was used longest ago leaves when the weight of all exceeds it. */

export interface Lru<V> {
  readonly get: (key: string) => V | undefined
  readonly set: (key: string, value: V) => void
}

/** `limit` is in the unit of `weigh`; a value heavier than the limit is not kept. */
export const makeLru = <V>(limit: number, weigh: (value: V) => number): Lru<V> => {
  const kept = new Map<string, V>()
  let weight = 0
  const drop = (key: string) => {
    const value = kept.get(key)
    if (value === undefined) return
    kept.delete(key)
    weight -= weigh(value)
  }
  return {
    get: (key) => {
      const value = kept.get(key)
      if (value !== undefined) {
        kept.delete(key)
        kept.set(key, value)
      }
      return value
    },
    set: (key, value) => {
      drop(key)
      if (weigh(value) > limit) return
      kept.set(key, value)
      weight += weigh(value)
      for (const oldest of kept.keys()) {
        if (weight <= limit) break
        drop(oldest)
      }
    },
  }
}
