/**
 * The service `RecordBackHome`: which footage of a guardian is wanted here, and how it comes in.
 *
 * Invariants
 * 1. Footage is taken from a node that was granted the guardianship, of recordings whose home is here, with epochs that were in force
 *    while this node did not serve; anything else is refused before a byte of it is read.
 * 2. What is held in quarantine is proven: seal, length, hash, identity, interval, whole fragments, synced. A held segment is not
 *    written to again.
 * 3. A receipt is given for what is among the recordings and in the index, or what this node recorded itself; never for less. What
 *    came of a file before is known by the file's name (recorder, epoch, sequence); clocks are asked of other footage alone.
 * 4. What the guardian could not record either gets its cause from it, once everything it has is here.
 * 5. Sessions live in memory, {@link mostSessions} at most, each for {@link idleMs} after its last use; what they brought stays.
 */
import { Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBackHome } from "#actors/protocol/federation-recordback.ts"
import { Recordings, RecordLedger } from "#actors/protocol/record.ts"
import { type IncomingRow, RecordBackHomeStore } from "#actors/store/federation-recordback-home.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import { explanationsOf } from "#cluster/recordback-gaps.ts"
import { coverageOf, verdictOf } from "#cluster/recordback-manifest.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import type { EpochMs, Interval, NodeId, RecordingId } from "#schema/common.ts"
import {
  fragmentsOfFile,
  type ManifestEntry,
  RecordBackRefused,
  type SegmentAnswer,
  SegmentInvalid,
  type SegmentName,
  type SessionRequest,
  TransferKeyExpired,
} from "#schema/federation-recordback.ts"
import type { Recording } from "#schema/record-config.ts"
import type { SegmentFile } from "#schema/record.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer } from "effect"
import { makeTransferKeys, signReceipt } from "./federation-recordback-keys.ts"
import { keyOf, makeSessions } from "./federation-recordback-session.ts"
import { makeTake } from "./federation-recordback-take.ts"
import { upkeepAtHome } from "./federation-recordback-upkeep.ts"

/** Longest time between two clocks that a manifest may lie in the future. */
const futureMs = 86_400_000

const nothing = { keep: [], receipt: null, reason: "" } as const
const nameOf = ({ epoch, recordingId, sequence }: SegmentName): SegmentName => ({ recordingId, epoch, sequence })

const spanOf = ({ endMs, startMs }: Pick<SegmentFile, "startMs" | "endMs">): Interval => ({
  start: startMs,
  end: endMs,
})

/**
 * What this node has where a segment of `from` lies. `covered`: what it recorded itself, and what came from third ones, around an
 * interval of its own clock. `same`: what came of the segment's file, by the clock of `from`. Other files of `from` are other footage.
 */
const makeCoverage = Effect.gen(function*() {
  const [storage, supervisor] = yield* Effect.all([Storage, RecorderSupervisor])
  return (from: NodeId, { durationMs, epoch, recordingId, sequence, startMs }: ManifestEntry, shift: number) => {
    const segment = { start: startMs, end: startMs + durationMs }
    const around = { start: segment.start + shift, end: segment.end + shift }
    const isOf = (file: SegmentFile) =>
      file.nodeId === from && file.epoch === epoch && file.sequence === Math.floor(sequence / fragmentsOfFile)
    return {
      segment,
      same: storage.files(recordingId, segment).filter(isOf).map(spanOf),
      covered: coverageOf(
        storage.files(recordingId, around).filter(({ nodeId }) => nodeId !== from).map(spanOf),
        supervisor.gaps(recordingId, around).map((gap) => ({ start: gap.startMs, end: gap.endMs ?? around.end })),
      ),
    }
  }
})

/** Which entries may come at all: the reason why not, by segment. */
const makeJudge = Effect.gen(function*() {
  const [ownership, recordings, ledger, storage] = yield* Effect.all([Ownership, Recordings, RecordLedger, Storage])
  return Effect.fnUntraced(function*(manifest: ReadonlyArray<ManifestEntry>, nowMs: EpochMs) {
    const mine = yield* ledger.recordingsOf(ownership.slot)
    const owner = (yield* ownership.owners).find(({ slot }) => slot === ownership.slot)
    const known = new Map<RecordingId, Recording>()
    for (const id of new Set(manifest.map(({ recordingId }) => recordingId))) {
      if (!mine.has(id)) continue
      const found = yield* Effect.catchTag(recordings.get(id), "RecordingNotFound", () => Effect.succeed(null))
      if (found !== null) known.set(id, found)
    }
    const ownEpochs = (id: RecordingId, at: Interval): ReadonlySet<number> =>
      new Set(storage.files(id, at).filter((file) => file.nodeId === ownership.nodeId).map(({ epoch }) => epoch))
    const reasonOf = ({ channelId, durationMs, epoch, recordingId, startMs }: ManifestEntry): string | null => {
      const recording = known.get(recordingId)
      if (recording === undefined || recording.channelId !== channelId) return "no such recording has its home here"
      if (owner === undefined || epoch < 2 || epoch > owner.epoch) return "its epoch was never granted"
      if (owner.nodeId === ownership.nodeId && epoch === owner.epoch) return "its epoch is this node's own"
      if (ownEpochs(recordingId, { start: startMs, end: startMs + durationMs }).has(epoch)) {
        return "its epoch is this node's own"
      }
      return startMs <= 0 || startMs + durationMs > nowMs + futureMs ? "its time cannot be" : null
    }
    return { reasonOf, recordings: known }
  })
})

