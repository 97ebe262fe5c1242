/**
 * The hardware id of a node: each source hashed, so that the vendor can compare and nobody can read.
 *
 * Invariants
 * 1. A source's value leaves this file as a hash alone. Serial numbers and network addresses are easy to guess through, so the hash
 *    is a slow one (scrypt, 16 MiB, about 40 ms): a network card's 2^24 addresses cost a week of a core.
 * 2. The same machine gives the same id: sources stand in the order of `hardwareSources`, values of one sorted.
 */
import { HardwareFacts } from "#actors/protocol/license.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type HardwareSource, hardwareSources } from "#schema/license.ts"
import { Effect } from "effect"
import { scrypt } from "node:crypto"

/** Network interfaces that are named: the first by hash. Any one of them is enough to be recognised. */
const mostValues = 5
/** RFC 4648, section 6, in small letters. */
const alphabet = "abcdefghijklmnopqrstuvwxyz234567"

const base32 = (bytes: Uint8Array): string => {
  const bits = [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("")
  return (bits.match(/.{1,5}/g) ?? []).map((five) => alphabet[Number.parseInt(five.padEnd(5, "0"), 2)]).join("")
}

const stretched = (source: HardwareSource, value: string) =>
  Effect.callback<string>((resume) => {
    scrypt(value, `nightjar hardware v1/${source}`, 16, { N: 1 << 14, r: 8, p: 1 }, (error, key) => {
      resume(error === null ? Effect.succeed(base32(key)) : Effect.die(error))
    })
  })

/** Reads and hashes; a value that was hashed before is not hashed again. */
export const makeHardware = Effect.gen(function*() {
  const facts = yield* HardwareFacts
  const { nodeId } = yield* NodeIdentity
  const known = new Map<string, string>()
  const hashed = Effect.fnUntraced(function*(source: HardwareSource, value: string) {
    const name = `${source}\0${value}`
    const before = known.get(name)
    if (before !== undefined) return before
    const hash = yield* stretched(source, value)
    known.set(name, hash)
    return hash
  })
  return Effect.gen(function*() {
    const read = yield* facts.read
    const sources = [...read, { name: "node" as const, values: [nodeId], detail: "1 value" }]
    const parts = yield* Effect.forEach(
      Object.keys(hardwareSources) as ReadonlyArray<HardwareSource>,
      (name) =>
        Effect.gen(function*() {
          const values = sources.find((source) => source.name === name)?.values ?? []
          const hashes = yield* Effect.forEach(values, (value) => hashed(name, value))
          return hashes.length === 0 ? [] : [
            `${hardwareSources[name]}:${hashes.toSorted().slice(0, mostValues).join("+")}`,
          ]
        }),
    )
    return {
      hardwareId: ["nj1", ...parts.flat()].join("."),
      sources: sources.map(({ detail, name, values }) => ({ name, available: values.length > 0, detail })),
      named: parts.flat().length,
    }
  })
})
