/**
 * Ledgers on disk: one small log of lines a recording, read at start and made to agree with the footage that is there.
 *
 * Invariants
 * 1. A change is durable before the footage that follows it is handed to the disk (see `commit`), so that after a kill at any
 *    instant what is neither stored nor explained lies at the end, and is the kill's.
 * 2. What is told to the journal is told after the ledger has it; at start the newest gaps are told again (upserts).
 * 3. Footage decides: where a gap in the log and a stored fragment disagree, the fragment is right.
 */
import type { Interval, RecordingId } from "#schema/common.ts"
import { LedgerGap } from "#schema/record.ts"
import { Effect, Option, Schema, type Scope } from "effect"
import type { Journal, JournalDraft } from "./journal.ts"
import {
  type Ledger,
  type LedgerChange,
  type LedgerChanges,
  type LedgerSnapshot,
  makeLedger,
  subtract,
  union,
} from "./ledger.ts"
import type { LineDisk, LineDiskError } from "./line-disk.ts"
import { decodeLines, makeLineLog } from "./line-log.ts"

const Line = Schema.Union([
  Schema.TaggedStruct("Expected", { at: Schema.Int }),
  Schema.TaggedStruct("Withdrawn", { at: Schema.Int }),
  Schema.TaggedStruct("GapOpened", { gap: LedgerGap }),
  Schema.TaggedStruct("GapClosed", { gap: LedgerGap }),
])
const LineJson = Schema.fromJsonString(Line)
const decodeLine = Schema.decodeUnknownOption(LineJson)
const encodeLine = Schema.encodeSync(LineJson)

/** Two fragments nearer than this are one span: below a frame at 60 a second. */
export const toleranceMs = 10
/** About 5 MB in memory, in the worst case. */
const maxGaps = 20_000
/** What one ledger may owe its disk. */
const maxPendingBytes = 4 * 1024 * 1024
/** Gaps that ended this shortly before the newest one may not have reached the journal. */
const retoldMs = 3_600_000

/** More than a kill can take away: what waits in the queue of a file and was not written. */
const killedMs = 60_000

/** What a log says by itself. */
export interface LedgerRecord {
  readonly since: number | null
  readonly gaps: ReadonlyArray<LedgerGap>
  readonly open: LedgerGap | null
}

/** Reads lines in order; a later line about the same gap replaces the earlier one. */
export const readLedger = (lines: ReadonlyArray<string>): LedgerRecord => {
  let since: number | null = null
  const gaps = new Map<string, LedgerGap>()
  for (const line of lines) {
    const decoded = Option.getOrNull(decodeLine(line))
    if (decoded === null) continue
    if (decoded._tag === "Expected") since = decoded.at
    else if (decoded._tag === "Withdrawn") since = null
    else gaps.set(decoded.gap.id, decoded.gap)
  }
  const all = [...gaps.values()].filter((gap) => gap.endMs === null || gap.endMs > gap.startMs).sort((a, b) =>
    a.startMs - b.startMs
  )
  return {
    since,
    gaps: all.filter((gap) => gap.endMs !== null),
    open: all.findLast((gap) => gap.endMs === null) ?? null,
  }
}

/** What is stored of a recording, sorted by start, holes inside of files included as far as they can be known. */
export type StoredSpans = ReadonlyArray<Interval>

/**
 * Makes the record agree with what is stored. Pure. `now` is the moment of the start: what is unexplained up to it, after the
 * last stored fragment, is the time in which no process recorded; what is unexplained before is footage that is gone.
 */
export const reconcile = (
  recordingId: RecordingId,
  record: LedgerRecord,
  stored: StoredSpans,
  now: number,
  newId: () => string,
): { readonly snapshot: LedgerSnapshot; readonly changes: LedgerChanges } => {
  const { since } = record
  const gaps = [...record.gaps]
  if (since === null) {
    const mark = Math.max(
      Number.MIN_SAFE_INTEGER,
      ...gaps.map((gap) => gap.endMs ?? 0),
      ...stored.map((span) => span.end),
    )
    return { snapshot: { since, mark, open: null, gaps }, changes: [] }
  }
  const changes: Array<LedgerChange> = []
  const add = (span: Interval, cause: LedgerGap["cause"], detail: string) => {
    const gap: LedgerGap = { id: newId(), recordingId, startMs: span.start, endMs: span.end, cause, detail }
    gaps.push(gap)
    changes.push({ _tag: "GapClosed", gap })
  }
  let open = record.open
  const resumed = open === null ? undefined : stored.find((span) => span.end > (open?.startMs ?? 0) + toleranceMs)
  if (open !== null && resumed !== undefined) {
    const closed = { ...open, endMs: Math.max(open.startMs, resumed.start) }
    if (closed.endMs > closed.startMs) gaps.push(closed)
    changes.push({ _tag: "GapClosed", gap: closed })
    open = null
  }
  const lastStored = stored.at(-1)?.end ?? since
  // Before the oldest footage nothing is looked for: retention took it away. Without any, what a kill took is short and recent.
  const from = Math.max(since, stored[0]?.start ?? (gaps.at(-1)?.endMs ?? since) - killedMs)
  const until = Math.max(from, open?.startMs ?? now)
  const known = union([...stored, ...gaps.map((gap) => ({ start: gap.startMs, end: gap.endMs ?? gap.startMs }))])
  for (const hole of subtract({ start: from, end: until }, known)) {
    if (hole.end - hole.start < toleranceMs) continue
    if (hole.start < lastStored) add(hole, "segment_missing", "stored footage is gone or damaged")
    else if (hole.end < until || open !== null) add(hole, "node_down", "this node was not running")
    else {
      open = {
        id: newId(),
        recordingId,
        startMs: hole.start,
        endMs: null,
        cause: "node_down",
        detail: "this node was not running",
      }
      changes.push({ _tag: "GapOpened", gap: open })
    }
  }
  gaps.sort((a, b) => a.startMs - b.startMs)
  const accounted = Math.max(since, known.at(-1)?.end ?? since, ...gaps.slice(-1).map((gap) => gap.endMs ?? 0))
  return { snapshot: { since, mark: open?.startMs ?? accounted, open, gaps }, changes }
}

