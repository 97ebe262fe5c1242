/**
 * Reads stored fragments for players by RTSP.
 *
 * Invariants
 * 1. At most {@link readsAtATime} reads of all players at a time: libuv has four threads, and the writers need theirs.
 * 2. One fragment is held, and one file is open, by each player; a fragment beyond {@link maxFragmentBytes} is damage.
 */
import type { TrackParameters } from "#schema/media.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Semaphore } from "effect"
import { type FileHandle, open } from "node:fs/promises"
import { readFragmentUnits, type StoredUnit } from "../fmp4/fragment-reader.ts"
import type { Storage, StorageError } from "../storage.ts"
import type { FragmentTable } from "../storage/fragment-table.ts"

/** What recorded footage is made of, wherever it lies. */
export interface Footage extends Pick<Storage["Service"], "files" | "shown"> {
  readonly fragments: (files: ReadonlyArray<SegmentFile>) => Effect.Effect<ReadonlyArray<FragmentTable | StorageError>>
  readonly parameters: (file: SegmentFile) => Effect.Effect<TrackParameters, StorageError>
}

/** Reads fragments of {@link Footage} for one player. */
export interface UnitReader {
  /** Null where the fragment cannot be read: a gap. */
  readonly read: (
    file: SegmentFile,
    table: FragmentTable,
    row: number,
  ) => Effect.Effect<ReadonlyArray<StoredUnit> | null>
  readonly close: Effect.Effect<void>
}

const readsAtATime = 2
/** A second of 100 Mbit/s and its sound; more than the largest group of pictures that live readers are served from. */
export const maxFragmentBytes = 16 * 1024 * 1024

export const makeReadPermits = Semaphore.make(readsAtATime)

export class FootageReader implements UnitReader {
  private readonly storage: Storage["Service"]
  private readonly permits: Semaphore.Semaphore
  private opened: { readonly id: string; readonly handle: FileHandle } | null = null

  constructor(storage: Storage["Service"], permits: Semaphore.Semaphore) {
    this.storage = storage
    this.permits = permits
  }

  read(file: SegmentFile, table: FragmentTable, row: number): Effect.Effect<ReadonlyArray<StoredUnit> | null> {
    const length = table.bytes(row)
    if (length > maxFragmentBytes) return Effect.succeed(null)
    return Effect.tryPromise(() => this.bytes(file, table.offset(row), length)).pipe(
      Effect.map((bytes) => bytes === null ? null : readFragmentUnits(bytes)),
      Effect.catch((error) => Effect.as(Effect.logWarning(`A fragment of ${file.id} cannot be played`, error), null)),
      Semaphore.withPermit(this.permits),
      // A file that was being opened would stay open.
      Effect.uninterruptible,
    )
  }

  private async bytes(file: SegmentFile, offset: number, length: number): Promise<Uint8Array | null> {
    if (this.opened?.id !== file.id) {
      await this.shut()
      this.opened = { id: file.id, handle: await open(this.storage.path(file), "r") }
    }
    const bytes = Buffer.allocUnsafeSlow(length)
    for (let done = 0; done < length;) {
      const { bytesRead } = await this.opened.handle.read(bytes, done, length - done, offset + done)
      if (bytesRead === 0) return null
      done += bytesRead
    }
    return bytes
  }

  private async shut(): Promise<void> {
    const { opened } = this
    this.opened = null
    await opened?.handle.close()
  }

  get close(): Effect.Effect<void> {
    return Effect.ignore(Effect.tryPromise(() => this.shut())).pipe(Semaphore.withPermit(this.permits))
  }
}
