/**
 * Where playing goes next in recorded footage: fragment by fragment forwards, group by group backwards.
 *
 * Invariants
 * 1. Nothing is held but the list of files of the interval and the index of one of them.
 * 2. A walk begins with a fragment that decoding can start at: forwards the last one that begins by the asked moment, else the first
 *    one after it; backwards each group is walked from its beginning.
 * 3. A file that is gone or cannot be read is a gap like any other.
 * 4. Pictures that several nodes recorded come once (see `storage/seams.ts`). Where the recorder or its epoch changes there is a break,
 *    also where no picture is missing: its clock of decoding is another one.
 */
import type { EpochMs, Interval, RecordingId } from "#schema/common.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect } from "effect"
import { StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"
import { recorderLane, type Shown } from "../storage/seams.ts"
import type { Footage } from "./footage-reader.ts"

/** What lies between two fragments that follow each other at once, as wall clocks tell it. */
const toleranceMs = 250
/** A group whose beginning is in no fragment nearby (a camera without key pictures) is begun in its middle. */
const maxGroupRows = 600

/** Fragments `[from, to)` of a file, to be sent in their order. */
export interface Step {
  readonly file: SegmentFile
  readonly table: FragmentTable
  readonly from: number
  readonly to: number
  /** What was walked before does not lie beside it. */
  readonly broken: boolean
}

export interface WalkOptions {
  readonly recordingId: RecordingId
  readonly interval: Interval
  /** Where it begins: forwards within the interval, backwards too. */
  readonly fromMs: EpochMs
  readonly backwards: boolean
  /** Only fragments that begin with a key picture, so far apart. */
  readonly keysEveryMs: number | null
}

/** First row that ends after `ms`. */
const rowBehind = (table: FragmentTable, ms: number): number => {
  let low = 0
  let high = table.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if (table.endMs(middle) <= ms) low = middle + 1
    else high = middle
  }
  return low
}

/** First row of the group that `row` belongs to. */
const groupStart = (table: FragmentTable, row: number): number => {
  let first = row
  while (first > 0 && row - first < maxGroupRows && !table.key(first) && !table.discontinuity(first)) first--
  return first
}

export class Walk {
  private readonly storage: Footage
  private readonly options: WalkOptions
  private readonly files: ReadonlyArray<SegmentFile>
  private shown: ReadonlyArray<Shown> | null = null
  private fileAt = 0
  private table: FragmentTable | null = null
  /** Forwards the next row, backwards the one behind the next group; null: not looked for in this file yet. */
  private row: number | null = null
  private begun = false
  /** Whose footage was walked last. */
  private lane: string | null = null
  private broken = false
  /** Edge of the footage that was passed last. */
  private edgeMs: number | null = null
  private lastKeyMs: number | null = null

  constructor(storage: Footage, options: WalkOptions) {
    this.storage = storage
    this.options = options
    this.files = storage.files(options.recordingId, options.interval)
  }

  /** Null at the end of the interval. */
  readonly next: () => Effect.Effect<Step | null> = Effect.fnUntraced(function*(this: Walk) {
    if (this.shown === null) {
      this.shown = yield* this.storage.shown(this.files)
      this.fileAt = this.options.backwards ? this.shown.length - 1 : 0
    }
    for (;;) {
      const shown: Shown | undefined = this.shown[this.fileAt]
      if (shown === undefined) return null
      if (this.table === null) {
        const lane = recorderLane(shown.file)
        this.broken ||= this.begun && lane !== this.lane
        this.lane = lane
        this.table = yield* this.load(shown.file)
      }
      const { table } = this
      const step = table === null ?
        null :
        this.options.backwards ?
        this.group(shown, table) :
        this.fragment(shown, table)
      if (step === "end") return null
      if (step !== null) return step
      this.fileAt += this.options.backwards ? -1 : 1
      this.table = null
      this.row = null
    }
  })

  private load(file: SegmentFile): Effect.Effect<FragmentTable | null> {
    return Effect.map(this.storage.fragments([file]), ([table]) => {
      if (table !== undefined && !(table instanceof StorageError)) return table
      this.broken = true
      return null
    })
  }

  private fragment({ file, from, to }: Shown, table: FragmentTable): Step | "end" | null {
    const { fromMs, interval, keysEveryMs } = this.options
    const end = Math.min(to, table.length)
    if (this.row === null) {
      const behind = this.begun ? from : rowBehind(table, fromMs)
      if (behind >= end) return null
      this.row = this.begun ? from : Math.max(from, groupStart(table, behind))
    }
    for (; this.row < end; this.row++) {
      const { row } = this
      if (table.startMs(row) >= interval.end) return "end"
      const beside = this.edgeMs === null || Math.abs(table.startMs(row) - this.edgeMs) <= toleranceMs
      this.broken ||= this.begun && (table.discontinuity(row) || !beside)
      this.edgeMs = table.endMs(row)
      if (!table.key(row) && !this.begun) continue
      if (keysEveryMs !== null && !this.isDue(table, row, keysEveryMs)) continue
      this.row++
      return this.found({ file, table, from: row, to: row + 1 })
    }
    return null
  }

  private group({ file, from: first, to: end }: Shown, table: FragmentTable): Step | "end" | null {
    const { fromMs, interval, keysEveryMs } = this.options
    this.row ??= Math.min(end, this.begun ? table.length : this.behindStart(table, fromMs))
    while (this.row > first) {
      const to = this.row
      if (table.endMs(to - 1) <= interval.start) return "end"
      const from = Math.max(first, groupStart(table, to - 1))
      const beside = this.edgeMs === null || Math.abs(table.endMs(to - 1) - this.edgeMs) <= toleranceMs
      this.broken ||= this.begun && (!beside || (to < table.length && table.discontinuity(to)))
      this.edgeMs = table.startMs(from)
      this.row = from
      if (!table.key(from) || (keysEveryMs !== null && !this.isDue(table, from, keysEveryMs))) continue
      return this.found({ file, table, from, to: keysEveryMs === null ? to : from + 1 })
    }
    return null
  }

  /** Behind the last row that begins before `ms`. */
  private behindStart(table: FragmentTable, ms: number): number {
    let row = table.length
    while (row > 0 && table.startMs(row - 1) >= ms) row--
    return row
  }

  private isDue(table: FragmentTable, row: number, everyMs: number): boolean {
    const startMs = table.startMs(row)
    if (!table.key(row) || (this.lastKeyMs !== null && Math.abs(startMs - this.lastKeyMs) < everyMs)) return false
    this.lastKeyMs = startMs
    return true
  }

  private found(step: Omit<Step, "broken">): Step {
    const { broken } = this
    this.begun = true
    this.broken = false
    return { ...step, broken }
  }
}
