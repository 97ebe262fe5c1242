/**
 * What is promised of the segments that are left: their bytes read once, hashed and remembered.
 *
 * Invariants
 * 1. A segment is promised with the hash of the bytes that lie there; what cannot be read any more is lost, and said to be. A disk that is
 *    away is waited for.
 * 2. Whole files go together, so that the home node can store one when its last segment came.
 */
import { RecordBackStore, type SegmentRow } from "#actors/store/federation-recordback.ts"
import { Storage } from "#media/storage.ts"
import { type ManifestEntry, maxManifest } from "#schema/federation-recordback.ts"
import { Effect, Stream } from "effect"
import { createHash, hash } from "node:crypto"

/** Segments of a session: a GiB of full ones, so that what was hashed is still in memory when it goes. */
const sessionSegments = 64
/** A disk that went is known to have gone after this: longer than between two looks at it. */
const surelySeen = "12 seconds"

interface Front {
  readonly bytes: Uint8Array
  readonly sha256: string
}

export interface Promised {
  readonly row: SegmentRow
  readonly entry: ManifestEntry
  readonly front: Front
}

const concat = (parts: ReadonlyArray<Uint8Array>): Uint8Array => Buffer.concat(parts)

export const makePromises = Effect.gen(function*() {
  const [storage, store] = yield* Effect.all([Storage, RecordBackStore])

  /** Its disk is not there now: what it holds can be read again later. */
  const isAway = (folder: string) =>
    Effect.map(storage.usage, (all) => all.some(({ name, state }) => name === folder && state === "missing"))

  const frontOf = Effect.fnUntraced(function*(file: { readonly id: string; readonly folder: string }) {
    const index = yield* storage.index(file)
    const chunks = yield* Stream.runCollect(storage.bytes(file, { from: 0, to: index[0]?.offset ?? 0 }))
    const bytes = concat(chunks)
    return { bytes, sha256: hash("sha256", bytes) } satisfies Front
  })
  const hashOf = Effect.fnUntraced(function*({ at, bytes, fileId: id, folder }: SegmentRow) {
    const digest = createHash("sha256")
    let length = 0
    yield* Stream.runForEach(storage.bytes({ id, folder }, { from: at, to: at + bytes }), (chunk) =>
      Effect.sync(() => {
        length += chunk.length
        digest.update(chunk)
      }))
    return length === bytes ? digest.digest("hex") : null
  })
  /** Null: its bytes are gone. */
  const promise = Effect.fnUntraced(function*(jobId: string, row: SegmentRow, fronts: Map<string, Front>) {
    const file = { id: row.fileId, folder: row.folder }
    const front = fronts.get(row.fileId) ?? (yield* frontOf(file))
    fronts.set(row.fileId, front)
    const sha256 = row.sha256 ?? (yield* hashOf(row))
    if (sha256 === null) return null
    if (row.sha256 === null) yield* store.hashed(jobId, row, sha256)
    const { bytes, channelId, endMs, endRow, epoch, exact, fileId, firstRow, recordingId, sequence, startMs } = row
    const entry: ManifestEntry = {
      recordingId,
      epoch,
      sequence,
      channelId,
      fileId,
      startMs,
      durationMs: endMs - startMs,
      fragments: endRow - firstRow,
      bytes,
      sha256,
      frontBytes: front.bytes.length,
      frontSha256: front.sha256,
      exact,
    }
    return { row, entry, front } satisfies Promised
  })
  /** The oldest files that are left, whole ones where they fit. */
  const next = Effect.fnUntraced(function*(jobId: string) {
    const rows = yield* store.left(jobId, maxManifest)
    const last = rows.at(-1)
    const batch: Array<SegmentRow> = []
    for (const row of rows) {
      if (batch.length >= sessionSegments && row.fileId !== batch.at(-1)?.fileId) break
      batch.push(row)
    }
    // The last file may go on beyond what was read: whole in the next session, unless it is all there is.
    const others = batch.filter(({ fileId }) => fileId !== last?.fileId)
    const cutOff = rows.length === maxManifest && batch.length === rows.length && others.length > 0
    return cutOff ? others : batch
  })
  return {
    next: Effect.fnUntraced(function*(jobId: string) {
      const rows = yield* next(jobId)
      const fronts = new Map<string, Front>()
      const looked = yield* Effect.cached(Effect.sleep(surelySeen))
      const promised = yield* Effect.forEach(
        rows,
        (row) =>
          promise(jobId, row, fronts).pipe(
            Effect.catchTag("StorageError", (error) =>
              Effect.flatMap(Effect.andThen(looked, isAway(row.folder)), (away) =>
                away ?
                  Effect.fail(error) :
                  Effect.as(Effect.logWarning("A segment that is to come home cannot be read", error), null))),
            Effect.tap((made) => made === null ? store.settle(jobId, row, "lost", null) : Effect.void),
          ),
      )
      return { rows: rows.length, promised: promised.filter((one) => one !== null) }
    }),
  }
})
