/**
 * Gathers what a playlist is made of: the files of an interval, their indexes and the parts of the playlist they give.
 *
 * Invariants
 * 1. The part of a whole sealed file is made once and shared; edges of the interval and the growing file are made each time.
 * 2. A file whose index cannot be read is left out and logged; the others play.
 * 3. The target duration of a growing playlist comes from footage older than its session, so that every look, and every process,
 *    finds the same.
 * 4. What a growing playlist has listed keeps its place: a file deleted meanwhile stays as gaps, from memory of the latest
 *    `rememberedSources` growing sources. What came home from another node meanwhile is found by the next source.
 * 5. Pictures that several nodes recorded are shown once (see `storage/seams.ts`).
 */
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"
import { hash } from "node:crypto"
import type { HlsSource } from "../hls.ts"
import { type IndexEntry, type Storage, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { makeLru } from "../storage/lru.ts"
import type { Shown } from "../storage/seams.ts"
import {
  certainUntil,
  growingTarget,
  isFinished,
  isSettled,
  type LayoutOf,
  mediaLayout,
  showsKeys,
  textLayout,
} from "./layouts.ts"
import { initName, prefixOf } from "./names.ts"
import { type Layout, type Part, partOf } from "./parts.ts"
import { isSameRun, longestGroupTicks, planOf, rowsWithin } from "./plan.ts"
import type { PlacedPart } from "./playlist.ts"
import { makeTails } from "./tails.ts"

export type PlaylistKind = "master" | "media" | "text"

/** What never changes about a file. */
interface FileFacts {
  readonly parameters: TrackParameters
  /** Equal for files with equal initializations. */
  readonly key: string
}

/** A playlist's content at one moment. */
export interface Gathered {
  readonly parts: ReadonlyArray<PlacedPart>
  readonly ended: boolean
  /** Target duration, seconds; null where the footage is complete. */
  readonly targetSeconds: number | null
}

/** About 200 bytes each: 4,096 files are four weeks of one camera. */
const rememberedFacts = 4_096
/** Characters of playlist text: about 8 KB a file of 10 minutes, so some 2,000 files. */
const rememberedText = 16 * 1024 * 1024
const rememberedSources = 64
/** A number each. */
const rememberedTargets = 4_096
/** Files whose groups of pictures tell the target duration: the one that grew when the session began, and the one before. */
const filesForTarget = 2

const layoutKey = ({ content, grouping }: Layout) =>
  `${content.kind === "text" ? "t" : prefixOf(content)}/${grouping.targetTicks}/${grouping.longestTicks}`

const initOf = (file: SegmentFile, layout: Layout): string | null => {
  if (layout.content.kind === "text") return null
  return initName(file.id, layout.content.kind === "all")
}

const isWhole = ({ file, from, to }: Shown) => file.sealed && from === 0 && to === Number.POSITIVE_INFINITY

const liesWithin = (file: SegmentFile, source: HlsSource) =>
  file.startMs >= source.start && (source.end === null || file.endMs <= source.end)

const noCuts: ReadonlySet<number> = new Set()

export const makeGatherer = (storage: Storage["Service"]) => {
  const facts = makeLru<FileFacts>(rememberedFacts, () => 1)
  const madeParts = makeLru<Part>(rememberedText, (part) => part.text.length)
  const published = makeLru<ReadonlyArray<PlacedPart>>(rememberedSources, () => 1)
  const targets = makeLru<number>(rememberedTargets, () => 1)
  const tails = makeTails()

  const readFacts = Effect.fnUntraced(function*(file: SegmentFile) {
    const known = facts.get(file.id)
    if (known !== undefined) return known
    const parameters = yield* storage.parameters(file)
    const init = yield* storage.init(file)
    const found = { parameters, key: hash("sha1", init, "base64url") }
    facts.set(file.id, found)
    return found
  })

  /** Part of a file that was made before: then its facts are known, too, and the part is looked up by them. */
  const knownPart = (layoutOf: LayoutOf, file: SegmentFile): Part | null => {
    const known = facts.get(file.id)
    return known === undefined ? null : madeParts.get(partKey(file, layoutOf(known.parameters))) ?? null
  }

  const fill = Effect.fnUntraced(function*(reads: ReadonlyArray<Read>, door: Storage["Service"]["fragments"]) {
    if (reads.length === 0) return
    const tables = yield* door(reads.map((read) => read.file))
    for (const [i, read] of reads.entries()) {
      const table = tables[i]
      if (table instanceof StorageError) yield* leftOut(read.file, table)
      else read.table = table ?? null
    }
  })

  /** What is known of each file, and of the others the outlines or, unless `coarse`, the indexes. */
  const readAll = Effect.fnUntraced(
    function*(source: HlsSource, layoutOf: LayoutOf, all: ReadonlyArray<Shown>, coarse: boolean) {
      const reads = all.map((shown): Read => {
        const { file } = shown
        const whole = isWhole(shown) && liesWithin(file, source)
        return { file, shown, whole, part: whole ? knownPart(layoutOf, file) : null, table: null }
      })
      const missing = reads.filter((read) => read.part === null)
      yield* fill(missing.filter((read) => !(coarse && read.whole)), storage.fragments)
      yield* fill(missing.filter((read) => coarse && read.whole), storage.outlines)
      return reads.filter((read) => read.part !== null || read.table !== null)
    },
  )

  /**
   * Footage of one run has one set of parameters, so a day of one camera mostly needs a single look at the front of a file.
   */
  const inherited = (read: Read, previous: Placed | null): FileFacts | null => {
    if (previous === null || previous.file.epoch !== read.file.epoch || previous.file.nodeId !== read.file.nodeId) {
      return null
    }
    const first = read.part?.first ?? (read.table?.length ? read.table.at(0) : undefined)
    if (first === undefined || !isSameRun(previous.last, first)) return null
    facts.set(read.file.id, previous.facts)
    return previous.facts
  }

  /** The part of one file. */
  const place = (source: HlsSource, layoutOf: LayoutOf, read: Read, known: FileFacts, end: End) => {
    const { file, shown, table, whole } = read
    const layout = layoutOf(known.parameters)
    let { part } = read
    let passedEnd = false
    if (table !== null) {
      passedEnd = source.end !== null && table.length > 0 && table.startMs(table.length - 1) >= source.end
      const asked = whole ? { from: 0, to: table.length } : rowsWithin(table, source.start, source.end)
      const rows = { from: Math.max(asked.from, shown.from), to: Math.min(asked.to, shown.to) }
      // What came since the list of files was made shows that it is not quiet.
      const letOut = end.quiet && !passedEnd && table.length === file.fragments
      if (letOut && rows.to > rows.from) tails.letOut(file.id, rows.to)
      const cuts = end.finished ? noCuts : tails.cutsOf(file.id)
      const plan = planOf(table, rows, layout.grouping, { complete: end.complete || passedEnd || letOut, cuts })
      part = partOf(file.id, table, plan, layout)
      if (whole && part !== null) madeParts.set(partKey(file, layout), part)
    }
    const placed: PlacedPart | null = part === null ? null : {
      file,
      from: shown.from,
      part,
      parameters: known.parameters,
      parametersKey: `${known.key}/${layoutKey(layout)}`,
      init: initOf(file, layout),
      lost: false,
    }
    return { placed, passedEnd }
  }

  const leftOut = (file: SegmentFile, error: StorageError) =>
    Effect.logWarning(`Footage file ${file.id} left out of a playlist`, error.message)

  const targetOf = Effect.fnUntraced(function*(source: HlsSource) {
    if (isFinished(source)) return null
    const name = keyOf(source)
    const known = targets.get(name)
    if (known !== undefined) return known
    const until = certainUntil(source)
    const files = storage.files(source.recordingId, { start: 0, end: until }).slice(-filesForTarget)
    const tables = yield* storage.fragments(files)
    const target = growingTarget(source, tables.reduce((most, table) => Math.max(most, groupTicksBy(table, until)), 0))
    targets.set(name, target)
    return target
  })

  /** Nothing comes any more at the end of a growing source. */
  const isQuiet = (source: HlsSource, files: ReadonlyArray<SegmentFile>, nowMs: number): boolean => {
    const last = files.at(-1)
    return last !== undefined && !isFinished(source) && tails.isQuiet(last, nowMs)
  }

  const gather = Effect.fnUntraced(function*(source: HlsSource, kind: PlaylistKind) {
    const nowMs = yield* Clock.currentTimeMillis
    const finished = isFinished(source)
    const settled = isSettled(source, nowMs)
    const targetSeconds = yield* targetOf(source)
    const layoutOf = (kind === "text" ? textLayout : mediaLayout)(source, targetSeconds)
    const name = `${kind}/${keyOf(source)}`
    const before = finished ? [] : published.get(name) ?? []
    const files = filesOf(storage, source).filter(isExpected(before))
    const newest = files.at(-1)?.id
    const quiet = isQuiet(source, files, nowMs)
    const shown = yield* storage.shown(files)
    const present: Array<PlacedPart> = []
    let ended = settled
    let previous: Placed | null = null
    for (const read of yield* readAll(source, layoutOf, shown, finished && !showsKeys(source))) {
      const { file } = read
      const known: FileFacts | null = inherited(read, previous) ??
        (yield* Effect.catchTag(readFacts(file), "StorageError", (error) => Effect.as(leftOut(file, error), null)))
      if (known === null) continue
      const growing = file.id === newest && !file.sealed && read.shown.to === Number.POSITIVE_INFINITY
      const { passedEnd, placed } = place(source, layoutOf, read, known, {
        complete: settled || !growing,
        quiet: quiet && growing,
        finished,
      })
      const last = read.table?.length ? read.table.at(read.table.length - 1) : read.part?.last
      previous = last === undefined ? null : { file, facts: known, last }
      if (placed !== null) present.push(placed)
      ended ||= passedEnd
    }
    const parts = finished ? present : withLost(before, present)
    if (!finished) published.set(name, parts)
    return { parts, ended, targetSeconds } satisfies Gathered
  })

  return { gather, isQuiet }
}

/** What is known of the end of a file. */
interface End {
  /** Nothing will be added within the interval. */
  readonly complete: boolean
  /** Nothing was added for a while. */
  readonly quiet: boolean
  /** The playlist was complete from the first. */
  readonly finished: boolean
}

/** Longest group of pictures that had ended by then. */
const groupTicksBy = (table: FragmentTable | StorageError, until: number): number => {
  if (table instanceof StorageError) return 0
  let rows = table.length
  while (rows > 0 && table.endMs(rows - 1) > until) rows--
  return longestGroupTicks(table, rows)
}

/** One file as it was found: its part if that was known, its index otherwise; neither if it cannot be read. */
interface Read {
  readonly file: SegmentFile
  readonly shown: Shown
  /** All of it lies in the interval, and it will not grow. */
  readonly whole: boolean
  readonly part: Part | null
  table: FragmentTable | null
}

/** The file before. */
interface Placed {
  readonly file: SegmentFile
  readonly facts: FileFacts
  readonly last: IndexEntry
}

const partKey = (file: SegmentFile, layout: Layout) => `${file.id}/${layoutKey(layout)}`

/** Files of a source, by start. */
export const filesOf = (storage: Storage["Service"], source: HlsSource): ReadonlyArray<SegmentFile> =>
  storage.files(source.recordingId, { start: source.start, end: source.end ?? Number.MAX_SAFE_INTEGER })

/** Names a source in memory. */
export const keyOf = (source: HlsSource): string =>
  `${source.recordingId}/${source.start}/${source.end ?? ""}/${source.speed}/${source.createdAt}`

const nameOf = ({ file, from }: Pick<PlacedPart, "file" | "from">) => `${file.id}/${from}`

/** Invariant 4: what was listed, and what goes on behind it. */
const isExpected = (before: ReadonlyArray<PlacedPart>) => {
  const last = before.at(-1)
  const listed = new Set(before.map(({ file }) => file.id))
  return (file: SegmentFile) => last === undefined || file.startMs >= last.part.startMs || listed.has(file.id)
}

/** Puts back, as gaps, what was listed before the oldest file that is still there. */
const withLost = (before: ReadonlyArray<PlacedPart>, present: ReadonlyArray<PlacedPart>): ReadonlyArray<PlacedPart> => {
  const kept = new Map(present.map((placed) => [nameOf(placed), placed]))
  if (before.every((placed) => kept.has(nameOf(placed)))) return present
  const known = new Set(before.map(nameOf))
  return [
    ...before.map((placed) => kept.get(nameOf(placed)) ?? { ...placed, lost: true }),
    ...present.filter((placed) => !known.has(nameOf(placed))),
  ]
}
