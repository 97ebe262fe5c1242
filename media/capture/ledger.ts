/**
 * The gap ledger of one recording: what was expected, how far it is accounted for, what is missing and why. A state machine
 * without effects; `ledger-store.ts` keeps it on disk.
 *
 * Invariants
 * 1. From the moment a recording is expected, everything before `mark` is either recorded or in a closed gap, and nothing is
 *    both. An open gap begins at `mark`.
 * 2. A gap has exactly one cause. A condition that says more than the one before (see `supersedes`) ends the gap and opens the
 *    next one at the same instant.
 * 3. A hole shorter than `toleranceMs` is not a gap, unless it is the rest of one beside another: what is missing there goes on.
 * 4. The wall clock may be set back. Footage recorded under the wrong time stays and counts: `ahead` holds what was recorded
 *    after the moment it was set to. Gaps that lay in the future are taken back. An hour that happens twice is counted once.
 * 5. Memory is bounded: at most `maxGaps` closed gaps, the oldest are forgotten (they were journalled when they closed).
 *
 * 6. Footage that comes from another node covers what was missing, and what was not written here yet; what that node tells of the
 *    rest replaces a cause that says only that nobody was here (`vague`). A gap that is cut keeps its id where it keeps its start
 *    and its cause.
 *
 * A gap that is taken back is told as closed where it began: readers take a gap without length for none.
 */
import type { EpochMs, Interval, RecordingId } from "#schema/common.ts"
import type { GapCause, LedgerGap } from "#schema/record.ts"

export interface LedgerOptions {
  readonly recordingId: RecordingId
  readonly toleranceMs: number
  readonly maxGaps: number
  readonly newId: () => string
}

/** What has to be told and kept, in order. Applying one twice is harmless. */
export type LedgerChange =
  | { readonly _tag: "Expected"; readonly at: EpochMs }
  | { readonly _tag: "Withdrawn"; readonly at: EpochMs }
  | { readonly _tag: "GapOpened"; readonly gap: LedgerGap }
  | { readonly _tag: "GapClosed"; readonly gap: LedgerGap }

export type LedgerChanges = ReadonlyArray<LedgerChange>

/** Why something is missing, by the word of somebody else. */
export interface Explanation extends Interval {
  readonly cause: GapCause
  readonly detail: string
}

/** All there is to know, for tests and for the disk. */
export interface LedgerSnapshot {
  /** Since when footage is expected; null while it is not. */
  readonly since: EpochMs | null
  readonly mark: EpochMs
  readonly open: LedgerGap | null
  readonly gaps: ReadonlyArray<LedgerGap>
}

export interface Ledger {
  /** Footage is expected from now on; `starting` until the first picture. Nothing if it already is. */
  readonly expect: (at: EpochMs, cause: GapCause, detail: string) => LedgerChanges
  /** Footage ends here and does not go on: opens a gap at `mark`, or goes on with the open one (invariant 2). */
  readonly missing: (cause: GapCause, detail: string, now: EpochMs) => LedgerChanges
  /** Footage is about to go on at `start`: closes the gap. `cause` is for a hole that nobody announced. */
  readonly resume: (start: EpochMs, cause: GapCause, detail: string) => LedgerChanges
  /** Footage is recorded up to `end`, without a hole since `resume`. */
  readonly extend: (end: EpochMs) => void
  /** What was taken for recorded between the two is not: a write failed. Opens a gap where nothing was recorded since. */
  readonly lost: (interval: Interval, cause: GapCause, detail: string) => LedgerChanges
  /** Nothing is expected any more. */
  readonly withdraw: (at: EpochMs) => LedgerChanges
  /** The node's clock was set back to `now`; `recorded` is what is stored after it. */
  readonly setBack: (now: EpochMs, recorded: ReadonlyArray<Interval>) => LedgerChanges
  /** Footage of these times (sorted, disjoint) came from elsewhere. */
  readonly cover: (spans: ReadonlyArray<Interval>) => LedgerChanges
  /** Another node tells why; sorted, disjoint. */
  readonly explain: (told: ReadonlyArray<Explanation>) => LedgerChanges
  /** Time passes: only of interest while something is recorded ahead of the clock. */
  readonly tick: (now: EpochMs) => LedgerChanges
  /** Forgets closed gaps that ended before. */
  readonly forget: (before: EpochMs) => number
  /** Gaps that overlap the interval, by start; the open one has `endMs` null. */
  readonly between: (interval: Interval) => ReadonlyArray<LedgerGap>
  readonly snapshot: () => LedgerSnapshot
}