/** A ledger with its log and its way into the journal. */
export interface KeptLedger {
  readonly ledger: Ledger
  /** Writes the changes down and tells the journal; waits for the disk, but at most 2 s: recording goes on without it. */
  readonly commit: (changes: LedgerChanges, epoch: number) => Effect.Effect<void>
  /** Drops what retention has made history. */
  readonly forget: (before: number) => void
}

const asDrafts = (changes: LedgerChanges, epoch: number): ReadonlyArray<JournalDraft> =>
  changes.flatMap((change) => change._tag === "GapOpened" || change._tag === "GapClosed" ? [{ ...change, epoch }] : [])

export interface KeptLedgerOptions {
  readonly recordingId: RecordingId
  readonly disk: LineDisk
  readonly journal: Journal
  readonly newId: () => string
  readonly retryMs: number
  readonly nowMs: number
  readonly epoch: number
  /** Asked once, when the log is read. */
  readonly stored: Effect.Effect<StoredSpans>
}

export const openLedger = Effect.fnUntraced(
  function*(options: KeptLedgerOptions): Effect.fn.Return<KeptLedger, LineDiskError, Scope.Scope> {
    const text = yield* options.disk.load
    const { damaged, lines } = decodeLines(text)
    const stored = yield* options.stored
    const { changes, snapshot } = reconcile(
      options.recordingId,
      readLedger(lines),
      stored,
      options.nowMs,
      options.newId,
    )
    const ahead = stored.filter((span) => span.end > options.nowMs)
    const ledger = makeLedger({ recordingId: options.recordingId, toleranceMs, maxGaps, newId: options.newId }, {
      ...snapshot,
      ahead: [],
    })
    const compacted = () => {
      const { gaps, open, since } = ledger.snapshot()
      return [
        ...since === null ? [] : [encodeLine({ _tag: "Expected", at: since })],
        ...gaps.map((gap) => encodeLine({ _tag: "GapClosed", gap })),
        ...open === null ? [] : [encodeLine({ _tag: "GapOpened", gap: open })],
      ]
    }
    const log = yield* makeLineLog(options.disk, text.length, { maxPendingBytes, retryMs: options.retryMs, compacted })
    const commit: KeptLedger["commit"] = (made, epoch) =>
      made.length === 0 ? Effect.void : Effect.gen(function*() {
        log.append(made.map((change) => encodeLine(change)))
        yield* log.flush("2 seconds")
        options.journal.append(asDrafts(made, epoch))
        // A gap costs about 300 bytes when it opens and again when it closes.
        if (log.bytes() > 262_144 + 900 * ledger.snapshot().gaps.length) log.rewrite()
      })

    if (damaged > 0 || (text !== "" && !text.endsWith("\n"))) log.rewrite()
    yield* commit(changes, options.epoch)
    const newest = snapshot.open?.startMs ?? snapshot.gaps.at(-1)?.endMs ?? 0
    const retold = ledger.between({ start: newest - retoldMs, end: Number.MAX_SAFE_INTEGER })
      .filter((gap) => !changes.some((change) => "gap" in change && change.gap.id === gap.id))
    options.journal.append(
      retold.map((gap) => ({ _tag: gap.endMs === null ? "GapOpened" : "GapClosed", gap, epoch: options.epoch })),
    )
    yield* commit(ledger.setBack(options.nowMs + toleranceMs, ahead), options.epoch)
    return {
      ledger,
      commit,
      forget: (before) => {
        if (ledger.forget(before) > 0 && log.durable()) log.rewrite()
      },
    }
  },
)
