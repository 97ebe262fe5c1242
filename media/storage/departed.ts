/**
 * What was removed lately, in memory: a player may have been told of it, and the footage may be at another node by then.
 *
 * Invariant
 * 1. {@link rememberedBytes} of tables at most, the oldest leave first; a restart forgets them.
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

/** Removal that remembers. What retention deletes is nowhere else and is not remembered. */
export const withDeparted = (
  deletes: Pick<Door, "remove" | "enforceRetention">,
  { fragments }: Pick<Door, "fragments">,
  catalogue: Catalogue,
): Pick<Door, "remove" | "enforceRetention" | "departed"> => {
  const departed = makeLru<Departed>(rememberedBytes, ({ table }) => table.size)
  return {
    ...deletes,
    remove: Effect.fnUntraced(function*(place) {
      const entry = catalogue.get(place.id)
      const file = entry === undefined ? null : toSegmentFile(entry)
      const [table]: ReadonlyArray<FragmentTable | StorageError> = yield* fragments([place])
      yield* deletes.remove(place)
      if (file !== null && table !== undefined && !(table instanceof StorageError)) {
        departed.set(file.id, { file, table })
      }
    }),
    departed: (id) => departed.get(id) ?? null,
  }
}
