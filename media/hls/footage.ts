/**
 * Gathers what a playlist is made of: the files of an interval, their indexes and the parts of the playlist they give.
 *
 * Invariants
 * 1. The part of a whole sealed file is made once and shared; edges of the interval and the growing file are made each time.
 * 2. A file whose index cannot be read is left out and logged; the others play.
 * 3. What a growing playlist has listed keeps its place: a file deleted meanwhile stays as gaps, from memory of the latest
 *    `rememberedSources` growing sources.
 */
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect } from "effect"
import { createHash } from "node:crypto"
import type { HlsSource } from "../hls.ts"
import type { IndexEntry, Storage, StorageError } from "../storage.ts"
import { makeLru } from "../storage/lru.ts"
import { isFinished, isSettled, type LayoutOf } from "./layouts.ts"
import { initName, prefixOf } from "./names.ts"
import { type Layout, type Part, partOf } from "./parts.ts"
import { entriesWithin, isSameRun, segmentsOf } from "./plan.ts"
import type { PlacedPart } from "./playlist.ts"

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
  /** Least target duration, seconds. */
  readonly leastTargetSeconds: number
}

/** About 200 bytes each: 4,096 files are four weeks of one camera. */
const rememberedFacts = 4_096
/** Characters of playlist text: about 7 KB a file of 10 minutes, so some 2,400 files. */
const rememberedText = 16 * 1024 * 1024
const rememberedSources = 64
/** Index reads under way at a time: enough to keep a disk busy, few enough to leave the thread pool to the recorder. */
const readsAtATime = 4

const layoutKey = ({ content, grouping }: Layout) =>
  `${content.kind === "text" ? "t" : prefixOf(content)}/${grouping.targetTicks}`

const initOf = (file: SegmentFile, layout: Layout): string | null => {
  if (layout.content.kind === "text") return null
  return initName(file.id, layout.content.kind === "all")
}

const liesWithin = (file: SegmentFile, source: HlsSource) =>
  file.startMs >= source.start && (source.end === null || file.endMs <= source.end)

const longestSeconds = (entries: ReadonlyArray<IndexEntry>, layout: Layout): number =>
  segmentsOf(entries, { from: 0, to: entries.length }, layout.grouping, false)
    .reduce((longest, segment) => Math.max(longest, Math.round(segment.durationTicks / 90_000)), 0)