/** The ledgers of this node take over what a guardian tells of what is missing on both. */
const makeExplain = Effect.gen(function*() {
  const [ownership, ledger, supervisor] = yield* Effect.all([Ownership, RecordLedger, RecorderSupervisor])
  return Effect.fnUntraced(function*(by: string, gaps: SessionRequest["gaps"]) {
    if (gaps.length === 0) return
    const mine = yield* ledger.recordingsOf(ownership.slot)
    const epoch = (yield* ownership.epochOf(ownership.slot)) ?? 0
    for (const id of new Set(gaps.map(({ recordingId }) => recordingId))) {
      if (!mine.has(id)) continue
      const explained = explanationsOf(gaps.filter(({ recordingId }) => recordingId === id), by)
      yield* supervisor.amend(id, { covered: [], explained, epoch })
    }
  })
})

/** Groups what is wanted into the files it will be: segments of one file, one right behind the other. */
const filesOf = Effect.fnUntraced(function*(rerouteId: string, entries: ReadonlyArray<ManifestEntry>) {
  const rows: Array<IncomingRow> = []
  let before: { readonly entry: ManifestEntry; readonly row: IncomingRow } | null = null
  const sorted = [...entries].sort((a, b) =>
    a.fileId < b.fileId ? -1 : a.fileId > b.fileId ? 1 : a.sequence - b.sequence
  )
  for (const entry of sorted) {
    const follows: boolean = before !== null && before.entry.fileId === entry.fileId &&
      before.entry.sequence + before.entry.fragments === entry.sequence
    const row: IncomingRow = {
      ...nameOf(entry),
      rerouteId,
      sourceFile: entry.fileId,
      fileId: follows && before !== null ? before.row.fileId : yield* uuid7,
      at: follows && before !== null ? before.row.at + before.row.bytes : 0,
      bytes: entry.bytes,
      sha256: entry.sha256,
      frontSha256: entry.frontSha256,
      state: "wanted",
      receipt: null,
    }
    rows.push(row)
    before = { entry, row }
  }
  return rows
})

/** Splits a manifest into what is settled by what came before, and what must be looked at. */
const sortOut = (manifest: ReadonlyArray<ManifestEntry>, rows: ReadonlyArray<IncomingRow>) => {
  const known = new Map(rows.map((row) => [keyOf(row), row]))
  const answers: Array<SegmentAnswer> = []
  const open: Array<ManifestEntry> = []
  const same: Array<IncomingRow> = []
  const changed: Array<IncomingRow> = []
  for (const entry of manifest) {
    const row = known.get(keyOf(entry))
    const equal = row?.sha256 === entry.sha256 && row.frontSha256 === entry.frontSha256
    if (row === undefined) open.push(entry)
    else if (equal && row.state === "stored") {
      answers.push({ ...nameOf(entry), ...nothing, state: "stored", receipt: row.receipt })
    } else if (equal) same.push(row)
    else if (row.state === "stored") {
      answers.push({ ...nameOf(entry), ...nothing, state: "refused", reason: "other bytes of that name are stored" })
    } else {
      changed.push(row)
      open.push(entry)
    }
  }
  return { answers, changed, open, same }
}

