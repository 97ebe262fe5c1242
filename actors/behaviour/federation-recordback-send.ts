/**
 * One session of record-back from the node that recorded: what is promised, what the home node says to it, what goes up.
 *
 * Invariants
 * 1. The data key serves this session alone; each sealed segment has a nonce of its own.
 * 2. A segment counts as home only with a receipt that the home node signed over this reroute, this segment and this hash.
 * 3. {@link atOnce} segments go up at once, in chunks, no faster than the rate; memory is that of the chunks.
 */
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordLedger } from "#actors/protocol/record.ts"
import { type JobRow, RecordBackStore } from "#actors/store/federation-recordback.ts"
import { Ownership } from "#cluster/ownership.ts"
import { aged, certainMs, type ClockOffset, clockOffset } from "#cluster/recordback-manifest.ts"
import { type Bucket, type Meter, take } from "#cluster/recordback-rate.ts"
import { nonceBytes, sealedBytes, sealer } from "#cluster/recordback-seal.ts"
import { Storage } from "#media/storage.ts"
import {
  maxToldGaps,
  type SegmentAnswer,
  SegmentHead,
  SegmentsTaken,
  SessionAnswer,
  SessionRequest,
  type ToldGap,
  TransferKey,
} from "#schema/federation-recordback.ts"
import { PeerRefused } from "#schema/federation.ts"
import { Clock, Effect, Redacted, Result, Schema, Stream } from "effect"
import { randomBytes } from "node:crypto"
import { checkedTransferKey, makeDataKey, readReceipt } from "./federation-recordback-keys.ts"
import type { makePlanner } from "./federation-recordback-plan.ts"
import { makePromises, type Promised } from "./federation-recordback-promise.ts"
import { keyOf } from "./federation-recordback-session.ts"

const base = "/federation/api/v1/federation/failover/recordback"
const atOnce = 3
/** After so many refusals (other bytes than promised, an epoch that the home node has not read yet) a segment counts as lost. */
const mostTries = 3
/** The first answer comes with a handshake; so many more may tell the home node's clock better. */
const clockAsks = 4
/** Until the answer to a segment; its last one waits for the whole file to be stored. */
const segmentTimeout = "10 minutes"

type Planner = Effect.Success<ReturnType<typeof makePlanner>>
const encodeHead = Schema.encodeEffect(Schema.fromJsonString(SegmentHead))
const encodeRequest = Schema.encodeEffect(SessionRequest)

/** Where data keys are sent to, and how the home node's clock differed when it said so. */
export interface SendKey extends Pick<TransferKey, "keyId" | "publicKey"> {
  readonly clock: ClockOffset
  readonly atMs: number
}

export interface SendOptions {
  readonly planner: Planner
  /** Bytes a second over all jobs of this node; 0: no limit. */
  readonly rate: Effect.Effect<number>
  /** Something came home. */
  readonly moved: (jobId: string) => Effect.Effect<void>
  readonly meterOf: (jobId: string) => Meter
  /** The home node does not take so many segments. */
  readonly refused: (job: JobRow, segments: number, reason: string) => Effect.Effect<void>
}

