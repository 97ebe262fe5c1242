/**
 * What was removed lately, in memory: a player may have been told of it, and the footage may be at another node by then.
 *
 * Invariants
 * 1. {@link rememberedBytes} of tables at most, the oldest leave first; a restart forgets them.
 * 2. From the moment a file begins to go it is not among the files, and is remembered: at no moment is it neither here nor gone.
 */
import { Effect } from "effect"
import { type Storage, StorageError } from "../storage.ts"
import { type Catalogue, toSegmentFile } from "./catalogue.ts"
import type { FragmentTable } from "./fragment-table.ts"
import { makeLru } from "./lru.ts"

/** A file of ten minutes has 40 KiB: 200 files, or a day and a half of one camera. */
const rememberedBytes = 8 * 1024 * 1024

type Door = Storage["Service"]
type Departed = NonNullable<ReturnType<Door["departed"]>>

/**
 * Removal that remembers. What retention deletes is nowhere else and is not remembered. `files`: without what is on its way out, so that
 * nobody is told of a file that is being unlinked, and whoever asks for it by name is sent on.
 */
export const withDeparted = (
  deletes: Pick<Door, "remove" | "enforceRetention">,
  { fragments }: Pick<Door, "fragments">,
  catalogue: Catalogue,
): Pick<Door, "files" | "remove" | "enforceRetention" | "departed"> => {
  const departed = makeLru<Departed>(rememberedBytes, ({ table }) => table.size)
  const leaving = new Set<string>()
  return {
    ...deletes,
    files: (recordingId, interval) => {
      const found = catalogue.within(recordingId, interval)
      return leaving.size === 0 ? found : found.filter(({ id }) => !leaving.has(id))
    },
    remove: Effect.fnUntraced(function*(place) {
      const entry = catalogue.get(place.id)
      if (entry === undefined || entry.growing) return yield* deletes.remove(place)
      const file = toSegmentFile(entry)
      const [table]: ReadonlyArray<FragmentTable | StorageError> = yield* fragments([place])
      if (table !== undefined && !(table instanceof StorageError)) departed.set(file.id, { file, table })
      leaving.add(file.id)
      yield* Effect.ensuring(deletes.remove(place), Effect.sync(() => leaving.delete(file.id)))
    }),
    // One that could not be removed is not gone.
    departed: (id) => leaving.has(id) || catalogue.get(id) === undefined ? departed.get(id) ?? null : null,
  }
}
