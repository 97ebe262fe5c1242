/**
 * The node's own small files: assignment file, journal, ledgers. A door of two verbs, and its implementation on real files.
 *
 * Invariants
 * 1. What `append` and `replace` have done survives a power cut.
 * 2. A kill during `replace` leaves the old file or the new one.
 */
import { Effect, FileSystem, Path, Schema } from "effect"

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
