/**
 * What is there of a recording and what is missing: pure arithmetic on half-open intervals of whole milliseconds.
 *
 * Invariants
 * 1. Within what is expected, spans and gaps do not overlap, each list is in order, and together they leave nothing out.
 * 2. A moment counts as recorded where some node has a file over it and no gap of that same node over it, whoever recorded the file;
 *    where several have, the highest epoch is named.
 * 3. Every missing moment has one cause: that of the first gap that held; without a gap in the ledger, what the
 *    surroundings tell (see `unexplained`).
 */
import type { EpochMs, Interval, NodeId } from "#schema/common.ts"
import type { Gap, GapCause, LedgerGap, SegmentFile, Span } from "#schema/record.ts"

/** A gap and the node that tells of it. */
export interface NodeGap extends LedgerGap {
  readonly nodeId: NodeId
}

/** A file, and the node on whose disks it lies: what is missing within it stands in that node's ledger. */
export interface HeldFile extends Pick<SegmentFile, "startMs" | "endMs" | "nodeId" | "epoch"> {
  readonly holder: NodeId
}

export interface FootageFacts {
  /** What should exist, already cut to what was asked. */
  readonly expected: Interval
  /** When the recording, or what retention has left of it, begins. */
  readonly beginMs: EpochMs
  readonly files: ReadonlyArray<HeldFile>
  readonly gaps: ReadonlyArray<Pick<NodeGap, "id" | "startMs" | "endMs" | "cause" | "nodeId">>
}

/**
 * Longest hole between two files of one node and epoch that is a matter of rounding, not of missing pictures: below a frame at
 * 60 a second, and what the capture's own ledger tolerates. Anything longer is in the ledger.
 */
const joinMs = 10

const byStart = (a: Interval, b: Interval) => a.start - b.start

/** Sorted, disjoint; intervals that touch, or are at most `hole` apart, become one. Empty ones vanish. */
export const union = (intervals: ReadonlyArray<Interval>, hole = 0): ReadonlyArray<Interval> => {
  const result: Array<{ start: EpochMs; end: EpochMs }> = []
  for (const { start, end } of intervals.filter((one) => one.end > one.start).sort(byStart)) {
    const last = result.at(-1)
    if (last !== undefined && start <= last.end + hole) last.end = Math.max(last.end, end)
    else result.push({ start, end })
  }
  return result
}

/** `from` without `taken`; both sorted and disjoint. */
export const subtract = (from: ReadonlyArray<Interval>, taken: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const result: Array<Interval> = []
  let next = 0
  for (const { start, end } of from) {
    let cursor = start
    while (next < taken.length && taken[next]!.end <= cursor) next++
    for (let at = next; at < taken.length && taken[at]!.start < end; at++) {
      const hole = taken[at]!
      if (hole.start > cursor) result.push({ start: cursor, end: hole.start })
      cursor = Math.max(cursor, hole.end)
    }
    if (cursor < end) result.push({ start: cursor, end })
  }
  return result
}

/** The parts of `of` that lie within `within`; both sorted and disjoint. */
const intersect = <A extends Interval>(of: ReadonlyArray<A>, within: ReadonlyArray<Interval>): ReadonlyArray<A> => {
  const result: Array<A> = []
  let next = 0
  for (const one of of) {
    while (next < within.length && within[next]!.end <= one.start) next++
    for (let at = next; at < within.length && within[at]!.start < one.end; at++) {
      const other = within[at]!
      result.push({ ...one, start: Math.max(one.start, other.start), end: Math.min(one.end, other.end) })
    }
  }
  return result
}

export const lengthOf = (intervals: ReadonlyArray<Interval>): number =>
  intervals.reduce((sum, { start, end }) => sum + end - start, 0)

const groupBy = <A>(items: ReadonlyArray<A>, key: (item: A) => string): ReadonlyMap<string, ReadonlyArray<A>> => {
  const groups = new Map<string, Array<A>>()
  for (const item of items) {
    const group = groups.get(key(item))
    if (group === undefined) groups.set(key(item), [item])
    else group.push(item)
  }
  return groups
}

