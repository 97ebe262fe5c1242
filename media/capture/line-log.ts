/**
 * A small append-only file of JSON lines that survives a kill and a power cut at any instant: the ground of the journal and of
 * the ledgers.
 *
 * A line is `<crc32 of the rest, 8 hex digits> <JSON>\n`.
 *
 * Invariants
 * 1. `append` returns at once and never fails. Lines become durable in order, many with one write and one sync.
 * 2. A line that does not carry its checksum is skipped when reading; what a kill tore off is the last line only.
 * 3. A disk that refuses does not lose lines: they wait in memory and are tried again every `retryMs`, up to `maxPendingBytes`;
 *    beyond, the file is written anew from `compacted` as soon as the disk takes it.
 * 4. `rewrite` replaces the file as a whole, by a new file and a rename.
 */
import { type Duration, Effect, Latch, type Scope } from "effect"
import { crc32 } from "node:zlib"
import type { LineDisk } from "./line-disk.ts"

export interface LineLogOptions {
  readonly maxPendingBytes: number
  readonly retryMs: number
  /** Lines that stand for the present state; asked when the file is rewritten. */
  readonly compacted: () => ReadonlyArray<string>
}

export interface LineLog {
  /** JSON texts without line ends. */
  readonly append: (lines: ReadonlyArray<string>) => void
  /** Asks for a rewrite from `compacted`; comes before what is appended later. */
  readonly rewrite: () => void
  /** Everything appended so far is durable. */
  readonly durable: () => boolean
  /** Waits for `durable`, at most that long; whether it came true. */
  readonly flush: (atMost: Duration.Input) => Effect.Effect<boolean>
  /** Bytes of the file, as far as known. */
  readonly bytes: () => number
}

export const encodeLine = (json: string): string => `${crc32(json).toString(16).padStart(8, "0")} ${json}\n`

/** The JSON texts of a file's intact lines, and how many were not. */
export const decodeLines = (text: string): { readonly lines: ReadonlyArray<string>; readonly damaged: number } => {
  const lines: Array<string> = []
  let damaged = 0
  for (const line of text.split("\n")) {
    if (line === "") continue
    const json = line.slice(9)
    if (line[8] === " " && Number.parseInt(line.slice(0, 8), 16) === crc32(json)) lines.push(json)
    else damaged++
  }
  return { lines, damaged }
}

class LineQueue implements LineLog {
  private readonly disk: LineDisk
  private readonly options: LineLogOptions
  private pending: Array<string> = []
  private pendingBytes = 0
  private rewriting = false
  private writing = false
  /** The last write failed and may have left half a line. */
  private torn = false
  private size: number
  private readonly wake = Latch.makeUnsafe(false)
  private readonly clean = Latch.makeUnsafe(true)

  constructor(disk: LineDisk, initialBytes: number, options: LineLogOptions) {
    this.disk = disk
    this.size = initialBytes
    this.options = options
  }

  append(lines: ReadonlyArray<string>): void {
    for (const json of lines) this.hold(encodeLine(json))
    while (this.pendingBytes > this.options.maxPendingBytes && this.pending.length > 1) {
      this.pendingBytes -= this.pending.shift()!.length
      this.rewriting = true
    }
    this.changed()
  }

  rewrite(): void {
    this.rewriting = true
    this.changed()
  }

  durable(): boolean {
    return this.pending.length === 0 && !this.writing && !this.rewriting
  }

  flush(atMost: Duration.Input): Effect.Effect<boolean> {
    return Effect.suspend(() =>
      this.durable() ?
        Effect.succeed(true) :
        Effect.timeoutOrElse(Effect.as(this.clean.await, true), {
          duration: atMost,
          orElse: () => Effect.succeed(false),
        })
    )
  }

  bytes(): number {
    return this.size
  }

  /** Writes whenever there is something, for ever. */
  get work(): Effect.Effect<never> {
    return Effect.gen({ self: this }, function*() {
      while (true) {
        yield* this.wake.await
        this.wake.closeUnsafe()
        while (!this.durable()) {
          if (!(yield* this.turn)) yield* Effect.sleep(this.options.retryMs)
        }
        this.clean.openUnsafe()
      }
    })
  }

  /** What waits when the process ends in order is written before it does. */
  get finish(): Effect.Effect<void> {
    return Effect.suspend(() => this.durable() ? Effect.void : Effect.asVoid(this.turn))
  }

  private hold(line: string): void {
    this.pending.push(line)
    this.pendingBytes += line.length
  }

  private changed(): void {
    this.clean.closeUnsafe()
    this.wake.openUnsafe()
  }

  /** One write of everything that waits; whether it succeeded. What could not be written is put back in front. */
  private get turn(): Effect.Effect<boolean> {
    return Effect.gen({ self: this }, function*() {
      const taken = this.pending
      const whole = this.rewriting
      this.pending = []
      this.pendingBytes = 0
      this.rewriting = false
      this.writing = true
      // A rewrite tells the present state, which what waits has already changed.
      const text = whole ?
        this.options.compacted().map(encodeLine).join("") :
        (this.torn ? "\n" : "") + taken.join("")
      const written = yield* (whole ? this.disk.replace(text) : this.disk.append(text)).pipe(
        Effect.as(true),
        Effect.catchCause((cause) =>
          Effect.as(Effect.logWarning("A line log could not be written; it will be tried again", cause), false)
        ),
      )
      this.writing = false
      this.torn = !written && !whole
      if (written) {
        this.size = whole ? text.length : this.size + text.length
        return true
      }
      this.rewriting = this.rewriting || whole
      const waiting = this.pending
      this.pending = []
      this.pendingBytes = 0
      for (const line of [...taken, ...waiting]) this.hold(line)
      return false
      // Half a write that goes on behind our back would mix with the next one.
    }).pipe(Effect.uninterruptible)
  }
}

export const makeLineLog = Effect.fnUntraced(
  function*(
    disk: LineDisk,
    initialBytes: number,
    options: LineLogOptions,
  ): Effect.fn.Return<LineLog, never, Scope.Scope> {
    const queue = new LineQueue(disk, initialBytes, options)
    yield* Effect.addFinalizer(() => queue.finish)
    yield* Effect.forkScoped(queue.work)
    return queue
  },
)