export const makeGatherer = (storage: Storage["Service"]) => {
  const facts = makeLru<FileFacts>(rememberedFacts, () => 1)
  const parts = makeLru<Part>(rememberedText, (part) => part.text.length)
  const published = makeLru<ReadonlyArray<PlacedPart>>(rememberedSources, () => 1)

  const readFacts = Effect.fnUntraced(function*(file: SegmentFile) {
    const known = facts.get(file.id)
    if (known !== undefined) return known
    const parameters = yield* storage.parameters(file)
    const init = yield* storage.init(file)
    const found = { parameters, key: createHash("sha1").update(init).digest("base64url") }
    facts.set(file.id, found)
    return found
  })

  /** Index of a file, unless its part is known in some layout: then its facts are, too, and the part is looked up by them. */
  const readIndex = Effect.fnUntraced(function*(source: HlsSource, layoutOf: LayoutOf, file: SegmentFile) {
    const whole = file.sealed && liesWithin(file, source)
    const known = whole ? facts.get(file.id) : undefined
    const part = known === undefined ? undefined : parts.get(partKey(file, layoutOf(known.parameters)))
    if (part !== undefined) return { file, whole, part, entries: null }
    const entries = yield* storage.index(file)
    return { file, whole, part: null, entries }
  })

  /**
   * Facts of a file. Footage of one run has one set of parameters, so a day of one camera mostly needs a single look at the
   * front of a file.
   */
  const factsOf = (read: Read, previous: Placed | null) => {
    const first = read.part?.first ?? read.entries?.[0]
    const runsOn = previous !== null && first !== undefined && previous.file.epoch === read.file.epoch &&
      previous.file.nodeId === read.file.nodeId && isSameRun(previous.last, first)
    if (!runsOn) return readFacts(read.file)
    facts.set(read.file.id, previous.facts)
    return Effect.succeed(previous.facts)
  }

  /** The part of one file; `complete`: nothing will be added to it within the interval. */
  const place = (source: HlsSource, layoutOf: LayoutOf, read: Read, known: FileFacts, complete: boolean) => {
    const { entries, file, whole } = read
    const layout = layoutOf(known.parameters)
    let part = read.part
    let passedEnd = false
    if (entries !== null) {
      passedEnd = source.end !== null && (entries.at(-1)?.startMs ?? 0) >= source.end
      const range = whole ? { from: 0, to: entries.length } : entriesWithin(entries, source.start, source.end)
      part = partOf(file.id, entries, segmentsOf(entries, range, layout.grouping, complete || passedEnd), layout)
      if (whole && part !== null) parts.set(partKey(file, layout), part)
    }
    const placed: PlacedPart | null = part === null ? null : {
      file,
      part,
      parameters: known.parameters,
      parametersKey: `${known.key}/${layoutKey(layout)}`,
      init: initOf(file, layout),
      lost: false,
    }
    return { placed, passedEnd }
  }

  const leftOut = (file: SegmentFile) => (error: StorageError) =>
    Effect.as(Effect.logWarning(`Footage file ${file.id} left out of a playlist`, error.message), null)

  const gather = Effect.fnUntraced(function*(source: HlsSource, layoutOf: LayoutOf, kind: string) {
    const settled = isSettled(source, yield* Clock.currentTimeMillis)
    const files = filesOf(storage, source)
    const reads = yield* Effect.forEach(
      files,
      (file) => Effect.catchTag(readIndex(source, layoutOf, file), "StorageError", leftOut(file)),
      { concurrency: readsAtATime },
    )
    const present: Array<PlacedPart> = []
    let ended = settled
    let leastTargetSeconds = 0
    let previous: Placed | null = null
    for (const [i, read] of reads.entries()) {
      if (read === null) continue
      const found: FileFacts | null = yield* Effect.catchTag(
        factsOf(read, previous),
        "StorageError",
        leftOut(read.file),
      )
      if (found === null) continue
      const { passedEnd, placed } = place(
        source,
        layoutOf,
        read,
        found,
        settled || read.file.sealed || i < files.length - 1,
      )
      const last = read.entries?.at(-1) ?? read.part?.last
      previous = last === undefined ? null : { file: read.file, facts: found, last }
      if (placed !== null) present.push(placed)
      ended ||= passedEnd
      if (i === files.length - 1 && !isFinished(source) && read.entries !== null) {
        leastTargetSeconds = longestSeconds(read.entries, layoutOf(found.parameters))
      }
    }
    const name = `${kind}/${keyOf(source)}`
    const all = isFinished(source) ? present : withLost(published.get(name) ?? [], present)
    if (!isFinished(source)) published.set(name, all)
    return { parts: all, ended, leastTargetSeconds } satisfies Gathered
  })

  return { gather }
}

/** One file as it was found: its part if that was known, its index otherwise. */
interface Read {
  readonly file: SegmentFile
  /** All of it lies in the interval, and it will not grow. */
  readonly whole: boolean
  readonly part: Part | null
  readonly entries: ReadonlyArray<IndexEntry> | null
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

/** Puts back, as gaps, what was listed before the oldest file that is still there. */
const withLost = (before: ReadonlyArray<PlacedPart>, present: ReadonlyArray<PlacedPart>): ReadonlyArray<PlacedPart> => {
  const there = new Set(present.map((placed) => placed.file.id))
  const lost = before.filter((placed) => !there.has(placed.file.id))
  if (lost.length === 0) return present
  const kept = new Map(present.map((placed) => [placed.file.id, placed]))
  const known = new Set(before.map((placed) => placed.file.id))
  return [
    ...before.map((placed) => kept.get(placed.file.id) ?? { ...placed, lost: true }),
    ...present.filter((placed) => !known.has(placed.file.id)),
  ]
}