/** Recorded spans, disjoint and in order; the highest epoch first where several nodes recorded. */
const recordedSpans = (facts: FootageFacts): ReadonlyArray<Span> => {
  const gapsOf = new Map(
    [...groupBy(facts.gaps, (gap) => gap.nodeId)].map(([nodeId, gaps]) =>
      [nodeId, union(gaps.map((gap) => ({ start: gap.startMs, end: gap.endMs ?? facts.expected.end })))] as const
    ),
  )
  const groups = [...groupBy(facts.files, (file) => `${file.holder}/${file.nodeId}/${file.epoch}`).values()]
    .map((files) => ({ files, holder: files[0]!.holder, nodeId: files[0]!.nodeId, epoch: files[0]!.epoch }))
    .sort((a, b) => b.epoch - a.epoch || (a.nodeId < b.nodeId ? -1 : 1))
  let taken: ReadonlyArray<Interval> = []
  const spans: Array<Span> = []
  for (const { epoch, files, holder, nodeId } of groups) {
    const covered = union(files.map((file) => ({ start: file.startMs, end: file.endMs })), joinMs)
    const recorded = intersect(subtract(covered, gapsOf.get(holder) ?? []), [facts.expected])
    for (const { start, end } of subtract(recorded, taken)) {
      spans.push({ start, end, kind: "continuous", nodeId, epoch })
    }
    taken = union([...taken, ...recorded])
  }
  return spans.sort(byStart)
}

type Caused = Interval & { readonly cause: GapCause }

/** Gaps of the ledger without overlap: one that began earlier keeps its whole length. */
const disjointGaps = (facts: FootageFacts): ReadonlyArray<Caused> => {
  const sorted = [...facts.gaps].sort((a, b) => a.startMs - b.startMs || (a.id < b.id ? -1 : 1))
  const result: Array<Caused> = []
  let cursor = Number.NEGATIVE_INFINITY
  for (const gap of sorted) {
    const start = Math.max(gap.startMs, cursor)
    const end = gap.endMs ?? facts.expected.end
    if (end <= start) continue
    result.push({ start, end, cause: gap.cause })
    cursor = end
  }
  return result
}

const ofDisk: ReadonlySet<GapCause> = new Set(["disk_error", "disk_full", "disk_slow"])

/**
 * The cause of a missing span that no gap of the ledger explains. Right before a disk failed: what it had taken and not yet kept
 * went with it. At the very beginning: the first picture had not come. Between two owners: the change of owner. Otherwise the node
 * that should have recorded was not there to say why.
 */
const unexplained = (
  missing: Interval,
  spans: ReadonlyArray<Span>,
  gaps: ReadonlyArray<Caused>,
  beginMs: EpochMs,
): GapCause => {
  const failure = gaps.find((gap) => gap.start === missing.end && ofDisk.has(gap.cause))
  if (failure !== undefined) return failure.cause
  if (missing.start === beginMs) return "starting"
  const before = spans.findLast((span) => span.end <= missing.start)
  const after = spans.find((span) => span.start >= missing.end)
  if (before === undefined || after === undefined) return "node_down"
  return before.nodeId === after.nodeId && before.epoch === after.epoch ? "node_down" : "takeover"
}

const joinSameCause = (gaps: ReadonlyArray<Caused>): ReadonlyArray<Gap> => {
  const result: Array<{ start: EpochMs; end: EpochMs; cause: GapCause }> = []
  for (const { start, end, cause } of [...gaps].sort(byStart)) {
    const last = result.at(-1)
    if (last !== undefined && last.end === start && last.cause === cause) last.end = end
    else result.push({ start, end, cause })
  }
  return result
}

/** Spans and gaps of what is expected. */
export const footageOf = (
  facts: FootageFacts,
): { readonly spans: ReadonlyArray<Span>; readonly gaps: ReadonlyArray<Gap> } => {
  if (facts.expected.end <= facts.expected.start) return { spans: [], gaps: [] }
  const spans = recordedSpans(facts)
  const missing = subtract([facts.expected], union(spans))
  const known = disjointGaps(facts)
  const explained = intersect(known, missing)
  const rest = subtract(missing, explained).map((hole) => ({
    ...hole,
    cause: unexplained(hole, spans, known, facts.beginMs),
  }))
  return { spans, gaps: joinSameCause([...explained, ...rest]) }
}

export interface Expectation {
  readonly createdMs: EpochMs
  /** End of the newest footage that retention took; null: it took none yet. */
  readonly keptFromMs: EpochMs | null
  /** Start of the oldest footage and end of the newest, of all nodes; null: none. */
  readonly oldestMs: EpochMs | null
  readonly newestMs: EpochMs | null
  /** A fragment was stored in the last seconds: what is younger than it is on its way, not missing. */
  readonly recording: boolean
  readonly nowMs: EpochMs
}

/** When footage should begin. */
export const beginOf = (facts: Expectation): EpochMs =>
  facts.keptFromMs ?? Math.min(facts.createdMs, facts.oldestMs ?? facts.createdMs)

/** What should exist by now, cut to `asked`; null: nothing of it. */
export const expectedWithin = (asked: Interval, facts: Expectation): Interval | null => {
  const until = facts.recording && facts.newestMs !== null ? facts.newestMs : facts.nowMs
  const start = Math.max(asked.start, beginOf(facts))
  const end = Math.min(asked.end, until)
  return end > start ? { start, end } : null
}
