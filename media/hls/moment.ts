/**
 * What is shown of a stretch of time, found by the time alone: for players that were told of footage by a node that has given it away
 * since. See {@link MomentName}.
 *
 * Invariants
 * 1. Stretches that follow each other give each fragment once: one belongs to the stretch that it begins in, give or take
 *    {@link strayMs}, by which a playlist's clock may differ from the fragments'.
 * 2. Footage that is the same, moved, comes byte for byte. Another node's of the same moments comes at the decode time that was asked for,
 *    so that it stands where the player expects it.
 * 3. Nothing outside the source's recording and interval, and nothing of more than {@link longestMs}.
 */
import { videoClockHz } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Stream } from "effect"
import { moveFragment } from "../fmp4.ts"
import type { HlsMedia, HlsSource, HlsText } from "../hls.ts"
import { type Storage, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { hideFragmentSound, hideSound, videoTrackOf } from "./boxes.ts"
import { filesOf } from "./footage.ts"
import type { MomentName, Variant } from "./names.ts"
import { keyEntries, type Rows, rowsWithin } from "./plan.ts"
import { damaged, inMemory, pieces, readExactly, readKeys, withHandle } from "./reading.ts"
import { cuesOf } from "./vtt.ts"

const ticksPerMs = videoClockHz / 1000
/** A wall clock is written anew in a playlist where it strays by more than 40 ms. */
const strayMs = 60
/** Decode times that differ by less are the same, rounded. */
const sameTicks = 100 * ticksPerMs
/** Longer than any segment: of text, a minute; of key pictures, one group beyond the longest. */
const longestMs = 10 * 60_000

/** Rows of one file that begin in the stretch. */
interface Share {
  readonly file: SegmentFile
  readonly table: FragmentTable
  readonly rows: Rows
  /** So much later it is served. */
  readonly movedTicks: number
}

const inBounds = (table: FragmentTable, allowed: Rows, start: number, end: number): Rows => {
  let { from, to } = allowed
  while (from < to && table.startMs(from) < start - strayMs) from++
  while (to > from && table.startMs(to - 1) >= end - strayMs) to--
  return { from, to }
}

const movedOf = (table: FragmentTable, row: number, { start, ticks }: MomentName): number => {
  if (ticks === null) return 0
  const moved = Math.round(ticks + (table.startMs(row) - start) * ticksPerMs - table.decodeTicks(row))
  return Math.abs(moved) < sameTicks ? 0 : moved
}

export const makeMoments = (storage: Storage["Service"]) => {
  const sharesOf = Effect.fnUntraced(function*(source: HlsSource, name: MomentName) {
    const { end, start } = name
    if (end <= start || end - start > longestMs) return []
    // Of the whole interval, so that each stretch finds the same seams.
    const shown = (yield* storage.shown(filesOf(storage, source))).filter(({ file }) =>
      file.startMs < end + strayMs && file.endMs > start - strayMs
    )
    const tables = yield* storage.fragments(shown.map(({ file }) => file))
    const shares: Array<Share> = []
    for (const [at, { file, from, to }] of shown.entries()) {
      const table = tables[at]
      if (table === undefined) continue
      if (table instanceof StorageError) return yield* table
      const needed = rowsWithin(table, source.start, source.end)
      const allowed = { from: Math.max(needed.from, from), to: Math.min(needed.to, to) }
      const rows = inBounds(table, allowed, start, end)
      if (rows.to > rows.from) shares.push({ file, table, rows, movedTicks: movedOf(table, rows.from, name) })
    }
    return shares
  })

  /** Whole fragments, cut to `[from, to)` of all of them together. */
  const fragments = (shares: ReadonlyArray<Share & { readonly video: number | null; readonly audioHz: number }>) => {
    let bytes = 0
    const placed = shares.map((share) => {
      const { rows, table } = share
      const at = bytes
      for (let row = rows.from; row < rows.to; row++) bytes += table.bytes(row)
      return { share, at, end: bytes }
    })
    const read: HlsMedia["read"] = (from, to) => {
      const wanted = placed.filter(({ at, end }) => at < to && end > from)
      return Stream.fromIterable(wanted).pipe(Stream.flatMap(({ at, share }) => {
        const { audioHz, file, movedTicks, rows, table, video } = share
        return withHandle(storage.path(file), file, (handle) => {
          const list: Array<() => Promise<Uint8Array>> = []
          let offset = at
          for (let row = rows.from; row < rows.to; offset += table.bytes(row), row++) {
            if (offset >= to || offset + table.bytes(row) <= from) continue
            const [begin, first] = [offset, row]
            list.push(async () => {
              const data = await readExactly(handle, table.offset(first), table.bytes(first))
              if (video !== null) hideFragmentSound(data, video)
              moveFragment(data, movedTicks, audioHz)
              return data.subarray(Math.max(0, from - begin), Math.min(data.length, to - begin))
            })
          }
          return pieces(file, list)
        })
      }))
    }
    return { bytes, read }
  }

  const videoOf = Effect.fnUntraced(function*(file: SegmentFile) {
    const stored = yield* storage.init(file)
    return yield* Effect.try({ try: () => videoTrackOf(stored), catch: damaged(file) })
  })

  const media = Effect.fnUntraced(function*(shares: ReadonlyArray<Share>, silent: boolean, etag: string) {
    const known = yield* Effect.forEach(shares, (share) =>
      Effect.gen(function*() {
        const { audio } = yield* storage.parameters(share.file)
        return { ...share, audioHz: audio?.sampleRate ?? 0, video: silent ? yield* videoOf(share.file) : null }
      }))
    return { kind: "media", contentType: "video/mp4", etag, ...fragments(known) } satisfies HlsMedia
  })

  const keys = Effect.fnUntraced(function*(shares: ReadonlyArray<Share>, stepMs: number, etag: string) {
    const parts: Array<Uint8Array> = []
    for (const { file, movedTicks, rows, table } of shares) {
      const entries = keyEntries(table, rows, stepMs * ticksPerMs)
        .map((entry) => ({ ...entry, decodeTicks: Math.max(0, entry.decodeTicks + movedTicks) }))
      if (entries.length === 0) continue
      const video = yield* videoOf(file)
      const endTicks = table.endTicks(rows.to - 1) + movedTicks
      parts.push(
        yield* Effect.tryPromise({
          try: () => readKeys(storage.path(file), entries, endTicks, table.endMs(rows.to - 1), video),
          catch: damaged(file),
        }),
      )
    }
    return parts.length === 0 ? null : inMemory(Buffer.concat(parts), "video/mp4", etag)
  })

  /** The initialization of what is shown there, or next. */
  const init = Effect.fnUntraced(
    function*(source: HlsSource, { end, start }: MomentName, sound: boolean, etag: string) {
      const shown = yield* storage.shown(filesOf(storage, source))
      const there = shown.find(({ file }) => file.startMs < end && file.endMs > start)
      if (there === undefined) return null
      const stored = yield* storage.init(there.file)
      const bytes = sound ? stored : yield* Effect.try({ try: () => hideSound(stored), catch: damaged(there.file) })
      return inMemory(bytes, "video/mp4", etag)
    },
  )

  const text = ({ movedTicks, rows, table }: Share): HlsText => ({
    kind: "text",
    interval: { start: table.startMs(rows.from) - 2_000, end: table.endMs(rows.to - 1) + 2_000 },
    render: (gaps) => cuesOf(table, rows, gaps, movedTicks),
  })

  return Effect.fnUntraced(function*(source: HlsSource, name: MomentName, filename: string) {
    const { what } = name
    if (what.kind === "init") return yield* init(source, name, what.sound, filename)
    const shares = yield* sharesOf(source, name)
    const [first] = shares
    if (first === undefined) return null
    if (what.kind === "text") return text(first)
    return what.kind === "keys" ?
      yield* keys(shares, what.stepMs, filename) :
      yield* media(shares, what.kind === ("video" satisfies Variant["kind"]), filename)
  })
}