/** What stands before and behind the sealed bytes in the body (RFC 7578). */
const multipart = (head: string, boundary: string) => {
  const before = Buffer.from(
    `--${boundary}\r\nContent-Disposition: form-data; name="segment"\r\nContent-Type: application/json\r\n\r\n${head}\r\n` +
      `--${boundary}\r\nContent-Disposition: form-data; name="data"; filename="segment"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n",
  )
  return {
    before,
    after: Buffer.from(`\r\n--${boundary}--\r\n`),
    contentType: `multipart/form-data; boundary=${boundary}`,
  }
}

export const makeSend = Effect.fnUntraced(function*(options: SendOptions) {
  const { meterOf, moved, planner, rate, refused } = options
  const [{ nodeId }, peers, storage, store] = yield* Effect.all([Ownership, Peers, Storage, RecordBackStore])
  const ledger = yield* RecordLedger
  const promises = yield* makePromises
  let bucket: Bucket = { tokens: 0, atMs: 0 }

  const paced = (jobId: string) => (chunk: Uint8Array) =>
    Effect.gen(function*() {
      const taken = take(bucket, yield* rate, chunk.length, yield* Clock.currentTimeMillis)
      bucket = taken.bucket
      if (taken.waitMs > 0) yield* Effect.sleep(taken.waitMs)
      meterOf(jobId).add(chunk.length, yield* Clock.currentTimeMillis)
      return chunk
    })

  /** Invariant 2. */
  const home = Effect.fnUntraced(function*(job: JobRow, peer: Peer, one: Promised, answer: SegmentAnswer) {
    const claims = answer.receipt === null ? null : yield* readReceipt(answer.receipt, peer.signingKey)
    const holds = claims !== null && claims.rerouteId === job.id && claims.homeNodeId === job.homeNodeId &&
      claims.servingNodeId === nodeId && keyOf(claims) === keyOf(one.entry) && claims.sha256 === one.entry.sha256 &&
      claims.state === answer.state
    if (!holds) {
      const detail = "the receipt of a segment does not hold"
      return yield* new PeerRefused({ nodeId: peer.nodeId, theirStatus: 200, theirCode: "bad_receipt", reason: detail })
    }
    yield* store.settle(job.id, one.row, "home", answer.receipt)
    yield* moved(job.id)
  })

  /** Read and promised anew, a few times. */
  const damaged = (job: JobRow, one: Promised) =>
    one.row.tries + 1 >= mostTries ?
      Effect.asVoid(store.settle(job.id, one.row, "lost", null)) :
      Effect.asVoid(store.unhashed(job.id, one.row))

  const heard = Effect.fnUntraced(function*(job: JobRow, peer: Peer, one: Promised, answer: SegmentAnswer) {
    switch (answer.state) {
      case "stored":
      case "covered":
        return yield* home(job, peer, one, answer)
      case "cut":
        return yield* Effect.catchTag(
          planner.cut(job.id, one.row, answer.keep),
          "StorageError",
          () => store.settle(job.id, one.row, "lost", null),
        )
      case "refused":
        yield* Effect.logWarning("The home node refuses a segment", {
          segment: keyOf(one.entry),
          reason: answer.reason,
        })
        return yield* damaged(job, one)
      case "held":
      case "wanted":
        return
    }
  })

  const body = (
    jobId: string,
    { dataKey, id: sessionId }: { readonly id: string; readonly dataKey: Redacted.Redacted<Uint8Array> },
    { entry, front, row }: Promised,
    head: string,
  ) => {
    const { after, before, contentType } = multipart(head, `nightjar-${randomBytes(12).toString("hex")}`)
    const file = { id: row.fileId, folder: row.folder }
    return {
      // A request may be sent twice, for want of a nonce: each time under a seal of its own. A read that fails breaks it off; the segment
      // is looked at again in the next session.
      stream: Stream.suspend(() => {
        const seal = sealer(Redacted.value(dataKey), randomBytes(nonceBytes), sessionId, entry)
        const sealed = Stream.make(front.bytes).pipe(
          Stream.concat(storage.bytes(file, { from: row.at, to: row.at + row.bytes })),
          Stream.mapEffect(paced(jobId)),
          Stream.map((chunk) => seal.update(chunk)),
        )
        return Stream.make<ReadonlyArray<Uint8Array>>(before, seal.head).pipe(
          Stream.concat(Stream.orDie(sealed)),
          Stream.concat(Stream.suspend(() => Stream.make(seal.end(), after))),
        )
      }),
      contentType,
      contentLength: before.length + sealedBytes(entry) + after.length,
    }
  }

  /** Sends one segment; what else the answer settles is settled too. */
  const push = Effect.fnUntraced(
    function*(
      job: JobRow,
      peer: Peer,
      session: { readonly id: string; readonly dataKey: Redacted.Redacted<Uint8Array> },
      one: Promised,
      all: ReadonlyMap<string, Promised>,
    ) {
      const { epoch, recordingId, sequence } = one.entry
      const head = yield* Effect.orDie(encodeHead({ sessionId: session.id, recordingId, epoch, sequence }))
      const sent = yield* Effect.result(peers.call(peer.nodeId, {
        method: "POST",
        path: `${base}/segments`,
        body: body(job.id, session, one, head),
        timeout: segmentTimeout,
      }, SegmentsTaken))
      if (Result.isFailure(sent)) {
        const { failure } = sent
        if (failure._tag !== "PeerRefused" || failure.theirStatus !== 422) return yield* failure
        yield* Effect.logWarning("A segment did not arrive as it was promised", { reason: failure.reason })
        return yield* damaged(job, one)
      }
      for (const answer of sent.success.segments) {
        const other = all.get(keyOf(answer))
        if (other !== undefined) yield* heard(job, peer, other, answer)
      }
    },
  )

  const openSession = Effect.fnUntraced(
    function*(job: JobRow, key: SendKey, told: Pick<SessionRequest, "manifest" | "gaps">) {
      const route = { rerouteId: job.id, from: nodeId, to: job.homeNodeId }
      const { dataKey, envelope } = yield* makeDataKey(key, route)
      const clock = aged(key.clock, (yield* Clock.currentTimeMillis) - key.atMs)
      const request = yield* Effect.orDie(encodeRequest({
        rerouteId: job.id,
        keyId: key.keyId,
        envelope,
        offsetMs: clock.offsetMs,
        offsetErrorMs: clock.errorMs,
        ...told,
      }))
      const opened = yield* peers.call(job.homeNodeId, {
        method: "POST",
        path: `${base}/sessions`,
        body: { json: request as Schema.Json },
        timeout: "2 minutes",
      }, SessionAnswer)
      return { dataKey, opened }
    },
  )

  return {
    /** Tells what this node could not record either, and why: the newest of each recording. */
    tellGaps: Effect.fnUntraced(function*(job: JobRow, key: SendKey) {
      for (const recordingId of yield* ledger.recordingsOf(job.slot)) {
        const gaps = (yield* ledger.gapsOf(recordingId)).slice(-maxToldGaps).flatMap((gap): ReadonlyArray<ToldGap> =>
          gap.endMs === null ? [] : [{
            recordingId,
            startMs: gap.startMs,
            endMs: gap.endMs,
            cause: gap.cause,
            detail: gap.detail.slice(0, 400),
          }]
        )
        if (gaps.length > 0) yield* openSession(job, key, { manifest: [], gaps })
      }
    }),
    /** The home node's key, by its own word. */
    transferKey: Effect.fnUntraced(function*({ homeNodeId }: JobRow) {
      const peer = yield* peers.get(homeNodeId)
      const ask = Effect.gen(function*() {
        const sentMs = yield* Clock.currentTimeMillis
        const told = yield* peers.call(homeNodeId, { method: "GET", path: `${base}/transfer-key` }, TransferKey)
        const atMs = yield* Clock.currentTimeMillis
        return { told, atMs, clock: clockOffset(sentMs, told.clockMs, atMs) }
      })
      let best = yield* ask
      for (let more = clockAsks; more > 0 && best.clock.errorMs > certainMs; more--) {
        const next = yield* ask
        if (next.clock.errorMs < best.clock.errorMs) best = next
      }
      const { atMs, clock, told } = best
      const key = yield* checkedTransferKey(told, homeNodeId, peer.signingKey)
      const detail = "its transfer key is not signed by it"
      if (key === null) {
        return yield* new PeerRefused({
          nodeId: homeNodeId,
          theirStatus: 200,
          theirCode: "bad_transfer_key",
          reason: detail,
        })
      }
      const { keyId, publicKey } = key
      return { keyId, publicKey, clock, atMs } satisfies SendKey
    }),
    /** One session; false: nothing is left to send. */
    session: Effect.fnUntraced(function*(job: JobRow, key: SendKey) {
      const { promised, rows } = yield* promises.next(job.id)
      if (rows === 0) return false
      if (promised.length === 0) return true
      const peer = yield* peers.get(job.homeNodeId)
      const { dataKey, opened } = yield* openSession(job, key, {
        manifest: promised.map(({ entry }) => entry),
        gaps: [],
      })
      const all = new Map(promised.map((one) => [keyOf(one.entry), one]))
      const wanted: Array<Promised> = []
      let settled = 0
      let refusal = "it holds what was sent, and does not store it"
      let refusals = 0
      for (const answer of opened.segments) {
        const one = all.get(keyOf(answer))
        if (one === undefined) continue
        if (answer.state === "wanted") wanted.push(one)
        else if (answer.state === "refused") {
          refusal = answer.reason
          refusals++
        } else if (answer.state !== "held") settled++
        yield* heard(job, peer, one, answer)
      }
      yield* refused(job, refusals, refusal)
      if (wanted.length + settled === 0) {
        return yield* new PeerRefused({
          nodeId: peer.nodeId,
          theirStatus: 200,
          theirCode: "nothing_moved",
          reason: refusal,
        })
      }
      const session = { id: opened.sessionId, dataKey }
      yield* Effect.forEach(wanted, (one) => push(job, peer, session, one, all), { concurrency: atOnce, discard: true })
      yield* planner.release(job.id)
      return true
    }),
  }
})
