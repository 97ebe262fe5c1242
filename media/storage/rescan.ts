/** Scans folders into the catalogue. */
import { Effect, Semaphore } from "effect"
import { access } from "node:fs/promises"
import { join } from "node:path"
import type { ScannedFile, ScanTold } from "../storage.ts"
import { type CatalogueFile, toSegmentFile } from "./catalogue.ts"
import type { Folder } from "./folder.ts"
import type { Room } from "./room.ts"
import { scanFolder, type ScanOptions } from "./scan.ts"

/** Drops entries of a folder whose files are gone. */
const forgetLost = Effect.fnUntraced(function*({ catalogue }: Room, folder: Folder, found: ReadonlySet<string>) {
  const suspects = [...catalogue.all()].filter((entry) =>
    entry.folder === folder.name && !entry.growing && !found.has(entry.id)
  )
  for (const entry of suspects) {
    const path = join(folder.options.path, entry.identity.recordingId, `${entry.id}.mp4`)
    // It may have been sealed while the scan ran: only what is really not there goes.
    const there = yield* Effect.promise(() => access(path).then(() => true, () => false))
    if (!there) catalogue.remove(entry.id)
  }
})

/** One folder; the catalogue is right for it afterwards. */
export const rescanFolder = Effect.fnUntraced(function*(room: Room, folder: Folder, options: ScanOptions) {
  const inspections = yield* scanFolder(folder, room.catalogue, options)
  const kept: Array<ScannedFile> = []
  for (const { entry, tornBytes } of inspections) {
    if (room.catalogue.get(entry.id)?.growing === true) continue
    const stored: CatalogueFile = room.catalogue.put(entry)
    kept.push({ file: toSegmentFile(stored), entries: stored.fragments, tornBytes })
  }
  yield* forgetLost(room, folder, new Set(inspections.map(({ entry }) => entry.id)))
  folder.scanned = true
  return kept
})

/** Every folder that answers, and what is growing. */
export const scanInto = (room: Room, { repair, ...told }: { readonly repair: boolean } & ScanTold) =>
  Effect.gen(function*() {
    const present = room.folders.filter((folder) => folder.state !== "missing" && folder.state !== "error")
    const steps = new Map<Folder, { readonly done: number; readonly total: number }>()
    const perFolder = yield* Effect.forEach(present, (folder) =>
      rescanFolder(room, folder, {
        ...told,
        repair: repair && folder.state !== "readOnly",
        trusting: false,
        // Folders that were not looked at yet count as one directory each.
        progress: (done, total) => {
          steps.set(folder, { done, total })
          const sum = (of: "done" | "total") => [...steps.values()].reduce((all, step) => all + step[of], 0)
          told.progress?.(sum("done"), sum("total") + present.length - steps.size)
        },
      }))
    const growing = [...room.writers.values()].map((writer): ScannedFile => ({
      file: writer.file(),
      entries: writer.entries().length,
      tornBytes: 0,
    }))
    return [...perFolder.flat(), ...growing]
  }).pipe(Semaphore.withPermit(room.scanning))
