/** What the storage layer is told by the wiring. Every bound and interval of the room stands here or beside its use. */

export interface FolderOptions {
  /** Stays the same for the life of the folder: rows and URLs name it. */
  readonly name: string
  /** Absolute. */
  readonly path: string
  /** Below this much free space no file is opened here and retention deletes; below half of it running files are ended. */
  readonly floorBytes: number
}

export interface StorageOptions {
  readonly folders: ReadonlyArray<FolderOptions>
  /**
   * File that remembers which folder carries which marker. It must not lie in a folder: it is how an unmounted disk (an empty
   * directory) is told from a new one.
   */
  readonly registryPath: string
  /** Media reach the disk at the latest this long after they were written. */
  readonly syncEveryMs: number
  readonly probeEveryMs: number
  /** Fragments of one file that may wait for the disk, bytes: 16 MiB are 32 s of 4 Mbit/s. */
  readonly queueBytes: number
  /** Index entries of sealed files kept in memory, bytes: 32 MiB are about 870 files of 10 minutes. */
  readonly indexCacheBytes: number
}

export const defaultStorageOptions = {
  syncEveryMs: 2_000,
  probeEveryMs: 5_000,
  queueBytes: 16 * 1024 * 1024,
  indexCacheBytes: 32 * 1024 * 1024,
} satisfies Partial<StorageOptions>