const fleeting: ReadonlySet<GapCause> = new Set([
  "starting",
  "packet_loss",
  "stream_changed",
  "clock_step",
  "takeover",
  "node_down",
  "disk_slow",
])
const ofCamera: ReadonlySet<GapCause> = new Set([
  "camera_offline",
  "camera_frozen",
  "auth_failed",
  "stream_invalid",
  "publisher_away",
])

/** Says of the node, not of the camera. */
const vague: ReadonlySet<GapCause> = new Set(["node_down", "takeover", "starting"])

/**
 * Whether a gap with the cause `open` ends and one with the cause `next` begins: a person's pause on either side, a lasting
 * condition after a fleeting one, and a change between "wrong password" and the camera's other troubles. All others keep the
 * cause that held when the gap opened, or a flapping camera would write a gap with every attempt.
 */
export const supersedes = (open: GapCause, next: GapCause): boolean => {
  if (open === next) return false
  if (open === "operator_paused" || next === "operator_paused") return true
  if (fleeting.has(open)) return !fleeting.has(next)
  return ofCamera.has(open) && ofCamera.has(next) && (open === "auth_failed") !== (next === "auth_failed")
}

/** `interval` without `holes` (sorted, disjoint). */
export const subtract = (interval: Interval, holes: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const pieces: Array<Interval> = []
  let start = interval.start
  for (const hole of holes) {
    if (hole.end <= start || hole.start >= interval.end) continue
    if (hole.start > start) pieces.push({ start, end: hole.start })
    start = Math.max(start, hole.end)
  }
  if (start < interval.end) pieces.push({ start, end: interval.end })
  return pieces
}

/** Sorted and disjoint. */
export const union = (intervals: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const merged: Array<{ start: number; end: number }> = []
  for (const next of intervals.filter((i) => i.end > i.start).sort((a, b) => a.start - b.start)) {
    const last = merged.at(-1)
    if (last !== undefined && next.start <= last.end) last.end = Math.max(last.end, next.end)
    else merged.push({ start: next.start, end: next.end })
  }
  return merged
}

const asInterval = (gap: LedgerGap): Interval => ({ start: gap.startMs, end: gap.endMs ?? gap.startMs })

