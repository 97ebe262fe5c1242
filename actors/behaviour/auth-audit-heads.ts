/**
 * Signed heads of the audit chain, kept outside of the database: what shows that its newest entries were taken away, or all of
 * it written anew.
 *
 *     <dataDir>/audit-heads.jsonl     a line: {"head": "<JWS, RFC 7515, EdDSA by the key of this node>"}
 *     payload                         { nodeId, sequence, hash, time }
 *
 * Invariants
 * 1. A head is signed by this node only after this node has followed the chain to it from the head that it signed before.
 * 2. The file stays below {@link maxHeadBytes}: beyond, every second one of the older heads goes. The oldest and the newest
 *    1,000 stay. A head vouches for all before it, so thinning costs only how closely a rewritten end is located.
 */
import type { NodeIdentity } from "#cluster/identity.ts"
import { NodeId } from "#schema/common.ts"
import { Clock, Effect, FileSystem, Option, type PlatformError, Schema } from "effect"
import { CompactSign, compactVerify } from "jose"
import { createPublicKey } from "node:crypto"
import type { ChainPoint } from "../store/auth-audit-chain.ts"

/** About 7,000 heads: two hours of an entry each second, months of an office. */
const maxHeadBytes = 4 << 20
const keptWhole = 1000
const headType = "nightjar-audit-head"

const Payload = Schema.fromJsonString(Schema.Struct({
  nodeId: NodeId,
  sequence: Schema.Int,
  hash: Schema.String,
  time: Schema.String,
}))
const Line = Schema.fromJsonString(Schema.Struct({ head: Schema.String }))
const decodeLine = Schema.decodeUnknownOption(Line)
const decodePayload = Schema.decodeUnknownOption(Payload)

/** The heads of a file, by rising sequence, and what in it nobody of this node wrote. */
export interface KnownHeads {
  readonly heads: ReadonlyArray<ChainPoint>
  /** Lines that are torn, changed or signed by somebody else. */
  readonly damaged: number
}

export interface AuditHeads {
  readonly read: Effect.Effect<KnownHeads, PlatformError.PlatformError>
  readonly newest: Effect.Effect<ChainPoint | null, PlatformError.PlatformError>
  readonly sign: (point: ChainPoint) => Effect.Effect<void, PlatformError.PlatformError>
}

/** Every second one of the older goes, but for the oldest. */
const thinned = (lines: ReadonlyArray<string>): ReadonlyArray<string> => [
  ...lines.slice(0, -keptWhole).filter((_, i) => i % 2 === 0),
  ...lines.slice(-keptWhole),
]

export const makeAuditHeads = Effect.fnUntraced(function*(options: {
  readonly path: string
  readonly identity: NodeIdentity["Service"]
}) {
  const fs = yield* FileSystem.FileSystem
  const { identity, path } = options
  const { privateKey } = identity.signing
  const publicKey = createPublicKey(privateKey)
  /** Lines whose signature was checked: the file is read often and grows by a line. */
  const checked = new Map<string, ChainPoint>()

  const check = Effect.fnUntraced(function*(line: string) {
    const known = checked.get(line)
    if (known !== undefined) return known
    const decoded = Option.getOrNull(decodeLine(line))
    if (decoded === null) return null
    const payload = yield* Effect.promise(() =>
      compactVerify(decoded.head, publicKey, { algorithms: ["EdDSA"] }).then(
        (verified) => verified.protectedHeader.typ === headType ? new TextDecoder().decode(verified.payload) : null,
        () => null,
      )
    )
    const head = Option.getOrNull(decodePayload(payload))
    if (head === null || head.nodeId !== identity.nodeId) return null
    const point = { sequence: head.sequence, hash: head.hash }
    checked.set(line, point)
    return point
  })

  const text = Effect.flatMap(fs.exists(path), (there) => there ? fs.readFileString(path) : Effect.succeed(""))
  const linesOf = (content: string) => content.split("\n").filter((line) => line !== "")

  const read = Effect.gen(function*(): Effect.fn.Return<KnownHeads, PlatformError.PlatformError> {
    const content = yield* text
    const lines = linesOf(content)
    const heads: Array<ChainPoint> = []
    let damaged = 0
    for (const [i, line] of lines.entries()) {
      const head = yield* check(line)
      if (head !== null) heads.push(head)
      // What a kill tore off is the end of the last line.
      else if (i < lines.length - 1 || content.endsWith("\n")) damaged++
    }
    const present = new Set(lines)
    for (const line of checked.keys()) if (!present.has(line)) checked.delete(line)
    return { heads: heads.toSorted((a, b) => a.sequence - b.sequence), damaged }
  })

  const write = (file: string, content: string, flag: "a" | "w") =>
    Effect.scoped(Effect.gen(function*() {
      const handle = yield* fs.open(file, { flag, mode: 0o600 })
      yield* handle.writeAll(new TextEncoder().encode(content))
      yield* handle.sync
    }))

  const sign = Effect.fnUntraced(function*(point: ChainPoint) {
    const time = new Date(yield* Clock.currentTimeMillis).toISOString()
    const payload = JSON.stringify({ nodeId: identity.nodeId, sequence: point.sequence, hash: point.hash, time })
    const head = yield* Effect.promise(() =>
      new CompactSign(new TextEncoder().encode(payload)).setProtectedHeader({ alg: "EdDSA", typ: headType }).sign(
        privateKey,
      )
    )
    const line = JSON.stringify({ head })
    checked.set(line, point)
    const before = yield* text
    if (before.length + line.length < maxHeadBytes) {
      // A torn line ends where the next one begins.
      yield* write(path, `${before === "" || before.endsWith("\n") ? "" : "\n"}${line}\n`, "a")
      return
    }
    yield* write(`${path}.new`, [...thinned(linesOf(before)), line].map((one) => `${one}\n`).join(""), "w")
    yield* fs.rename(`${path}.new`, path)
  }, Effect.uninterruptible)

  return {
    read,
    newest: Effect.map(read, ({ heads }) => heads.at(-1) ?? null),
    sign,
  } satisfies AuditHeads
})
