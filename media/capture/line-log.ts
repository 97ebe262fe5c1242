/**
 * A small append-only file of JSON lines that survives a kill and a power cut at any instant: the ground of the journal and of
 * the ledgers.
 *
 * A line is `<crc32 of the rest, 8 hex digits> <JSON>\n`.
 *
 * Invariants
 * 1. `append` returns at once and never fails. Lines become durable in order, many with one write and one sync.
 * 2. A line that does not carry its checksum is skipped when reading; what a kill tore off is the last line only.
 * 3. A disk that refuses does not lose lines: they wait in memory and are tried again every `retryMs`, up to `maxPendingBytes`,
 *    after which the oldest are dropped and `overflowed` says so.
 * 4. `rewrite` replaces the file as a whole, by a new file and a rename.
 */
import { type Duration, Effect, FileSystem, Latch, Path, Schema, type Scope } from "effect"
import { crc32 } from "node:zlib"

/** The file below; any failure is tried again. */
export interface LineDisk {
  /** Empty if there is no file. */
  readonly load: Effect.Effect<string, LineDiskError>
  /** Appends and syncs. */
  readonly append: (text: string) => Effect.Effect<void, LineDiskError>
  /** Replaces the file atomically and syncs. */
  readonly replace: (text: string) => Effect.Effect<void, LineDiskError>
}

export class LineDiskError extends Schema.TaggedError<LineDiskError>()("LineDiskError", {
  path: Schema.String,
  detail: Schema.String,
}) {
  override get message(): string {
    return `${this.path}: ${this.detail}`
  }
}

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
  readonly overflowed: () => boolean
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

export const makeLineLog = Effect.fnUntraced(
  function*(
    disk: LineDisk,
    initialBytes: number,
    options: LineLogOptions,
  ): Effect.fn.Return<LineLog, never, Scope.Scope> {
    let pending: Array<string> = []
    let pendingBytes = 0
    let rewriting = false
    let writing = false
    let dropped = false
    let torn = false
    let size = initialBytes
    const wake = Latch.makeUnsafe(false)
    const waiters = new Set<() => void>()
    const durable = () => pending.length === 0 && !writing && !rewriting

    const append = (lines: ReadonlyArray<string>) => {
      for (const json of lines) {
        const line = encodeLine(json)
        pending.push(line)
        pendingBytes += line.length
      }
      while (pendingBytes > options.maxPendingBytes && pending.length > 1) {
        pendingBytes -= pending.shift()!.length
        dropped = true
      }
      wake.openUnsafe()
    }

    /** One write of everything that waits. What could not be written is put back in front. */
    const turn = Effect.gen(function*() {
      const taken = pending
      const whole = rewriting
      pending = []
      pendingBytes = 0
      rewriting = false
      writing = true
      // A rewrite tells the present state, which what waits has already changed.
      const text = whole ? options.compacted().map(encodeLine).join("") : (torn ? "\n" : "") + taken.join("")
      const written = yield* (whole ? disk.replace(text) : disk.append(text)).pipe(
        Effect.as(true),
        Effect.catchCause((cause) =>
          Effect.logWarning("A line log could not be written; it will be tried again", cause).pipe(Effect.as(false))
        ),
      )
      writing = false
      if (written) {
        torn = false
        size = whole ? text.length : size + text.length
        return true
      }
      torn = !whole
      rewriting = rewriting || whole
      const waiting = pending
      pending = taken
      pendingBytes = taken.reduce((sum, line) => sum + line.length, 0) + waiting.reduce((sum, line) =>
        sum + line.length, 0)
      pending.push(...waiting)
      return false
      // Half a write that goes on behind our back would mix with the next one.
    }).pipe(Effect.uninterruptible)

    const loop = Effect.gen(function*() {
      while (true) {
        yield* wake.await
        wake.closeUnsafe()
        while (!durable()) {
          if (!(yield* turn)) yield* Effect.sleep(options.retryMs)
        }
        for (const done of waiters) done()
        waiters.clear()
      }
    })
    // What waits when the process ends in order is written before it does.
    yield* Effect.addFinalizer(() => Effect.suspend(() => durable() ? Effect.void : Effect.asVoid(turn)))
    yield* Effect.forkScoped(loop)

    const awaitDurable = Effect.callback<boolean>((resume) => {
      if (durable()) {
        resume(Effect.succeed(true))
        return
      }
      const done = () => resume(Effect.succeed(true))
      waiters.add(done)
      return Effect.sync(() => {
        waiters.delete(done)
      })
    })
    return {
      append,
      rewrite: () => {
        rewriting = true
        wake.openUnsafe()
      },
      durable,
      flush: (atMost) =>
        Effect.suspend(() =>
          durable() ?
            Effect.succeed(true) :
            awaitDurable.pipe(Effect.timeoutOrElse({ duration: atMost, orElse: () => Effect.succeed(false) }))
        ),
      overflowed: () => dropped,
      bytes: () => size,
    }
  },
)

/** The node's own small files. */
export interface LineDisks {
  /** `name` is relative to the data folder and made by this room: never by a person. */
  readonly open: (name: string) => Effect.Effect<LineDisk>
  /** Names in a folder; none if it is not there. */
  readonly list: (folder: string) => Effect.Effect<ReadonlyArray<string>>
  readonly remove: (name: string) => Effect.Effect<void>
}

/** For as long as the process lives. */
export const memoryLineDisk = (): LineDisk => {
  let held = ""
  return {
    load: Effect.sync(() => held),
    append: (text) => Effect.sync(() => void (held += text)),
    replace: (text) => Effect.sync(() => void (held = text)),
  }
}

/** Real files under `root`. Mode 0600: lines name cameras and say what failed. */
export const fileLineDisks = Effect.fnUntraced(
  function*(root: string): Effect.fn.Return<LineDisks, never, FileSystem.FileSystem | Path.Path> {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const write = (name: string, text: string, flag: "a" | "w") =>
      Effect.scoped(Effect.gen(function*() {
        const handle = yield* fs.open(name, { flag, mode: 0o600 })
        yield* handle.writeAll(new TextEncoder().encode(text))
        yield* handle.sync
      }))
    const open = (name: string): LineDisk => {
      const file = path.join(root, name)
      const folder = path.dirname(file)
      const wrap = <A, E>(effect: Effect.Effect<A, E>) =>
        Effect.mapError(effect, (error) => new LineDiskError({ path: file, detail: String(error) }))
      /** A rename is durable once its folder is. */
      const syncFolder = Effect.scoped(Effect.flatMap(fs.open(folder, { flag: "r" }), (handle) => handle.sync))
      const ready = fs.makeDirectory(folder, { recursive: true })
      return {
        load: wrap(Effect.flatMap(fs.exists(file), (there) => there ? fs.readFileString(file) : Effect.succeed(""))),
        append: (text) => wrap(Effect.andThen(ready, write(file, text, "a"))),
        replace: (text) =>
          wrap(Effect.gen(function*() {
            const temporary = `${file}.new`
            yield* ready
            yield* write(temporary, text, "w")
            yield* fs.rename(temporary, file)
            yield* syncFolder
          })),
      }
    }
    return {
      open: (name) => Effect.sync(() => open(name)),
      list: (folder) => Effect.orElseSucceed(fs.readDirectory(path.join(root, folder)), () => []),
      remove: (name) => Effect.ignore(fs.remove(path.join(root, name))),
    }
  },
)
