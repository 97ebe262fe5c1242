/**
 * How a segment comes in on its home node: opened, written to quarantine, proven; and with the last one of a file, the file.
 *
 * Invariants
 * 1. One pass and the memory of {@link gatheredBytes}: what comes in pieces of a TLS record is gathered, then opened, hashed and written
 *    at one go, and believed when the tag, the length and the hash hold.
 * 2. A file is stored once: adopted, then the gap ledger lets go of what it covers, then the index is told, then receipts; each step
 *    may be repeated after a crash, and is without being asked for: at the next start and every hour.
 * 3. At most {@link atOnce} segments come in at once; further ones wait.
 */
import { RecordLedger } from "#actors/protocol/record.ts"
import { type IncomingRow, RecordBackHomeStore } from "#actors/store/federation-recordback-home.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import { unite } from "#cluster/recordback-manifest.ts"
import { opener, sealedBytes } from "#cluster/recordback-seal.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { type IndexEntry, type Quarantined, Storage } from "#media/storage.ts"
import type { NodeId } from "#schema/common.ts"
import {
  type ManifestEntry,
  RecordBackNoRoom,
  RecordBackSessionNotFound,
  type SegmentAnswer,
  type SegmentHead,
  SegmentInvalid,
} from "#schema/federation-recordback.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Clock, Effect, Redacted, Semaphore, Stream } from "effect"
import { createHash, hash } from "node:crypto"
import { signReceipt } from "./federation-recordback-keys.ts"
import { type HomeSession, keyOf, type Sessions } from "./federation-recordback-session.ts"

const atOnce = 8
/** A write for every few records (16 KiB) would cost more than the rest of the work. */
const gatheredBytes = 1024 * 1024

const invalid = (reason: SegmentInvalid["reason"], detail: string) => new SegmentInvalid({ reason, detail })
const noRoom = (error: { readonly message: string }) => new RecordBackNoRoom({ detail: error.message })

/** Takes the front of a segment aside; what follows it are fragments. */
const makeFront = (length: number) => {
  const front = Buffer.alloc(length)
  let filled = 0
  return {
    /** The rest of a chunk, behind the front. */
    rest: (plain: Uint8Array): Uint8Array => {
      const head = plain.subarray(0, length - filled)
      front.set(head, filled)
      filled += head.length
      return plain.subarray(head.length)
    },
    /** Null until all of it came. */
    whole: (): Buffer | null => filled === length ? front : null,
  }
}

/** Pieces of any length as ones of `length`, but for the last; each is good until the next. */
const gathered = <E, F, R>(
  pieces: Stream.Stream<Uint8Array, E>,
  length: number,
  use: (whole: Uint8Array) => Effect.Effect<void, F, R>,
): Effect.Effect<void, E | F, R> =>
  Effect.suspend(() => {
    const buffer = Buffer.allocUnsafeSlow(length)
    let filled = 0
    const fill = (piece: Uint8Array): Effect.Effect<void, F, R> =>
      Effect.gen(function*() {
        for (let at = 0; at < piece.length;) {
          const part = piece.subarray(at, at + length - filled)
          buffer.set(part, filled)
          filled += part.length
          at += part.length
          if (filled < length) continue
          filled = 0
          yield* use(buffer)
        }
      })
    return Effect.andThen(
      Stream.runForEach(pieces, (piece) =>
        filled + piece.length < length ?
          Effect.sync(() => {
            buffer.set(piece, filled)
            filled += piece.length
          }) :
          fill(piece)),
      Effect.suspend(() => filled === 0 ? Effect.void : use(buffer.subarray(0, filled))),
    )
  })

/** Whether proven fragments are those that were promised. */
const isPromised = (entries: ReadonlyArray<IndexEntry>, { durationMs, fragments, startMs }: ManifestEntry): boolean => {
  const endMs = entries.reduce((latest, entry) => Math.max(latest, entry.endMs), 0)
  return entries.length === fragments && entries[0]?.startMs === startMs && endMs === startMs + durationMs
}

