/**
 * Whether the audit log is as it was written: walks the chain and compares it with what was signed outside of the database.
 *
 * Invariants
 * 1. The first entry that is not as it was written is told, with why; what lies behind it is not judged.
 * 2. It sees the log of one moment, one page at a time, and ends within {@link VerifyLimits.budgetMs} with where to go on.
 * 3. Signed heads are read before the log: what was signed afterwards cannot be missed by mistake.
 */
import type { AuditFault, AuditFaultReason, AuditVerification } from "#schema/auth-audit.ts"
import { Clock, Effect } from "effect"
import {
  type AuditChainStore,
  type ChainAnchor,
  type ChainPoint,
  type ChainRow,
  genesis,
} from "../store/auth-audit-chain.ts"
import { type AuditSeal, hashFits } from "./auth-audit-chain.ts"
import type { KnownHeads } from "./auth-audit-heads.ts"

export interface VerifyLimits {
  /** Time after which no further page is read: half of what a request may take. */
  readonly budgetMs: number
  readonly pageRows: number
}

export const verifyLimits: VerifyLimits = { budgetMs: 15_000, pageRows: 1000 }

const explanations: Record<AuditFaultReason, string> = {
  edited: "The entry's hash does not fit its members or the entry before it",
  missing: "There is no entry of this number, though there are later ones",
  forged: "The hashes fit, but the node that the entry names did not write it",
  inserted: "The entry stands where none can be",
  truncated: "This entry and all behind it are gone",
  rewritten: "From here on, at the earliest, the entries are others than those this node signed",
  anchor: "The mark of where the log begins is not the one that retention left",
  head: "The mark of where the log ends does not fit its entries",
  headSignature: "Signed heads outside of the database were changed on this node",
}

const faultAt = (sequence: number, reason: AuditFaultReason, id: string | null): AuditFault => ({
  sequence,
  id,
  reason,
  explanation: explanations[reason],
})

/** The mark over the beginning of the log binds its number as well as its hash. */
export const anchorText = ({ hash, sequence }: ChainPoint): string => hash + sequence.toString(16).padStart(16, "0")

/** What was seen so far of the walk. */
interface Walk {
  /** The entry that must come next. */
  expected: number
  previousHash: string
  /** The last signed head that fits. */
  vouched: number
  readonly heads: ReadonlyMap<number, string>
  /** Where the log ends, by its own mark. */
  readonly head: ChainPoint
}

/** Judges the row that stands where `walk.expected` must be; `null`: it is as it was written. */
const judge = (walk: Walk, row: ChainRow, seal: AuditSeal): AuditFault | null => {
  const { expected } = walk
  if (row.sequence > expected) return faultAt(expected, "missing", null)
  if (row.sequence < expected) return faultAt(row.sequence, "inserted", row.id)
  if (!hashFits(row) || row.previousHash !== walk.previousHash) return faultAt(expected, "edited", row.id)
  if (row.nodeId === seal.nodeId && !seal.fits(row.hash, row.mac)) {
    return faultAt(expected, expected > walk.head.sequence ? "inserted" : "forged", row.id)
  }
  if (expected > walk.head.sequence) return faultAt(expected, "head", row.id)
  const signed = walk.heads.get(expected)
  if (signed !== undefined && signed !== row.hash) return faultAt(walk.vouched + 1, "rewritten", null)
  return null
}

/** What can be said once the rows are over: nothing may be missing at the end. */
const judgeEnd = (walk: Walk, signedTop: number): AuditFault | null => {
  const last = walk.expected - 1
  if (last < Math.max(walk.head.sequence, signedTop)) return faultAt(walk.expected, "truncated", null)
  return last === walk.head.sequence && walk.previousHash !== walk.head.hash ? faultAt(last, "head", null) : null
}

const begin = Effect.fnUntraced(
  function*(store: AuditChainStore, seal: AuditSeal, anchor: ChainAnchor | null, from: number | null) {
    const start = anchor ?? genesis
    const low = Math.max(from ?? 0, start.sequence + 1)
    if (low > start.sequence + 1) {
      const [before] = yield* store.page({ sequence: low - 2, id: lastId }, low - 1, 1)
      return before === undefined ?
        { low, hash: null, fault: faultAt(low - 1, "missing", null) } :
        { low, hash: before.hash, fault: null }
    }
    if (anchor !== null && anchor.nodeId === seal.nodeId && !seal.fits(anchorText(anchor), anchor.mac)) {
      return { low, hash: null, fault: faultAt(low, "anchor", null) }
    }
    const stray = yield* store.strayBefore(start.sequence)
    return stray === null ?
      { low, hash: start.hash, fault: null } :
      { low, hash: null, fault: faultAt(stray.sequence, "inserted", stray.id) }
  },
)

/** Behind every id of one sequence. */
const lastId = "ffffffff-ffff-ffff-ffff-ffffffffffff"

/** Follows the chain from one entry to another (`null`: from the oldest, to the newest). */
export const verifyChain = Effect.fnUntraced(function*(options: {
  readonly store: AuditChainStore
  readonly seal: AuditSeal
  readonly known: KnownHeads
  readonly from: number | null
  readonly to: number | null
  readonly limits: VerifyLimits
}) {
  const { known, limits, seal, store } = options
  const startedMs = yield* Clock.currentTimeMillis
  const head = yield* store.head
  const started = yield* begin(store, seal, yield* store.anchor, options.from)
  const heads = new Map(known.heads.map((one) => [one.sequence, one.hash]))
  const signedTop = known.heads.at(-1)?.sequence ?? 0
  const vouched = known.heads.findLast((one) => one.sequence < started.low)?.sequence ?? started.low - 1
  const walk: Walk = { expected: started.low, previousHash: started.hash ?? "", vouched, heads, head }
  const upTo = options.to ?? Number.MAX_SAFE_INTEGER
  let { fault }: { fault: AuditFault | null } = started
  let checked = 0
  let complete = false
  let after = { sequence: started.low - 1, id: lastId }
  while (fault === null) {
    const rows = yield* store.page(after, upTo, limits.pageRows)
    for (const row of rows) {
      fault = judge(walk, row, seal)
      if (fault !== null) break
      checked++
      if (heads.has(row.sequence)) walk.vouched = row.sequence
      walk.previousHash = row.hash
      walk.expected++
    }
    const last = rows.at(-1)
    if (fault !== null) break
    if (last === undefined || rows.length < limits.pageRows) {
      complete = true
      if (walk.expected <= upTo) fault = judgeEnd(walk, signedTop)
      break
    }
    after = { sequence: last.sequence, id: last.id }
    if ((yield* Clock.currentTimeMillis) - startedMs > limits.budgetMs) break
  }
  if (fault === null && complete && known.damaged > 0) fault = faultAt(walk.expected - 1, "headSignature", null)
  return {
    intact: fault === null,
    complete: complete || fault !== null,
    next: complete || fault !== null ? null : walk.expected,
    from: started.low,
    to: walk.expected - 1,
    checked,
    signedHeads: known.heads.filter((one) => one.sequence >= started.low && one.sequence < walk.expected).length,
    head: { sequence: head.sequence, hash: head.hash },
    fault,
  } satisfies AuditVerification
})
