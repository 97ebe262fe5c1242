/** Keeps what was used last, up to a sum of sizes. */

export interface Lru<A> {
  readonly get: (key: string) => A | undefined
  readonly set: (key: string, value: A) => void
}

/** `sizeOf` in the unit of `most`. A value larger than `most` is not kept. */
export const makeLru = <A>(most: number, sizeOf: (value: A) => number): Lru<A> => {
  const values = new Map<string, A>()
  let total = 0
  const drop = (key: string) => {
    const value = values.get(key)
    if (value === undefined) return
    values.delete(key)
    total -= sizeOf(value)
  }
  return {
    get: (key) => {
      const value = values.get(key)
      if (value === undefined) return undefined
      values.delete(key)
      values.set(key, value)
      return value
    },
    set: (key, value) => {
      drop(key)
      values.set(key, value)
      total += sizeOf(value)
      for (const oldest of values.keys()) {
        if (total <= most) return
        drop(oldest)
      }
    },
  }
}
