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
import type { IndexEntry, Storage } from "../storage.ts"
import { makeLru } from "../storage/lru.ts"
import { isFinished, isSettled, type LayoutOf } from "./layouts.ts"
import { initName, prefixOf } from "./names.ts"
import { type Layout, type Part, partOf } from "./parts.ts"
import { entriesWithin, segmentsOf } from "./plan.ts"
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

  const factsOf = Effect.fnUntraced(function*(file: SegmentFile) {
    const known = facts.get(file.id)
    if (known !== undefined) return known
    const parameters = yield* storage.parameters(file)
    const init = yield* storage.init(file)
    const found = { parameters, key: createHash("sha1").update(init).digest("base64url") }
    facts.set(file.id, found)
    return found
  })

  /** The part of one file; `complete`: nothing will be added to it within the interval. */
  const placeFile = Effect.fnUntraced(
    function*(source: HlsSource, layoutOf: LayoutOf, file: SegmentFile, state: FileState) {
      const { key, parameters } = yield* factsOf(file)
      const layout = layoutOf(parameters)
      const place = (part: Part): PlacedPart => ({
        file,
        part,
        parameters,
        parametersKey: `${key}/${layoutKey(layout)}`,
        init: initOf(file, layout),
        lost: false,
      })
      const cacheKey = `${file.id}/${layoutKey(layout)}`
      const whole = file.sealed && liesWithin(file, source)
      const known = whole ? parts.get(cacheKey) : undefined
      if (known !== undefined) return { placed: place(known), passedEnd: false, longest: 0 }
      const entries = yield* storage.index(file)
      const passedEnd = source.end !== null && (entries.at(-1)?.startMs ?? 0) >= source.end
      const range = whole ? { from: 0, to: entries.length } : entriesWithin(entries, source.start, source.end)
      const part = partOf(
        file.id,
        entries,
        segmentsOf(entries, range, layout.grouping, state.complete || passedEnd),
        layout,
      )
      if (whole && part !== null) parts.set(cacheKey, part)
      return {
        placed: part === null ? null : place(part),
        passedEnd,
        longest: state.growing ? longestSeconds(entries, layout) : 0,
      }
    },
  )

  const gather = Effect.fnUntraced(function*(source: HlsSource, layoutOf: LayoutOf, kind: string) {
    const settled = isSettled(source, yield* Clock.currentTimeMillis)
    const files = filesOf(storage, source)
    const last = files.at(-1)
    const placed = yield* Effect.forEach(files, (file) =>
      placeFile(source, layoutOf, file, {
        complete: settled || file.sealed || file !== last,
        growing: file === last && !isFinished(source),
      }).pipe(Effect.catchTag("StorageError", (error) =>
        Effect.as(Effect.logWarning(`Footage file ${file.id} left out of a playlist`, error.message), null))), {
      concurrency: readsAtATime,
    })
    const present = placed.flatMap((one) => one === null || one.placed === null ? [] : [one.placed])
    const all = isFinished(source) ? present : withLost(published.get(`${kind}/${keyOf(source)}`) ?? [], present)
    if (!isFinished(source)) published.set(`${kind}/${keyOf(source)}`, all)
    return {
      parts: all,
      ended: settled || placed.some((one) => one?.passedEnd === true),
      leastTargetSeconds: placed.reduce((longest, one) => Math.max(longest, one?.longest ?? 0), 0),
    } satisfies Gathered
  })

  return { gather, factsOf }
}

export type Gatherer = ReturnType<typeof makeGatherer>

interface FileState {
  readonly complete: boolean
  readonly growing: boolean
}

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