const make = Effect.gen(function*() {
  const [identity, peers, storage, store] = yield* Effect.all([NodeIdentity, Peers, Storage, RecordBackHomeStore])
  const { nodeId, signing } = identity
  const keys = makeTransferKeys(nodeId, signing.privateKey)
  const sessions = makeSessions()
  const judge = yield* makeJudge
  const coverage = yield* makeCoverage
  const explain = yield* makeExplain
  const { complete, settle, take } = yield* makeTake(sessions)

  const granted = Effect.fnUntraced(function*(from: NodeId) {
    const refused = new RecordBackRefused({ reason: "This node was not granted the guardianship" })
    const peer = yield* Effect.catchTag(peers.get(from), "NodeNotFound", () => Effect.fail(refused))
    if (peer.relation === "peer" && !peer.guardianGranted) return yield* refused
    return peer.name
  })

  /**
   * Files that were promised and will never be whole: a part of them has other bytes now, or does not come any more. What is held of
   * them is let go and comes anew.
   */
  const letGo = Effect.fnUntraced(
    function*(
      manifest: ReadonlyArray<ManifestEntry>,
      same: ReadonlyArray<IncomingRow>,
      changed: ReadonlyArray<IncomingRow>,
    ) {
      const named = new Set(manifest.map(keyOf))
      const broken = new Set(changed.map(({ fileId }) => fileId))
      for (const fileId of new Set(same.map((row) => row.fileId))) {
        const parts = yield* store.ofFile(fileId)
        if (parts.some((part) => part.state === "wanted" && !named.has(keyOf(part)))) broken.add(fileId)
      }
      yield* store.forget([...broken])
      yield* Effect.forEach(broken, (id) => Effect.ignore(storage.quarantine.discard(id)), { discard: true })
      return broken
    },
  )

  const coveredReceipt = Effect.fnUntraced(function*(entry: ManifestEntry, from: NodeId, rerouteId: string) {
    const timeMs = yield* Clock.currentTimeMillis
    const { sha256 } = entry
    return yield* signReceipt({
      ...nameOf(entry),
      rerouteId,
      homeNodeId: nodeId,
      servingNodeId: from,
      sha256,
      state: "covered",
      timeMs,
    }, signing.privateKey)
  })

  const open = Effect.fn("RecordBackHome.open")(function*(from: NodeId, request: SessionRequest) {
    const name = yield* granted(from)
    const { gaps, manifest, offsetErrorMs, offsetMs: shift, rerouteId } = request
    const dataKey = yield* keys.open(request.keyId, request.envelope, { rerouteId, from, to: nodeId })
    if (dataKey === null) return yield* new TransferKeyExpired({ keyId: request.keyId })
    if (dataKey === "forged") {
      return yield* new SegmentInvalid({ reason: "envelope", detail: "the envelope of the data key does not open" })
    }
    yield* explain(name, gaps)
    const nowMs = yield* Clock.currentTimeMillis
    const { reasonOf, recordings } = yield* judge(manifest, nowMs + Math.max(0, -shift))
    // What was held whole and not stored, for a process that died or a request that was let go, comes first: it is as good as stored.
    const names = manifest.map(nameOf)
    const held = (yield* store.find(from, names)).filter(({ state }) => state === "held")
    yield* Effect.forEach(new Set(held.map(({ fileId }) => fileId)), (fileId) => complete(from, fileId), {
      discard: true,
    })
    const { answers, changed, open: fresh, same } = sortOut(manifest, yield* store.find(from, names))
    const broken = yield* letGo(manifest, same, changed)
    const kept = same.filter((row) => !broken.has(row.fileId))
    const again = new Set(same.filter((row) => broken.has(row.fileId)).map(keyOf))
    const wanted: Array<ManifestEntry> = []
    for (const entry of [...fresh, ...manifest.filter((one) => again.has(keyOf(one)))]) {
      const reason = reasonOf(entry)
      if (reason !== null) {
        answers.push({ ...nameOf(entry), ...nothing, state: "refused", reason })
        continue
      }
      const { covered, same: came, segment } = coverage(from, entry, shift)
      const verdict = verdictOf(segment, covered, shift, offsetErrorMs, came)
      if (verdict.state === "covered") {
        const receipt = yield* coveredReceipt(entry, from, rerouteId)
        answers.push({ ...nameOf(entry), ...nothing, state: "covered", receipt })
      } else if (verdict.state === "cut" && !entry.exact) {
        answers.push({ ...nameOf(entry), ...nothing, state: "cut", keep: [...verdict.keep] })
      } else wanted.push(entry)
    }
    const promised = yield* filesOf(rerouteId, wanted)
    yield* store.promise(from, promised, nowMs)
    const session = {
      id: yield* uuid7,
      from,
      rerouteId,
      dataKey,
      recordings,
      entries: new Map(manifest.map((entry) => [keyOf(entry), entry])),
    }
    sessions.add(session, nowMs)
    for (const row of kept) {
      answers.push({ ...nameOf(row), ...nothing, state: row.state === "held" ? "held" : "wanted" })
    }
    for (const row of promised) answers.push({ ...nameOf(row), ...nothing, state: "wanted" })
    return { sessionId: session.id, segments: answers }
  })

  yield* upkeepAtHome(sessions.forget, settle)

  return RecordBackHome.of({
    transferKey: () => keys.current,
    open,
    take: (from, head, sealed) => Effect.andThen(granted(from), take(from, head, sealed)),
  })
})

export const layer = Layer.effect(RecordBackHome, make)
