/** The committed corpus of this floor's parsers, and bytes derived from it. */
import { readdirSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { random } from "./random.ts"

export interface Seed {
  readonly name: string
  readonly bytes: Buffer
}

export const corpus = (parser: string): ReadonlyArray<Seed> => {
  const folder = fileURLToPath(new URL(`../fixtures/fuzz/${parser}/`, import.meta.url))
  return readdirSync(folder).map((name) => ({ name, bytes: readFileSync(folder + name) }))
}

const telling = [0x00, 0x01, 0x03, 0x0a, 0x0d, 0x22, 0x24, 0x2c, 0x3a, 0x3b, 0x3d, 0x7f, 0x80, 0xc0, 0xff]

/** One to six changes: bits, telling bytes, cuts, repetitions, pieces of another seed. */
export const mutate = (seed: Buffer, other: Buffer, next: (below: number) => number): Buffer => {
  let out = Buffer.from(seed)
  for (let times = 1 + next(6); times > 0 && out.length > 0; times--) {
    const at = next(out.length)
    const length = 1 + next(Math.min(64, out.length - at))
    switch (next(7)) {
      case 0:
        out[at]! ^= 1 << next(8)
        break
      case 1:
        out[at] = telling[next(telling.length)]!
        break
      case 2:
        out = out.subarray(0, at)
        break
      case 3:
        out = Buffer.concat([out.subarray(0, at), out.subarray(at + length)])
        break
      case 4:
        out = Buffer.concat([out.subarray(0, at + length), out.subarray(at)])
        break
      case 5: {
        const from = next(other.length)
        out = Buffer.concat([out.subarray(0, at), other.subarray(from, from + 200), out.subarray(at)])
        break
      }
      default:
        out = Buffer.concat([
          out.subarray(0, at),
          Buffer.from(Array.from({ length }, () => next(256))),
          out.subarray(at),
        ])
    }
  }
  return out
}

/** Runs `check` on every seed and on `times` bytes derived from each; a failure names seed and round. */
export const everyMutation = (parser: string, times: number, check: (bytes: Buffer) => void): void => {
  const seeds = corpus(parser)
  for (const [index, { bytes, name }] of seeds.entries()) {
    for (let round = 0; round <= times; round++) {
      const next = random(index * 100_003 + round)
      const input = round === 0 ? bytes : mutate(bytes, seeds[next(seeds.length)]!.bytes, next)
      try {
        check(input)
      } catch (error) {
        throw new Error(`${parser}/${name}, round ${round}: ${input.toString("base64").slice(0, 2000)}`, {
          cause: error,
        })
      }
    }
  }
}