export const makeLedger = (
  options: LedgerOptions,
  from?: LedgerSnapshot & { readonly ahead: ReadonlyArray<Interval> },
): Ledger => {
  const gaps: Array<LedgerGap> = [...from?.gaps ?? []]
  let since: EpochMs | null = from?.since ?? null
  let mark: EpochMs = from?.mark ?? Number.MIN_SAFE_INTEGER
  let open: LedgerGap | null = from?.open ?? null
  let ahead: ReadonlyArray<Interval> = union(from?.ahead ?? [])

  const known = (): ReadonlyArray<LedgerGap> => open === null ? [...gaps] : [...gaps, open]
  /** Moves `mark`, over what is recorded ahead of it too. */
  const advance = (to: EpochMs) => {
    if (to > mark) mark = to
    for (const span of ahead) if (span.start <= mark && span.end > mark) mark = span.end
  }
  const keep = (gap: LedgerGap) => {
    let at = gaps.length
    while (at > 0 && gaps[at - 1]!.startMs > gap.startMs) at--
    gaps.splice(at, 0, gap)
    if (gaps.length > options.maxGaps) gaps.shift()
  }
  const made = (interval: Interval, cause: GapCause, detail: string): LedgerGap => ({
    id: options.newId(),
    recordingId: options.recordingId,
    startMs: interval.start,
    endMs: interval.end,
    cause,
    detail,
  })
  const start = (cause: GapCause, detail: string): LedgerChange => {
    open = { id: options.newId(), recordingId: options.recordingId, startMs: mark, endMs: null, cause, detail }
    return { _tag: "GapOpened", gap: open }
  }
  /** Another gap than `gap` ends or begins at its edge, so that not even a sliver there lies between footage. */
  const adjoins = (gap: LedgerGap, edge: "start" | "end", spans: ReadonlyArray<Interval>): boolean => {
    const at = edge === "start" ? gap.startMs : gap.endMs
    const goesOn = (one: LedgerGap): boolean => edge === "start" ? one.endMs === at : one.startMs === at
    const recorded = ({ end, start }: Interval): boolean =>
      at !== null && (edge === "start" ? start < at && end >= at : start <= at && end > at)
    return known().some((one) => one.id !== gap.id && goesOn(one)) && !spans.some(recorded)
  }
  /** Ends the open gap; what is recorded ahead inside it cuts it into pieces. */
  const close = (at: EpochMs): Array<LedgerChange> => {
    if (open === null) return []
    const gap = open
    open = null
    const end = Math.max(at, gap.startMs)
    const sliver = end - gap.startMs < options.toleranceMs && !adjoins(gap, "start", [])
    const pieces = sliver ? [] : subtract({ start: gap.startMs, end }, ahead)
    const [first, ...rest] = pieces
    const closed: LedgerGap = { ...gap, endMs: first?.end ?? gap.startMs }
    const changes: Array<LedgerChange> = []
    // A piece may begin later than the gap where footage ahead of the clock begins right at its start.
    if (first !== undefined && first.start !== gap.startMs) {
      changes.push({ _tag: "GapClosed", gap: { ...gap, endMs: gap.startMs } })
      rest.unshift(first)
    } else {
      changes.push({ _tag: "GapClosed", gap: closed })
      if (first !== undefined) keep(closed)
    }
    for (const piece of rest) {
      const extra = made(piece, gap.cause, gap.detail)
      keep(extra)
      changes.push({ _tag: "GapClosed", gap: extra })
    }
    advance(end)
    return changes
  }

  /** Invariant 6: `gap` becomes `pieces` of itself, by start; an open one goes on behind `until`. */
  const recut = (gap: LedgerGap, pieces: ReadonlyArray<Explanation>, until: EpochMs): Array<LedgerChange> => {
    if (gap === open) open = null
    else gaps.splice(gaps.indexOf(gap), 1)
    const [first, ...rest] = pieces
    const stays = first !== undefined && first.start === gap.startMs && first.cause === gap.cause
    const closed = { ...gap, endMs: stays ? first.end : gap.startMs }
    if (stays) keep(closed)
    const others = (stays ? rest : pieces).map((piece) => made(piece, piece.cause, piece.detail))
    others.forEach(keep)
    const changes = [closed, ...others].map((one): LedgerChange => ({ _tag: "GapClosed", gap: one }))
    if (gap.endMs !== null) return changes
    advance(until)
    return [...changes, start(gap.cause, gap.detail)]
  }
  const self: Ledger = {
    cover: (spans) => {
      const changes = known().flatMap((gap) => {
        const within = spans.filter(({ end, start }) => end > gap.startMs && (gap.endMs === null || start < gap.endMs))
        const last = within.at(-1)
        if (last === undefined) return []
        const until = gap.endMs ?? last.end
        const left = subtract({ start: gap.startMs, end: until }, within)
          .filter(({ end, start }) =>
            end - start >= options.toleranceMs || (start === gap.startMs && adjoins(gap, "start", spans)) ||
            (end === gap.endMs && adjoins(gap, "end", spans))
          )
        return recut(gap, left.map((piece) => ({ ...piece, cause: gap.cause, detail: gap.detail })), until)
      })
      // It may go on behind what this node has written yet of its own, which may never come.
      for (const span of spans) if (since !== null && open === null && span.start <= mark) advance(span.end)
      return changes
    },
    explain: (told) =>
      known().flatMap((gap) => {
        if (!vague.has(gap.cause)) return []
        const within = told.flatMap((one) => {
          const start = Math.max(one.start, gap.startMs)
          const end = Math.min(one.end, gap.endMs ?? one.end)
          return end - start >= options.toleranceMs && one.cause !== gap.cause ? [{ ...one, start, end }] : []
        })
        const last = within.at(-1)
        if (last === undefined) return []
        const until = gap.endMs ?? last.end
        const rest = subtract({ start: gap.startMs, end: until }, within)
          .map((piece) => ({ ...piece, cause: gap.cause, detail: gap.detail }))
        return recut(gap, [...within, ...rest].sort((a, b) => a.start - b.start), until)
      }),
    expect: (at, cause, detail) => {
      if (since !== null) return []
      since = Math.max(at, mark)
      advance(since)
      return [{ _tag: "Expected", at: since }, start(cause, detail)]
    },
    missing: (cause, detail, now) => {
      if (since === null) return []
      if (open === null) return [start(cause, detail)]
      if (!supersedes(open.cause, cause)) return []
      const at = now - open.startMs < options.toleranceMs ? open.startMs : now
      return [...close(at), start(cause, detail)]
    },
    resume: (startMs, cause, detail) => {
      if (since === null) return []
      if (open !== null) return close(startMs)
      if (startMs - mark < options.toleranceMs) return []
      const changes = [start(cause, detail), ...close(startMs)]
      // Opened and closed in one breath: told once, as closed.
      return changes.filter((change) => change._tag !== "GapOpened")
    },
    extend: (end) => {
      if (since !== null && open === null) advance(end)
    },
    lost: (interval, cause, detail) => {
      if (since === null) return []
      const bounds = { start: Math.max(interval.start, since), end: Math.min(interval.end, mark) }
      if (bounds.end <= bounds.start) return []
      const known = gaps.filter((gap) => gap.endMs !== null && gap.endMs > bounds.start)
      const twice = ahead.some((span) => span.end > bounds.start && span.start < bounds.end)
      if (open === null && known.length === 0 && !twice && bounds.end === mark) {
        mark = bounds.start
        return [start(cause, detail)]
      }
      const pieces = subtract(bounds, union([...known.map(asInterval), ...ahead]))
      const changes: Array<LedgerChange> = []
      for (const piece of pieces) {
        const gap = made(piece, cause, detail)
        keep(gap)
        changes.push({ _tag: "GapClosed", gap })
      }
      return changes
    },
    withdraw: (at) => {
      if (since === null) return []
      const changes = close(at)
      const until = Math.max(since, mark)
      since = null
      return [...changes, { _tag: "Withdrawn", at: until }]
    },
    setBack: (now, recorded) => {
      if (mark <= now) return []
      const changes: Array<LedgerChange> = []
      for (let i = gaps.length - 1; i >= 0; i--) {
        const gap = gaps[i]!
        if ((gap.endMs ?? 0) <= now) continue
        const shorter = { ...gap, endMs: Math.max(gap.startMs, now) }
        changes.push({ _tag: "GapClosed", gap: shorter })
        if (shorter.endMs > shorter.startMs) gaps[i] = shorter
        else gaps.splice(i, 1)
      }
      const previous = open
      if (previous !== null) {
        open = null
        changes.push({ _tag: "GapClosed", gap: { ...previous, endMs: previous.startMs } })
      }
      if (since !== null && since > now) {
        since = now
        changes.push({ _tag: "Expected", at: now })
      }
      mark = now
      ahead = union(recorded.filter((i) => i.end > mark).map((i) => ({ start: Math.max(i.start, mark), end: i.end })))
      advance(mark)
      if (previous !== null) changes.push(start(previous.cause, previous.detail))
      return changes
    },
    tick: (now) => {
      const changes: Array<LedgerChange> = []
      for (const span of ahead) {
        if (open === null || span.start < open.startMs || span.start > now) continue
        const { cause, detail } = open
        changes.push(...close(span.start), start(cause, detail))
      }
      return changes
    },
    forget: (before) => {
      let count = 0
      while (count < gaps.length && (gaps[count]!.endMs ?? before) < before) count++
      gaps.splice(0, count)
      return count
    },
    between: ({ start: from, end: to }) => {
      const found = gaps.filter((gap) => gap.startMs < to && (gap.endMs ?? to) > from)
      return open !== null && open.startMs < to ? [...found, open] : found
    },
    snapshot: () => ({ since, mark, open, gaps: [...gaps] }),
  }
  return self
}
