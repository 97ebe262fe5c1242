/** `outlines` of the door: from the files of outlines, and where they lack one, from the index. */
import { Effect, Semaphore } from "effect"
import { dirname } from "node:path"
import type { Storage, StorageError } from "../storage.ts"
import type { CatalogueFile } from "./catalogue.ts"
import { FragmentTable } from "./fragment-table.ts"
import { appendOutlines, dayOf, encodeOutline, type Outline, outlinePath, readOutlines } from "./outline.ts"

type Door = Storage["Service"]

interface Options {
  readonly fragments: Door["fragments"]
  readonly find: (file: Parameters<Door["outlines"]>[0][number]) => CatalogueFile | undefined
  /** Path of a file without its ending. */
  readonly baseOf: (entry: CatalogueFile) => string
  readonly permits: Semaphore.Semaphore
}

export const makeOutlines = ({ baseOf, find, fragments, permits }: Options): Door["outlines"] => {
  const pathOf = (entry: CatalogueFile): string => outlinePath(dirname(baseOf(entry)), dayOf(entry.startMs))

  const readDays = (paths: ReadonlySet<string>) =>
    Effect.forEach(paths, (path) => Effect.promise(() => readOutlines(path)).pipe(Semaphore.withPermit(permits)), {
      concurrency: 2,
    })

  /** The outline of just this file: one of another length is of what stood there before a repair. */
  const among = (days: ReadonlyArray<ReadonlyMap<string, Outline>>, entry: CatalogueFile): FragmentTable | null => {
    for (const day of days) {
      const outline = day.get(entry.id)
      if (outline?.bytes === entry.bytes && outline.frames === entry.frames) return outline.table
    }
    return null
  }

  /** Writes outlines that were missed: a process was killed, or the disk was full. */
  const mend = (missed: ReadonlyArray<readonly [CatalogueFile, FragmentTable]>) =>
    Effect.promise(async () => {
      const lines = new Map<string, Array<Uint8Array>>()
      for (const [entry, table] of missed) {
        const path = pathOf(entry)
        const ofDay = lines.get(path) ?? []
        ofDay.push(encodeOutline(entry, table))
        lines.set(path, ofDay)
      }
      for (const [path, ofDay] of lines) await appendOutlines(path, Buffer.concat(ofDay))
    })

  return Effect.fnUntraced(function*(files) {
    const entries = files.map((file) => {
      const entry = find(file)
      return entry?.sealed === true ? entry : null
    })
    const paths = new Set<string>()
    for (const entry of entries) if (entry !== null) paths.add(pathOf(entry))
    const days = yield* readDays(paths)
    const outlined = entries.map((entry) => entry === null ? null : among(days, entry))
    const missing = files.filter((_, at) => outlined[at] === null)
    if (missing.length === 0) return outlined.filter((table) => table !== null)
    const read = (yield* fragments(missing)).values()
    const missed: Array<readonly [CatalogueFile, FragmentTable]> = []
    const found: Array<FragmentTable | StorageError> = []
    for (const [at, entry] of entries.entries()) {
      const table = outlined[at] ?? (read.next().value as FragmentTable | StorageError)
      found.push(table)
      if (outlined[at] === null && entry !== null && table instanceof FragmentTable) missed.push([entry, table])
    }
    yield* mend(missed)
    return found
  })
}
