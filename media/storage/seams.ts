/**
 * Which fragments are shown where several nodes recorded the same camera at once: after a partition, around a takeover and a failback.
 * The bytes on the disk stay as they are; what is there twice is seen once.
 *
 * Invariants
 * 1. What is shown goes from one node's footage to another's at a picture that decoding can start at and that both have: found by the
 *    hash of the access unit among those near in time, as the clocks of nodes differ. No picture is shown twice, and none is left out
 *    that either has.
 * 2. Where no common picture is found (the streams differ, or do not overlap) the wall clock decides, which the camera's own sender
 *    reports set where they can; then a picture rather comes twice than not at all.
 * 3. What was begun with goes on as long as it lasts: no needless seam.
 * 4. Footage of one node that nobody else's overlaps is shown as it is, and nothing is read for it.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Effect } from "effect"
import type { FragmentTable } from "./fragment-table.ts"

/** Rows `[from, to)` of a file; `to` infinite: to its end, also what is still to come. */
export interface Shown {
  readonly file: SegmentFile
  readonly from: number
  readonly to: number
}

/** Holes shorter than this are rounding, as everywhere. */
const joinMs = 10
/** How far apart two nodes may have put the same picture. Clocks that differ by more are told apart when footage comes home. */
const nearMs = 10_000
/** Footage that ends so shortly before another's begins may be the same, by another clock. */
const besideMs = 2_000
/** Two clocks differ by the same amount along a seam, and by this at most besides. */
const sameShiftMs = 100
/** Where nothing but clocks tells, they may differ by this. */
const unsureMs = 1_000
/** Key pictures that are compared at one seam. */
const mostCompared = 12

/** A row and where it stands in its lane. */
interface Place {
  readonly file: SegmentFile
  readonly table: FragmentTable
  readonly row: number
}

/** What one node recorded without a hole. */
interface Stretch {
  readonly places: ReadonlyArray<Place>
  readonly startMs: number
  readonly endMs: number
}

/** Where one stretch takes over from another: an index of each. */
interface Seam {
  readonly cut: number
  readonly entry: number
}

interface Joined extends Seam {
  readonly stretch: Stretch
}

export interface SeamReads {
  /** Files of which one goes on where another ends; if left out, those of one recorder and epoch. */
  readonly laneOf?: (file: SegmentFile) => string
  /** Null: it cannot be read. */
  readonly table: (file: SegmentFile) => Effect.Effect<FragmentTable | null>
  /** Of the picture that a fragment begins with; null where it cannot be read. */
  readonly hash: (file: SegmentFile, table: FragmentTable, row: number) => Effect.Effect<string | null>
}

export const recorderLane = ({ epoch, nodeId }: SegmentFile): string => `${nodeId}/${epoch}`
const whole = (file: SegmentFile): Shown => ({ file, from: 0, to: Number.POSITIVE_INFINITY })
const startOf = ({ row, table }: Place): number => table.startMs(row)

/** Files that others of another lane overlap, or nearly do, together; by start. */
const clustersOf = (
  files: ReadonlyArray<SegmentFile>,
  laneOf: (file: SegmentFile) => string,
): ReadonlyArray<ReadonlyArray<SegmentFile>> => {
  const clusters: Array<Array<SegmentFile>> = []
  const ends = new Map<string, number>()
  for (const file of files) {
    const lane = laneOf(file)
    const cluster = clusters.at(-1)
    const beside = [...ends].some(([other, endMs]) => other !== lane && file.startMs < endMs + besideMs)
    if (cluster === undefined || !beside) clusters.push([file])
    else cluster.push(file)
    ends.set(lane, Math.max(ends.get(lane) ?? file.endMs, file.endMs))
  }
  return clusters
}

const stretchesOf = (places: ReadonlyArray<Place>): ReadonlyArray<Stretch> => {
  const stretches: Array<{ places: Array<Place>; startMs: number; endMs: number }> = []
  for (const place of places) {
    const { row, table } = place
    const last = stretches.at(-1)
    if (last !== undefined && table.startMs(row) - last.endMs <= joinMs) {
      last.places.push(place)
      last.endMs = Math.max(last.endMs, table.endMs(row))
    } else stretches.push({ places: [place], startMs: table.startMs(row), endMs: table.endMs(row) })
  }
  return stretches
}

/** The key pictures of a stretch around a moment, nearest first, as indexes of its places. */
const keysNear = ({ places }: Stretch, atMs: number): ReadonlyArray<number> =>
  places.flatMap((place, at) => place.table.key(place.row) && Math.abs(startOf(place) - atMs) <= nearMs ? [at] : [])
    .sort((a, b) => Math.abs(startOf(places[a] as Place) - atMs) - Math.abs(startOf(places[b] as Place) - atMs))
    .slice(0, mostCompared)

/** Puts places together again: consecutive rows of a file are one share of it. */
const sharesOf = (places: ReadonlyArray<Place>): ReadonlyArray<Shown> => {
  const shares: Array<{ file: SegmentFile; table: FragmentTable; from: number; to: number }> = []
  for (const { file, row, table } of places) {
    const last = shares.at(-1)
    if (last !== undefined && last.file.id === file.id && last.to === row) last.to = row + 1
    else shares.push({ file, table, from: row, to: row + 1 })
  }
  return shares.map(({ file, from, table, to }) => ({
    file,
    from,
    to: to === table.length ? Number.POSITIVE_INFINITY : to,
  }))
}

