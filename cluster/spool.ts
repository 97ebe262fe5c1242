/**
 * A bounded queue of JSON lines on disk: what must not be lost while the database that it is for is away.
 *
 *     <folder>/<position of the first line, 16 digits>.jsonl    lines `<crc32, 8 hex digits> <position> <JSON>`
 *     <folder>/acknowledged                                     the position up to which the reader has everything
 *
 * Invariants
 * 1. What `append` answered for is on the disk: it survives kill -9 and a power cut. Appends at the same moment share a sync.
 * 2. Positions only grow, over restarts too. A folder that begins anew begins at the present millisecond. What failed to be
 *    appended leaves a hole, never a second line at one position.
 * 3. Unacknowledged lines take at most `maxBytes`; a line that does not fit is refused with {@link SpoolFull}, nothing is dropped.
 * 4. A line that does not carry its checksum is skipped: a torn tail costs only what was never answered for.
 * 5. Memory holds two segments of {@link segmentBytes} and what waits for the disk, whatever the length of the queue.
 * 6. One reader. What it acknowledged may come again after a power cut, so it must be able to tell.
 */
import { Clock, Deferred, Effect, FileSystem, Latch, Schema, type Scope } from "effect"
import { crc32 } from "node:zlib"

/** There is no room; what was queued before stays. */
export class SpoolFull extends Schema.TaggedError<SpoolFull>()("SpoolFull", {
  folder: Schema.String,
  limitBytes: Schema.Int,
}) {
  override get message(): string {
    return `The queue ${this.folder} holds its ${this.limitBytes} bytes`
  }
}

/** The disk refused; nothing of this append is kept. */
export class SpoolFailed extends Schema.TaggedError<SpoolFailed>()("SpoolFailed", {
  folder: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `The queue ${this.folder} cannot be written: ${this.detail}`
  }
}

export interface SpoolEntry {
  readonly position: number
  readonly json: string
}

export interface Spool {
  /** JSON texts without line ends, all or none. Answers the position of the last once all are durable. */
  readonly append: (lines: ReadonlyArray<string>) => Effect.Effect<number, SpoolFull | SpoolFailed>
  /** Durable lines after `position`, at most `limit`, by rising position. Fewer than `limit` does not mean that there are no more. */
  readonly read: (position: number, limit: number) => Effect.Effect<ReadonlyArray<SpoolEntry>, SpoolFailed>
  /** Waits until there is a line after `position`. */
  readonly awaitEntry: (position: number) => Effect.Effect<void>
  /** The reader has everything up to here. */
  readonly acknowledge: (position: number) => Effect.Effect<void>
  readonly acknowledged: () => number
  /** Bytes of lines that are not acknowledged, with those that wait for the disk. */
  readonly bytes: () => number
}

export interface SpoolOptions {
  /** Made if it is not there; holds nothing but this queue. */
  readonly folder: string
  readonly maxBytes: number
}

/** Large enough that files are few, small enough to hold one in memory. */
const segmentBytes = 1 << 20

interface Line extends SpoolEntry {
  /** On disk. */
  readonly bytes: number
}

interface Segment {
  readonly path: string
  readonly first: number
  last: number
  /** Length of the file as far as its lines were answered for. */
  fileBytes: number
  /** Whole, for the newest and the one that is being read; `null` where the file must be asked. */
  lines: Array<Line> | null
}

interface Waiting {
  readonly lines: ReadonlyArray<Line>
  readonly done: Deferred.Deferred<number, SpoolFailed>
}

const encode = (position: number, json: string): string => {
  const rest = `${position} ${json}`
  return `${crc32(rest).toString(16).padStart(8, "0")} ${rest}\n`
}

/** Bytes of a line: JSON may hold any character. */
const lineBytes = (position: number, json: string): number =>
  8 + 1 + String(position).length + 1 + Buffer.byteLength(json) + 1

const decode = (text: string): Array<Line> => {
  const lines: Array<Line> = []
  for (const line of text.split("\n")) {
    const rest = line.slice(9)
    if (line[8] !== " " || Number.parseInt(line.slice(0, 8), 16) !== crc32(rest)) continue
    const blank = rest.indexOf(" ")
    const position = Number(rest.slice(0, blank))
    // What was written behind a torn line carries its own position; order is what readers rely on.
    if (!Number.isSafeInteger(position) || position <= (lines.at(-1)?.position ?? -1)) continue
    lines.push({ position, json: rest.slice(blank + 1), bytes: Buffer.byteLength(line) + 1 })
  }
  return lines
}

const segmentName = /^(\d{16})\.jsonl$/

