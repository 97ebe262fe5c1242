/** What can happen to the folders of footage, and what must be seen of it while it lasts. */
import { renameSync } from "node:fs"
import type { Disk } from "./disks.ts"

export interface Scene {
  readonly name: string
  readonly begin: () => void
  readonly end: () => void
  /** Done again and again until it is seen. */
  readonly press?: () => void
  /** Folders in trouble, and what is told of each. */
  readonly folders: Readonly<Record<string, RegExp>>
  /** Only folders that are written to can tell: one of them is enough. */
  readonly any?: boolean
  /** Why nothing is recorded meanwhile; `null`: another folder takes over, or there is room to be made. */
  readonly failed: { readonly reason: RegExp } | null
  /** Causes a gap may be put down to; none: no picture is missing. */
  readonly causes: ReadonlyArray<string>
  /** How long it lasts once it is seen, ms. */
  readonly lastMs: number
}

const all = (disks: ReadonlyArray<Disk>, states: RegExp): Readonly<Record<string, RegExp>> =>
  Object.fromEntries(disks.map(({ name }) => [name, states]))

export const oneOfTwoVanishes = (disk: Disk): Scene => ({
  name: `folder ${disk.name} is unmounted, the other is there`,
  begin: () => disk.unmount(),
  end: () => disk.mount(),
  folders: { [disk.name]: /^missing: .*is its disk mounted/ },
  failed: null,
  causes: ["disk_error"],
  lastMs: 5_000,
})

export const vanish = (disks: ReadonlyArray<Disk>): Scene => ({
  name: "every folder is unmounted",
  begin: () => disks.forEach((disk) => disk.unmount()),
  end: () => disks.forEach((disk) => disk.mount()),
  folders: all(disks, /^missing: .*is its disk mounted/),
  failed: { reason: /is its disk mounted/ },
  causes: ["disk_error"],
  lastMs: 5_000,
})

export const turnReadOnly = (disks: ReadonlyArray<Disk>): Scene => ({
  name: "every file system fails and turns read-only",
  begin: () => disks.forEach((disk) => disk.abort()),
  end: () =>
    disks.forEach((disk) => {
      disk.unmount()
      disk.mount()
    }),
  folders: all(disks, /^(readOnly|error): /),
  failed: { reason: /EROFS|EIO|read-only/i },
  causes: ["disk_error"],
  lastMs: 5_000,
})

export const hang = (disks: ReadonlyArray<Disk>): Scene => ({
  name: "every disk hangs",
  begin: () => disks.forEach((disk) => disk.freeze()),
  end: () => disks.forEach((disk) => disk.thaw()),
  folders: all(disks, /^(error|slow): /),
  any: true,
  failed: { reason: /keep up|queue|opened within|does not answer/ },
  causes: ["disk_slow"],
  lastMs: 3_000,
})

export const runFull = (disks: ReadonlyArray<Disk>): Scene => ({
  name: "every disk is full, whatever retention deletes",
  begin: () => disks.forEach((disk) => disk.fill(0)),
  press: () => disks.forEach((disk) => disk.fill(0)),
  end: () => disks.forEach((disk) => disk.relieve()),
  folders: all(disks, /^full: /),
  failed: { reason: /ENOSPC/ },
  causes: ["disk_full"],
  lastMs: 5_000,
})

/** A folder that anybody may move. */
export const moveAway = (name: string, where: string): Scene => ({
  name: `folder ${name} is moved away`,
  begin: () => renameSync(where, `${where}.away`),
  end: () => renameSync(`${where}.away`, where),
  folders: { [name]: /^missing: / },
  failed: { reason: /is its disk mounted/ },
  causes: ["disk_error"],
  lastMs: 1_000,
})
