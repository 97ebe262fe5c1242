/**
 * The local journal: every change of what is stored or missing on this node, in order, until somebody else has stored it.
 *
 * Invariants
 * 1. Positions only grow, over restarts too. A journal that begins anew (first start, lost file) begins at the present
 *    millisecond, so that no reader has seen a greater position.
 * 2. What is read is durable, as long as the disk takes writes at all (see `read`).
 * 3. It holds at most `maxBytes`; beyond, the oldest entries go and `lostAt` tells the position of the newest loss, until one
 *    is acknowledged that is not older.
 * 4. A `FileGrown` that a newer entry of the same file has overtaken is dropped: a database that is away for weeks costs
 *    two entries a file.
 * 5. A file that was told as opened is remembered until it is told as sealed or deleted, acknowledged or not, over restarts
 *    (`unsettled`): a process that dies leaves its end for the next one to tell.
 */
import { JournalEntry } from "#media/recorder.ts"
import { SegmentFile } from "#schema/record.ts"
import { Effect, Latch, Option, Schema, type Scope } from "effect"
import type { LineDisk, LineDiskError } from "./line-disk.ts"
import { decodeLines, makeLineLog } from "./line-log.ts"

/** An entry that has no position yet. */
export type JournalDraft = JournalEntry extends infer E ?
  E extends { readonly position: number } ? Omit<E, "position"> : never :
  never

export interface Journal {
  readonly append: (drafts: ReadonlyArray<JournalDraft>) => void
  /** Entries after `position`. Waits for the disk, but not longer than 5 s: a dead disk must not hide what happened. */
  readonly read: (position: number, limit: number) => Effect.Effect<ReadonlyArray<JournalEntry>>
  readonly awaitEntry: (position: number) => Effect.Effect<void>
  readonly acknowledge: (position: number) => void
  readonly acknowledged: () => number
  /** Entries up to here may be missing; null: none is. */
  readonly lostAt: () => number | null
  /** Files whose end was not told yet, as they were told last (invariant 5). */
  readonly unsettled: () => ReadonlyArray<SegmentFile>
}

export interface JournalOptions {
  readonly maxBytes: number
  readonly retryMs: number
  readonly nowMs: number
  /** Footage is there already: a missing journal means that entries were lost. */
  readonly footage: boolean
}

const Mark = Schema.Union([
  Schema.TaggedStruct("Acknowledged", { position: Schema.Int }),
  Schema.TaggedStruct("Overflowed", { position: Schema.Int }),
  /** The newest position given out, where no entry tells it. */
  Schema.TaggedStruct("Newest", { position: Schema.Int }),
  /** A file that has no end yet; the entries that told of it are acknowledged. */
  Schema.TaggedStruct("Unsettled", { position: Schema.Int, file: SegmentFile }),
])
const decodeLine = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Union([JournalEntry, Mark])))
const encodeEntry = Schema.encodeSync(Schema.fromJsonString(JournalEntry))
const encodeMark = Schema.encodeSync(Schema.fromJsonString(Mark))

interface Kept {
  readonly entry: JournalEntry
  readonly json: string
}

const fileOf = (entry: JournalEntry | JournalDraft): string | null => "file" in entry ? entry.file.id : null

/** Invariant 5. */
const makeUnsettled = () => {
  const files = new Map<string, SegmentFile>()
  return {
    files,
    note: (entry: JournalDraft | typeof Mark.Type) => {
      if (!("file" in entry)) return
      if (entry._tag === "FileSealed" || entry._tag === "FileDeleted") files.delete(entry.file.id)
      else files.set(entry.file.id, entry.file)
    },
  }
}

/** What is held in memory, by rising position. */
const makeKept = () => {
  const kept = new Map<number, Kept>()
  const grown = new Map<string, number>()
  let bytes = 0
  const drop = (position: number) => {
    const item = kept.get(position)
    if (item === undefined) return
    kept.delete(position)
    bytes -= item.json.length
    const file = fileOf(item.entry)
    if (file !== null && grown.get(file) === position) grown.delete(file)
  }
  return {
    drop,
    add: (entry: JournalEntry, json: string) => {
      const file = fileOf(entry)
      if (file !== null) {
        const overtaken = grown.get(file)
        if (overtaken !== undefined) drop(overtaken)
        if (entry._tag === "FileGrown") grown.set(file, entry.position)
      }
      kept.set(entry.position, { entry, json })
      bytes += json.length
    },
    /** A map keeps the order of insertion, which is the order of positions. */
    oldest: () => kept.keys().next().value,
    entries: () => kept.values(),
    bytes: () => bytes,
  }
}

