/** All footage of a node's folders, read anew by `footage.ts` and decoded by ffprobe. */
import { statSync } from "node:fs"
import * as path from "node:path"
import { decode, type DiskFile, listFootage, readFootage, type StoredFrame } from "./footage.ts"
import type { Report } from "./report.ts"

export interface Shelf {
  readonly files: ReadonlyArray<DiskFile>
  readonly frames: (recordingId: string) => ReadonlyArray<StoredFrame>
  /** When pictures that tell no number were taken, epoch ms: the packet that carried it was lost, or damaged. */
  readonly unmarked: (recordingId: string) => ReadonlyArray<number>
}

export interface ShelfOptions {
  /** Recordings whose camera damaged pictures: they need not decode without complaint. */
  readonly damaged?: ReadonlySet<string>
}

const unmarked = / carries no mark$/

/** Every file must be whole, equal its index, and give every picture to ffprobe. */
export const readShelf = async (
  folders: ReadonlyArray<string>,
  report: Report,
  { damaged = new Set() }: ShelfOptions = {},
): Promise<Shelf> => {
  const files: Array<DiskFile> = []
  for (const where of folders.flatMap(listFootage)) {
    if (statSync(where).size === 0) {
      // Made when the disk failed, and cleared away by the next scan.
      report.say(`${path.basename(where)} is empty`)
      continue
    }
    const file = readFootage(where)
    files.push(file)
    for (const fault of file.faults) {
      if (!damaged.has(file.recordingId) || !unmarked.test(fault)) report.fault(fault)
    }
    if (damaged.has(file.recordingId)) continue
    const { errors, pictures } = await decode(where)
    report.check(
      errors === "" && pictures === file.frames.length,
      `${where}: ${pictures} of ${file.frames.length} pictures play; ${errors}`,
    )
  }
  const of = (id: string) => files.filter(({ recordingId }) => recordingId === id)
  return {
    files,
    frames: (id) => of(id).flatMap(({ frames }) => frames),
    unmarked: (id) => of(id).flatMap((file) => file.unmarked),
  }
}