const isWhose = ({ identity }: Quarantined, session: HomeSession, entry: ManifestEntry): boolean => {
  const recording = session.recordings.get(entry.recordingId)
  return recording !== undefined && identity.nodeId === session.from && identity.epoch === entry.epoch &&
    identity.recordingId === recording.id && identity.channelId === recording.channelId &&
    identity.recordingToken === recording.recordingToken
}

export const makeTake = Effect.fnUntraced(function*(sessions: Sessions) {
  const [{ nodeId, signing }, storage, store, ledger] = yield* Effect.all([
    NodeIdentity,
    Storage,
    RecordBackHomeStore,
    RecordLedger,
  ])
  const [ownership, supervisor] = yield* Effect.all([Ownership, RecorderSupervisor])
  const incoming = yield* Semaphore.make(atOnce)
  const storing = yield* Semaphore.make(1)
  const answer = (row: IncomingRow, state: SegmentAnswer["state"], receipt: string | null = null): SegmentAnswer => ({
    recordingId: row.recordingId,
    epoch: row.epoch,
    sequence: row.sequence,
    state,
    keep: [],
    receipt,
    reason: "",
  })

  /** By its fragments: what is missing within the file stays missing. */
  const cover = Effect.fnUntraced(function*(file: SegmentFile) {
    const index = yield* Effect.mapError(storage.index(file), noRoom)
    const covered = unite(index.map(({ endMs, startMs }) => ({ start: startMs, end: endMs })))
    const epoch = (yield* ownership.epochOf(ownership.slot)) ?? 0
    yield* supervisor.amend(file.recordingId, { covered, explained: [], epoch })
  })

  const store1 = Effect.fnUntraced(function*(from: NodeId, row: IncomingRow) {
    const timeMs = yield* Clock.currentTimeMillis
    const { epoch, recordingId, rerouteId, sequence, sha256 } = row
    const claims = { rerouteId, homeNodeId: nodeId, servingNodeId: from, recordingId, epoch, sequence, sha256 }
    const receipt = yield* signReceipt({ ...claims, state: "stored", timeMs }, signing.privateKey)
    yield* store.stored(from, row, receipt, timeMs)
    return answer(row, "stored", receipt)
  })

  /** Stores a file of which every segment is held; its segments as they stand otherwise. */
  const storeFile = (from: NodeId, fileId: string) =>
    Effect.gen(function*() {
      const rows = yield* store.ofFile(fileId)
      if (rows.some(({ state }) => state === "wanted")) return rows.map((row) => answer(row, row.state, row.receipt))
      if (rows.every(({ state }) => state === "stored")) return rows.map((row) => answer(row, "stored", row.receipt))
      const bytes = rows.reduce((sum, row) => sum + row.bytes, 0)
      const file = yield* storage.quarantine.adopt({ id: fileId, bytes }).pipe(
        Effect.catchTag("StorageError", (error) => Effect.fail(noRoom(error))),
      )
      yield* cover(file)
      yield* ledger.adopted([file])
      return yield* Effect.forEach(rows, (row) => store1(from, row))
    }).pipe(Semaphore.withPermit(storing))
  const complete = (from: NodeId, fileId: string) =>
    Effect.catchTag(storeFile(from, fileId), "NotFootage", (error) =>
      // Somebody cleared the quarantine: everything of it comes again.
      Effect.andThen(
        Effect.andThen(Effect.ignore(storage.quarantine.discard(fileId)), store.forget([fileId])),
        invalid("footage", error.message),
      ))
  /** Stores what is held whole, whoever brought it and whether they ever ask again. What is on a disk that is away waits for it. */
  const settle = Effect.gen(function*() {
    for (const { fileId, from } of yield* store.whole) {
      yield* storeFile(from, fileId).pipe(
        Effect.catchTag("NotFootage", () => Effect.void),
        Effect.catchTag("RecordBackNoRoom", (error) =>
          Effect.logWarning("What came home whole cannot be stored", error)),
      )
    }
  })

  /** Writes what comes to quarantine; the caller has seen that it is wanted. */
  const write = <E>(
    session: HomeSession,
    entry: ManifestEntry,
    row: IncomingRow,
    sealed: Stream.Stream<Uint8Array, E>,
  ) =>
    Effect.gen(function*() {
      const open = opener(Redacted.value(session.dataKey), session.id, entry)
      const front = makeFront(entry.frontBytes)
      const digest = createHash("sha256")
      const total = (yield* store.ofFile(row.fileId)).reduce((sum, one) => sum + one.bytes, 0)
      let part: Quarantined | null = null
      let written = 0
      const begin = Effect.fnUntraced(function*(bytes: Uint8Array) {
        if (hash("sha256", bytes) !== entry.frontSha256) return yield* invalid("hash", "its front is another")
        const opened = yield* storage.quarantine.open({ id: row.fileId, front: bytes, bytes: total }).pipe(
          Effect.catchTag("StorageError", (error) => Effect.fail(noRoom(error))),
          Effect.catchTag("NotFootage", (error) => Effect.fail(invalid("footage", error.message))),
        )
        if (!isWhose(opened, session, entry)) {
          return yield* invalid("identity", "it is of another recording, epoch or node")
        }
        return opened
      })
      yield* gathered(
        sealed,
        Math.min(gatheredBytes, sealedBytes(entry)),
        Effect.fnUntraced(function*(chunk) {
          const plain = open.update(chunk)
          if (plain === null) return yield* invalid("length", "more came than was promised")
          const rest = front.rest(plain)
          const whole = front.whole()
          if (whole === null) return
          part ??= yield* begin(whole)
          if (rest.length === 0) return
          digest.update(rest)
          yield* Effect.mapError(part.write(row.at + written, rest), noRoom)
          written += rest.length
        }),
      )
      if (!open.end()) return yield* invalid("seal", "it is not what was sealed")
      if (digest.digest("hex") !== entry.sha256) return yield* invalid("hash", "its bytes are others than promised")
      const held: Quarantined = part ?? (yield* Effect.die(new Error("a segment without a front")))
      const entries = yield* held.prove(row.at, entry.bytes).pipe(
        Effect.catchTag("StorageError", (error) => Effect.fail(noRoom(error))),
        Effect.catchTag("NotFootage", (error) => Effect.fail(invalid("footage", error.message))),
      )
      if (!isPromised(entries, entry)) return yield* invalid("interval", "its fragments are of another time")
      yield* store.held(session.from, row, yield* Clock.currentTimeMillis)
    }).pipe(Effect.scoped)

  const take = Effect.fnUntraced(function*<E>(from: NodeId, head: SegmentHead, sealed: Stream.Stream<Uint8Array, E>) {
    const session = sessions.use(head.sessionId, from, yield* Clock.currentTimeMillis)
    const entry = session?.entries.get(keyOf(head))
    if (session === null || entry === undefined) return yield* new RecordBackSessionNotFound({ id: head.sessionId })
    const [row] = yield* store.find(from, [head])
    if (row === undefined || row.sha256 !== entry.sha256) {
      return yield* new RecordBackSessionNotFound({ id: head.sessionId })
    }
    if (row.state === "wanted") yield* write(session, entry, row, sealed)
    return { segments: yield* complete(from, row.fileId) }
  })

  return {
    complete,
    settle,
    take: <E>(from: NodeId, head: SegmentHead, sealed: Stream.Stream<Uint8Array, E>) =>
      Effect.suspend(() =>
        sessions.begin(from, head) ?
          Effect.ensuring(take(from, head, sealed), Effect.sync(() => sessions.end(from, head))) :
          Effect.fail(new RecordBackNoRoom({ detail: "this segment is on its way already" }))
      ).pipe(Semaphore.withPermit(incoming)),
  }
})