class DiskSpool implements Spool {
  private readonly fs: FileSystem.FileSystem
  private readonly options: SpoolOptions
  private readonly segments: Array<Segment>
  private newest: number
  private durable: number
  private done: number
  private heldBytes: number
  /** The newest segment may be appended to: this process made it. */
  private open = false
  private waiting: Array<Waiting> = []
  private readonly wake = Latch.makeUnsafe(false)
  private readonly grew = Latch.makeUnsafe(false)

  constructor(fs: FileSystem.FileSystem, options: SpoolOptions, found: Effect.Success<ReturnType<typeof survey>>) {
    this.fs = fs
    this.options = options
    this.segments = found.segments
    this.newest = found.newest
    this.durable = found.durable
    this.done = found.done
    this.heldBytes = found.bytes
  }

  append(texts: ReadonlyArray<string>): Effect.Effect<number, SpoolFull | SpoolFailed> {
    return Effect.suspend((): Effect.Effect<number, SpoolFull | SpoolFailed> => {
      if (texts.length === 0) return Effect.succeed(this.newest)
      let position = this.newest
      let bytes = 0
      const lines = texts.map((json): Line => {
        position++
        const size = lineBytes(position, json)
        bytes += size
        return { position, json, bytes: size }
      })
      if (this.heldBytes + bytes > this.options.maxBytes) {
        return Effect.fail(new SpoolFull({ folder: this.options.folder, limitBytes: this.options.maxBytes }))
      }
      this.newest = position
      this.heldBytes += bytes
      const done = Deferred.makeUnsafe<number, SpoolFailed>()
      this.waiting.push({ lines, done })
      this.wake.openUnsafe()
      return Deferred.await(done)
    })
  }

  read(position: number, limit: number): Effect.Effect<ReadonlyArray<SpoolEntry>, SpoolFailed> {
    return Effect.gen({ self: this }, function*() {
      const after = Math.max(position, this.done)
      const index = this.segments.findIndex((one) => one.last > after)
      const segment = this.segments[index]
      if (segment === undefined) return []
      const lines = segment.lines ?? (yield* this.load(segment))
      // The newest stays in memory; of the others only the one at hand.
      for (const other of this.segments.slice(0, -1)) other.lines = null
      segment.lines = lines
      const from = lines.findIndex((line) => line.position > after)
      return from < 0 ? [] : lines.slice(from, from + limit)
    })
  }