/** `files`: of one recording, by start. The answer is in the order of showing. */
export const shownOf = Effect.fnUntraced(function*(files: ReadonlyArray<SegmentFile>, reads: SeamReads) {
  const { laneOf = recorderLane } = reads
  const hashAt = ({ places }: Stretch, at: number) => {
    const { file, row, table } = places[at] as Place
    return reads.hash(file, table, row)
  }
  /**
   * Where `to` takes over from `from`, which ends: an index of each. The last common picture before the end, so that what is left of
   * `from` is as long as it can be. `covered`: they have a common picture, and `from` goes as far. Null: they have none.
   */
  const seam = Effect.fnUntraced(function*(from: Stretch, begun: number, to: Stretch) {
    const mine: Array<{ readonly at: number; readonly hash: string | null }> = []
    for (const at of keysNear(from, from.endMs)) if (at >= begun) mine.push({ at, hash: yield* hashAt(from, at) })
    const pairs: Array<{ readonly cut: number; readonly entry: number; readonly shiftMs: number }> = []
    for (const entry of mine.length === 0 ? [] : keysNear(to, from.endMs)) {
      const hash = yield* hashAt(to, entry)
      for (const { at, hash: other } of mine) {
        if (hash === null || hash !== other) continue
        const shiftMs = Math.abs(startOf(to.places[entry] as Place) - startOf(from.places[at] as Place))
        pairs.push({ cut: at, entry, shiftMs })
      }
    }
    // A picture that comes again and again is the same where the clocks differ least.
    const least = pairs.reduce((shift, pair) => Math.min(shift, pair.shiftMs), Number.POSITIVE_INFINITY)
    const last = pairs.filter(({ shiftMs }) => shiftMs <= least + sameShiftMs).sort((a, b) => b.entry - a.entry)[0]
    if (last === undefined) return null
    // From there on the longer one has more, whatever the clocks say.
    const behind = to.endMs - startOf(to.places[last.entry] as Place)
    return behind > from.endMs - startOf(from.places[last.cut] as Place) + joinMs ? last : "covered" as const
  })
  /** The same by the clock alone. */
  const byClock = (from: Stretch, begun: number, to: Stretch): Seam | null => {
    if (to.endMs <= from.endMs) return null
    const entry = to.places.findLastIndex((place) => place.table.key(place.row) && startOf(place) <= from.endMs)
    if (entry < 0) return null
    const atMs = startOf(to.places[entry] as Place)
    const cut = from.places.findIndex((place, at) => at >= begun && startOf(place) >= atMs + unsureMs)
    return { cut: cut < 0 ? from.places.length : cut, entry }
  }

  /** Of those that go on behind the end of one, the one that goes furthest. Who is asked of and covered leaves `left`. */
  const onwards = Effect.fnUntraced(function*(from: Stretch, begun: number, left: Array<Stretch>) {
    const near = left.filter(({ endMs, startMs }) => startMs <= from.endMs + besideMs && endMs > from.endMs - besideMs)
      .sort((a, b) => b.endMs - a.endMs)
    const strange: Array<Stretch> = []
    for (const stretch of near) {
      const found: Seam | "covered" | null = yield* seam(from, begun, stretch)
      if (found === null) strange.push(stretch)
      else {
        left.splice(left.indexOf(stretch), 1)
        if (found !== "covered") return { ...found, stretch } satisfies Joined
      }
    }
    for (const stretch of strange) {
      const found = byClock(from, begun, stretch)
      if (found === null) continue
      left.splice(left.indexOf(stretch), 1)
      return { ...found, stretch } satisfies Joined
    }
    return null
  })

  const walk = Effect.fnUntraced(function*(cluster: ReadonlyArray<SegmentFile>) {
    const lanes = new Map<string, Array<Place>>()
    for (const file of cluster) {
      const table = yield* reads.table(file)
      if (table === null) continue
      const lane = lanes.get(laneOf(file)) ?? []
      for (let row = 0; row < table.length; row++) lane.push({ file, table, row })
      lanes.set(laneOf(file), lane)
    }
    const left = [...lanes.values()].flatMap(stretchesOf).sort((a, b) => a.startMs - b.startMs || b.endMs - a.endMs)
    const shown: Array<Place> = []
    let reachedMs = Number.NEGATIVE_INFINITY
    while (left.length > 0) {
      let current = left.shift() as Stretch
      if (current.endMs <= reachedMs) continue
      // What could not be joined begins where the one before it ended.
      let begun = Math.max(0, current.places.findIndex((place) => startOf(place) >= reachedMs - joinMs))
      for (;;) {
        const next: Joined | null = yield* onwards(current, begun, left)
        if (next === null) break
        shown.push(...current.places.slice(begun, next.cut))
        current = next.stretch
        begun = next.entry
      }
      shown.push(...current.places.slice(begun))
      reachedMs = Math.max(reachedMs, current.endMs)
    }
    return sharesOf(shown)
  })

  const shown: Array<Shown> = []
  for (const cluster of clustersOf(files, laneOf)) {
    if (new Set(cluster.map(laneOf)).size === 1) shown.push(...cluster.map(whole))
    else shown.push(...yield* walk(cluster))
  }
  return shown
})
