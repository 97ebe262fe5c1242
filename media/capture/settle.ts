/**
 * Tells the journal how files ended whose writer could not: the process was killed, or a folder came back after its disk was away.
 *
 * Invariants
 * 1. Every file that the journal told of is told as sealed or deleted in the end, so that an index that is fed from the journal
 *    alone equals the disk.
 * 2. Of a folder that cannot be read nothing is told: its files are looked for again later.
 */
import type { Storage } from "#media/storage.ts"
import { allTime, type RecordingId } from "#schema/common.ts"
import { Effect } from "effect"
import type { Journal, JournalDraft } from "./journal.ts"

/** Files of a recording that a kill may have kept from the journal: the one that was growing and the one that was being sealed. */
const newest = 2

/** Files the journal knows no end of, where the disk knows it. */
export const settleFiles = Effect.fnUntraced(function*(storage: Storage["Service"], journal: Journal) {
  const unsettled = journal.unsettled()
  if (unsettled.length === 0) return
  const usage = yield* storage.usage
  const readable = new Set(
    usage.filter(({ state }) => state !== "missing" && state !== "error").map(({ name }) => name),
  )
  journal.append(unsettled.flatMap((told): ReadonlyArray<JournalDraft> => {
    const file = storage.files(told.recordingId, allTime).find(({ id }) => id === told.id)
    if (file !== undefined) return file.sealed ? [{ _tag: "FileSealed", file }] : []
    return readable.has(told.folder) ? [{ _tag: "FileDeleted", file: told, reason: "missing" }] : []
  }))
})

/** At start, also what the journal had no time to hear of. Telling a file twice is harmless. */
export const settleAtStart = Effect.fnUntraced(
  function*(storage: Storage["Service"], journal: Journal, recordings: Iterable<RecordingId>) {
    yield* settleFiles(storage, journal)
    for (const recordingId of recordings) {
      const last = storage.files(recordingId, allTime).slice(-newest).filter(({ sealed }) => sealed)
      journal.append(last.map((file) => ({ _tag: "FileSealed", file })))
    }
  },
)
