/**
 * One growing file: a queue in memory, one write under way, a sync every now and then.
 *
 * Invariants
 * 1. Fragments reach the file in order, one write each; the catalogue tells of a fragment only once it was written whole.
 * 2. An index record is written after the sync of its fragment: the index is never ahead of the media on the disk.
 * 3. The first error ends the writer: nothing is written after it but, at `seal`, the cut of a torn fragment and the index.
 * 4. A fragment is released once it was written or given up.
 * 5. The queue holds at most `queueBytes`, and one fragment if that alone is larger.
 */
import type { SegmentFile } from "#schema/record.ts"
import { Deferred, Effect, Semaphore } from "effect"
import * as fs from "node:fs"
import type { FileHandle } from "node:fs/promises"
import { crc32 } from "node:zlib"
import type { FileWriter, Fragment, IndexEntry, StorageError } from "../storage.ts"
import { type CatalogueFile, toSegmentFile } from "./catalogue.ts"
import { attempt, storageError } from "./failure.ts"
import { encodeEntries, encodeSeal, headerBytes, recordBytes, sealOf } from "./index-file.ts"

export interface WriterOptions {
  readonly entry: CatalogueFile
  /** Open for writing; the writer closes them. */
  readonly media: FileHandle
  readonly index: FileHandle
  /** Bytes already in the media file. */
  readonly firstOffset: number
  readonly queueBytes: number
  /** Called once with the first error. */
  readonly onFailure: (error: StorageError) => void
  /** Called when a fragment was refused. */
  readonly onOverflow: () => void
  /** Called when the writer is done with its files, sealed or not. */
  readonly onClosed: (writer: Writer) => void
}

/** A writer as the layer knows it. */
export interface Writer extends FileWriter {
  readonly entry: CatalogueFile
  /** What is written so far, in order. */
  readonly entries: () => ReadonlyArray<IndexEntry>
  /** Media to the disk, then their index records. */
  readonly sync: Effect.Effect<void>
  /** Ends the writer from outside: the folder is gone or full. */
  readonly abort: (error: StorageError) => void
  /** The file was unlinked by somebody else. */
  readonly isUnlinked: Effect.Effect<boolean>
}

type Done = (error: Error | null) => void

/** Writes all bytes at a position, however many calls it takes. */
const writeAll = (file: number, bytes: Uint8Array, position: number, done: Done): void => {
  fs.write(file, bytes, 0, bytes.length, position, (error, written) => {
    if (error !== null) return done(error)
    if (written >= bytes.length) return done(null)
    if (written === 0) return done(Object.assign(new Error("nothing was written"), { code: "EIO" }))
    writeAll(file, bytes.subarray(written), position + written, done)
  })
}

/** A call with a callback as an effect. */
const call = (folder: string, doing: string, run: (done: Done) => void): Effect.Effect<void, StorageError> =>
  Effect.callback<void, StorageError>((resume) =>
    run((error) => resume(error === null ? Effect.void : Effect.fail(storageError(folder, doing, error))))
  )

/** The hot half: queue and writes, plain callbacks. */
class Queue {
  readonly entries: Array<IndexEntry> = []
  private readonly options: WriterOptions
  private readonly failed: (error: StorageError) => void
  private readonly queue: Array<Fragment> = []
  private queued = 0
  private writing = false
  private open = true
  private readonly idle: Array<() => void> = []

  constructor(options: WriterOptions, failed: (error: StorageError) => void) {
    this.options = options
    this.failed = failed
  }

  append(fragment: Fragment): boolean {
    const full = this.queued > 0 && this.queued + fragment.bytes > this.options.queueBytes
    if (!this.open || full) {
      fragment.release()
      if (this.open) this.options.onOverflow()
      return false
    }
    this.queue.push(fragment)
    this.queued += fragment.bytes
    this.pump()
    return true
  }

  room(): number {
    return this.options.queueBytes - this.queued
  }

  /** No more fragments; with `drop`, those that wait are given up. */
  close(drop: boolean): void {
    this.open = false
    if (!drop) return
    for (const fragment of this.queue.splice(0)) fragment.release()
    if (!this.writing) this.queued = 0
  }

  /** Calls back once no write is under way and none waits. */
  whenIdle(done: () => void): void {
    if (!this.writing && this.queue.length === 0) done()
    else this.idle.push(done)
  }

  private pump(): void {
    if (this.writing) return
    const fragment = this.queue.shift()
    if (fragment === undefined) {
      for (const done of this.idle.splice(0)) done()
      return
    }
    this.writing = true
    writeAll(this.options.media.fd, fragment.data, this.options.entry.bytes, (error) => {
      fragment.release()
      this.writing = false
      this.queued = Math.max(0, this.queued - fragment.bytes)
      if (error === null) this.written(fragment)
      else this.failed(storageError(this.options.entry.folder, "writing a fragment", error))
      this.pump()
    })
  }