  awaitEntry(position: number): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      while (true) {
        // Closed before it looks: what is appended from here on opens it again.
        this.grew.closeUnsafe()
        if (this.durable > Math.max(position, this.done)) return
        yield* this.grew.await
      }
    })
  }

  acknowledge(position: number): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const upTo = Math.min(position, this.durable)
      if (upTo <= this.done) return
      const from = this.done
      this.done = upTo
      for (const segment of this.segments) {
        if (segment.first > upTo) break
        const lines = segment.lines ?? (yield* Effect.orElseSucceed(this.load(segment), () => []))
        for (const line of lines) if (line.position > from && line.position <= upTo) this.heldBytes -= line.bytes
      }
      // The newest file stays, even empty: its name keeps the positions growing.
      while (this.segments.length > 1 && this.segments[0]!.last <= upTo) {
        const { path } = this.segments.shift()!
        yield* Effect.ignore(this.fs.remove(path))
      }
      const file = `${this.options.folder}/acknowledged`
      // Without a sync: a power cut may bring some lines a second time (invariant 6).
      yield* this.fs.writeFileString(`${file}.new`, encode(upTo, "null"), { mode: 0o600 }).pipe(
        Effect.andThen(this.fs.rename(`${file}.new`, file)),
        Effect.catch((error) => Effect.logDebug("What was acknowledged could not be noted", error)),
      )
    }).pipe(Effect.uninterruptible)
  }

  acknowledged(): number {
    return this.done
  }

  bytes(): number {
    return this.heldBytes
  }

  /** Writes whenever something waits, for ever. */
  get work(): Effect.Effect<never> {
    return Effect.gen({ self: this }, function*() {
      while (true) {
        yield* this.wake.await
        this.wake.closeUnsafe()
        yield* this.turn
      }
    })
  }

  /** One write and one sync for all that waits. */
  get turn(): Effect.Effect<void> {
    return Effect.gen({ self: this }, function*() {
      const taken = this.waiting
      if (taken.length === 0) return
      this.waiting = []
      const lines = taken.flatMap((one) => one.lines)
      const failure = yield* this.write(lines).pipe(
        Effect.as(null),
        Effect.catchCause((cause) => Effect.as(Effect.logDebug("A queue could not be written", cause), String(cause))),
      )
      if (failure === null) {
        this.durable = lines.at(-1)!.position
        this.grew.openUnsafe()
      } else this.heldBytes -= lines.reduce((sum, line) => sum + line.bytes, 0)
      for (const one of taken) {
        Deferred.doneUnsafe(
          one.done,
          failure === null ?
            Effect.succeed(one.lines.at(-1)!.position) :
            Effect.fail(new SpoolFailed({ folder: this.options.folder, detail: failure })),
        )
      }
      // Half a write that goes on behind our back would mix with the next one.
    }).pipe(Effect.uninterruptible)
  }

  private write(lines: ReadonlyArray<Line>) {
    return Effect.gen({ self: this }, function*() {
      const fresh = !this.open || this.segments.at(-1)!.fileBytes >= segmentBytes
      const segment = fresh ? this.begin(lines[0]!.position) : this.segments.at(-1)!
      const bytes = lines.reduce((sum, line) => sum + line.bytes, 0)
      yield* Effect.scoped(Effect.gen({ self: this }, function*() {
        const file = yield* this.fs.open(segment.path, { flag: "a", mode: 0o600 })
        yield* file.writeAll(Buffer.from(lines.map((line) => encode(line.position, line.json)).join("")))
        yield* file.sync
      })).pipe(Effect.andThen(fresh ? this.syncFolder : Effect.void), Effect.onError(() => this.undo(segment, fresh)))
      if (fresh) {
        for (const other of this.segments) other.lines = null
        this.segments.push(segment)
        this.open = true
      }
      segment.fileBytes += bytes
      segment.last = lines.at(-1)!.position
      segment.lines!.push(...lines)
    })
  }

  private begin(first: number): Segment {
    const path = `${this.options.folder}/${String(first).padStart(16, "0")}.jsonl`
    return { path, first, last: first - 1, fileBytes: 0, lines: [] }
  }

  /** Nothing that was told as failed may be read later. Where even that fails, the next write begins another file. */
  private undo(segment: Segment, fresh: boolean): Effect.Effect<void> {
    const cleared = fresh ?
      this.fs.remove(segment.path, { force: true }) :
      this.fs.truncate(segment.path, segment.fileBytes)
    return cleared.pipe(Effect.catchCause(() =>
      Effect.sync(() => {
        this.open = false
      })
    ))
  }

  private get syncFolder() {
    return Effect.scoped(Effect.flatMap(this.fs.open(this.options.folder, { flag: "r" }), (folder) => folder.sync))
  }

  private load(segment: Segment): Effect.Effect<Array<Line>, SpoolFailed> {
    return Effect.map(this.fs.readFileString(segment.path), decode).pipe(
      Effect.mapError((error) => new SpoolFailed({ folder: this.options.folder, detail: error.message })),
    )
  }
}

/** What an earlier process left. */
const survey = Effect.fnUntraced(function*(fs: FileSystem.FileSystem, folder: string) {
  yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
  const marked = yield* Effect.orElseSucceed(fs.readFileString(`${folder}/acknowledged`), () => "")
  const done = decode(marked).at(-1)?.position ?? 0
  const nowMs = yield* Clock.currentTimeMillis
  const names = (yield* fs.readDirectory(folder)).filter((name) => segmentName.test(name)).toSorted()
  const segments: Array<Segment> = []
  let bytes = 0
  for (const name of names) {
    const path = `${folder}/${name}`
    const first = Number(segmentName.exec(name)![1])
    const lines = decode(yield* fs.readFileString(path))
    const last = Math.max(first - 1, lines.at(-1)?.position ?? 0)
    for (const line of lines) if (line.position > done) bytes += line.bytes
    segments.push({ path, first, last, fileBytes: 0, lines: null })
  }
  // A hole at the end (lines that were torn) must not be filled again: their positions may have been seen.
  const newest = Math.max(done, ...segments.map((one) => Math.max(one.first, one.last)))
  while (segments.length > 1 && segments[0]!.last <= done) {
    yield* Effect.ignore(fs.remove(segments.shift()!.path))
  }
  return {
    segments,
    newest: newest > 0 ? newest : nowMs,
    durable: Math.max(0, ...segments.map((one) => one.last)),
    done,
    bytes,
  }
})

/** Opens the queue in `folder`. An unreadable folder fails the start. */
export const makeSpool = Effect.fnUntraced(
  function*(options: SpoolOptions): Effect.fn.Return<Spool, SpoolFailed, FileSystem.FileSystem | Scope.Scope> {
    const fs = yield* FileSystem.FileSystem
    const found = yield* Effect.mapError(survey(fs, options.folder), (error) =>
      new SpoolFailed({ folder: options.folder, detail: error.message }))
    const spool = new DiskSpool(fs, options, found)
    // What waits when the process ends in order is written before it does.
    yield* Effect.addFinalizer(() =>
      spool.turn
    )
    yield* Effect.forkScoped(spool.work)
    return spool
  },
)