export const makeJournal = Effect.fnUntraced(
  function*(disk: LineDisk, options: JournalOptions): Effect.fn.Return<Journal, LineDiskError, Scope.Scope> {
    const text = yield* disk.load
    const { lines, damaged } = decodeLines(text)
    const kept = makeKept()
    const unsettled = makeUnsettled()
    let newest = 0
    let acknowledged = 0
    let overflow: number | null = null
    for (const line of lines) {
      const decoded = decodeLine(line)
      if (Option.isNone(decoded)) continue
      const found = decoded.value
      newest = Math.max(newest, found.position)
      unsettled.note(found)
      if (found._tag === "Acknowledged") acknowledged = Math.max(acknowledged, found.position)
      else if (found._tag === "Overflowed") overflow = found.position
      else if (found._tag !== "Newest" && found._tag !== "Unsettled") kept.add(found, line)
    }
    for (let p = kept.oldest(); p !== undefined && p <= acknowledged; p = kept.oldest()) kept.drop(p)
    if (overflow !== null && acknowledged >= overflow) overflow = null
    if (newest === 0) {
      newest = options.nowMs
      if (options.footage) overflow = newest
    }

    const compacted = () => [
      encodeMark({ _tag: "Newest", position: newest }),
      ...acknowledged > 0 ? [encodeMark({ _tag: "Acknowledged", position: acknowledged })] : [],
      ...overflow === null ? [] : [encodeMark({ _tag: "Overflowed", position: overflow })],
      // Entries that are kept come behind and are newer.
      ...Array.from(unsettled.files.values(), (file) => encodeMark({ _tag: "Unsettled", position: newest, file })),
      ...Array.from(kept.entries(), (item) => item.json),
    ]
    const log = yield* makeLineLog(disk, text.length, {
      maxPendingBytes: options.maxBytes,
      retryMs: options.retryMs,
      compacted,
    })
    // A fresh journal, and one with a torn end, starts from a clean file.
    if (lines.length === 0 || damaged > 0 || !text.endsWith("\n")) log.rewrite()
    const grew = Latch.makeUnsafe(false)
    /** Live bytes double at most before the file is rewritten; small files are left alone. */
    const tidy = () => {
      if (log.durable() && log.bytes() > 2 * kept.bytes() + 1_048_576) log.rewrite()
    }

    return {
      append: (drafts) => {
        if (drafts.length === 0) return
        const written: Array<string> = []
        for (const draft of drafts) {
          newest++
          const entry = { ...draft, position: newest } as JournalEntry
          const json = encodeEntry(entry)
          kept.add(entry, json)
          unsettled.note(draft)
          written.push(json)
        }
        log.append(written)
        if (kept.bytes() > options.maxBytes) {
          for (let p = kept.oldest(); p !== undefined && kept.bytes() > options.maxBytes * 0.75; p = kept.oldest()) {
            kept.drop(p)
          }
          overflow = newest
          log.rewrite()
        } else tidy()
        grew.openUnsafe()
      },
      read: (position, limit) =>
        Effect.andThen(
          log.flush("5 seconds"),
          Effect.sync(() => {
            const found: Array<JournalEntry> = []
            for (const { entry } of kept.entries()) {
              if (entry.position <= position) continue
              if (found.length >= limit) break
              found.push(entry)
            }
            return found
          }),
        ),
      awaitEntry: (position) =>
        Effect.gen(function*() {
          while (true) {
            // Closed before it looks: what is appended from here on opens it again, however late the wait begins.
            grew.closeUnsafe()
            if (newest > position && kept.oldest() !== undefined) return
            yield* grew.await
          }
        }),
      acknowledge: (position) => {
        const upTo = Math.min(position, newest)
        if (upTo <= acknowledged) return
        acknowledged = upTo
        for (let p = kept.oldest(); p !== undefined && p <= upTo; p = kept.oldest()) kept.drop(p)
        if (overflow !== null && upTo >= overflow) overflow = null
        log.append([encodeMark({ _tag: "Acknowledged", position: upTo })])
        tidy()
      },
      acknowledged: () => acknowledged,
      lostAt: () => overflow,
      unsettled: () => [...unsettled.files.values()],
    }
  },
)