  private written(fragment: Fragment): void {
    const { entry } = this.options
    const { bytes, decodeTicks, discontinuity, durationTicks, endMs, frames, key, startMs } = fragment
    this.entries.push({
      startMs,
      endMs,
      decodeTicks,
      durationTicks,
      offset: entry.bytes,
      bytes,
      frames,
      key,
      discontinuity,
    })
    if (entry.fragments === 0) entry.startMs = startMs
    entry.endMs = entry.fragments === 0 ? endMs : Math.max(entry.endMs, endMs)
    entry.bytes += bytes
    entry.fragments++
    entry.frames += frames
  }
}

/** Takes over two open files whose headers are written. */
export const makeWriter = Effect.fnUntraced(function*(options: WriterOptions) {
  const { entry, firstOffset } = options
  const [media, index] = [options.media.fd, options.index.fd]
  const { folder } = entry
  const failure = yield* Deferred.make<never, StorageError>()
  /** Sync and seal exclude each other. */
  const lock = yield* Semaphore.make(1)
  let error: StorageError | null = null
  let synced = 0
  let indexed = 0
  /** Of the records written so far. */
  let recordsCrc = 0

  const fail = (problem: StorageError): void => {
    if (error !== null) return
    error = problem
    queue.close(true)
    Deferred.doneUnsafe(failure, Effect.fail(problem))
    options.onFailure(problem)
  }
  const queue: Queue = new Queue(options, fail)

  const syncMedia = call(folder, "syncing", (done) => fs.fdatasync(media, done))

  const writeIndex = Effect.suspend(() => {
    const fresh = queue.entries.slice(indexed, synced)
    const at = headerBytes + indexed * recordBytes
    indexed = synced
    if (fresh.length === 0) return Effect.void
    const records = encodeEntries(fresh)
    recordsCrc = crc32(records, recordsCrc)
    return call(folder, "writing the index", (done) => writeAll(index, records, at, done))
  })

  const syncAll = Effect.suspend(() => {
    const count = queue.entries.length
    if (count === synced) return Effect.void
    return Effect.flatMap(syncMedia, () => {
      synced = count
      return writeIndex
    })
  })

  const sync = Effect.suspend(() =>
    error === null && entry.growing ?
      syncAll.pipe(Effect.catch((problem) => Effect.sync(() => fail(problem)))) :
      Effect.void
  ).pipe(Semaphore.withPermit(lock))

  const writeSeal = Effect.suspend(() => {
    const seal = encodeSeal(sealOf(queue.entries, entry, entry.bytes), recordsCrc)
    return call(folder, "sealing", (done) => writeAll(index, seal, headerBytes + indexed * recordBytes, done))
  })

  const closeFiles = Effect.all([
    Effect.ignore(attempt(folder, "closing", () => options.media.close())),
    Effect.ignore(attempt(folder, "closing", () => options.index.close())),
  ]).pipe(Effect.andThen(Effect.sync(() => {
    entry.growing = false
    options.onClosed(writer)
  })))

  const sealFile = Effect.gen(function*() {
    queue.close(false)
    yield* Effect.callback<void>((resume) => queue.whenIdle(() => resume(Effect.void)))
    // After an error half a fragment may stand at the end.
    if (error !== null) yield* call(folder, "cutting a torn fragment", (done) => fs.ftruncate(media, entry.bytes, done))
    yield* syncAll
    yield* writeSeal
    yield* call(folder, "syncing", (done) => fs.fdatasync(index, done))
    entry.sealed = true
  }).pipe(
    Effect.tapError((problem) => Effect.sync(() => fail(problem))),
    Effect.ensuring(closeFiles),
    Effect.andThen(Effect.sync((): SegmentFile => toSegmentFile(entry))),
    Semaphore.withPermit(lock),
    Effect.uninterruptible,
  )
  const seal = yield* Effect.cached(sealFile)

  const writer: Writer = {
    entry,
    file: () => toSegmentFile(entry),
    append: (fragment) => queue.append(fragment),
    room: () => queue.room(),
    failure: Deferred.await(failure),
    seal,
    entries: () => queue.entries,
    sync,
    abort: fail,
    isUnlinked: Effect.callback<boolean>((resume) =>
      fs.fstat(media, (problem, stats) => resume(Effect.succeed(problem === null && stats.nlink === 0)))
    ),
  }
  entry.bytes = firstOffset
  return writer
})
