/** UUIDv7 (RFC 9562, section 5.7) from Effect's clock and randomness, so that tests make the same ones from a seed. */
import { Clock, Effect, Random } from "effect"

/** The same without an effect, for callbacks: `ms` is the time, `word` answers 16 random bits each time. */
export const uuid7From = (ms: number, word: () => number): string => {
  const hex = (n: number, width: number) => n.toString(16).padStart(width, "0")
  const time = hex(ms, 12)
  const [a, b, c, d, e] = [word(), word(), word(), word(), word()]
  const variant = 0x8000 | (b & 0x3fff)
  return `${time.slice(0, 8)}-${time.slice(8)}-7${hex(a & 0xfff, 3)}-${hex(variant, 4)}-${hex(c, 4)}${hex(d, 4)}${
    hex(e, 4)
  }`
}

/** When a UUIDv7 was made, epoch milliseconds. */
export const uuid7Time = (id: string): number => Number.parseInt(id.slice(0, 8) + id.slice(9, 13), 16)

/** 48 bits of milliseconds, 74 bits of randomness; sorts by the time it was made. */
export const uuid7: Effect.Effect<string> = Effect.gen(function*() {
  const ms = yield* Clock.currentTimeMillis
  const words: Array<number> = []
  for (let i = 0; i < 5; i++) words.push(yield* Random.nextIntBetween(0, 0xffff))
  let next = 0
  return uuid7From(ms, () => words[next++] ?? 0)
})
