/**
 * Which member of the cluster serves what a player asks this node's RTSP door for, and the line there.
 *
 * Invariants
 * 1. What the player says is sent in order, one message after another; {@link mostUnsent} wait at most, then the line ends.
 * 2. Footage that one member has all of is played there. Where several have shares of it, of those that answer, this node plays it from all
 *    of them (`media/rtsp-server/spread.ts`).
 */
import { type OtherMember, Serving } from "#actors/protocol/camera-serving.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { type RtspElsewhere, RtspGateClosed, type RtspLine, type RtspWhat } from "#media/rtsp-server.ts"
import { unframed } from "#media/rtsp-server/line.ts"
import type { Interval, NodeId } from "#schema/common.ts"
import { mostLineBytes, rtspLineHeader, rtspLinePath } from "#schema/federation-rtsp.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Deferred, Effect, Queue, Result, Stream } from "effect"
import { makeFootage } from "./rtsp-footage.ts"

const mostUnsent = 256
/** The retention of whoever keeps longest: an interval without a beginning. */
const longestMs = 400 * 86_400_000
/** Holes shorter than this are rounding, as everywhere. */
const roundingMs = 10

const join = (parts: ReadonlyArray<Uint8Array>): ReadonlyArray<Uint8Array> => {
  const whole = Buffer.concat(parts)
  return Array.from(
    { length: Math.ceil(whole.length / mostLineBytes) },
    (_, at) => whole.subarray(at * mostLineBytes, (at + 1) * mostLineBytes),
  )
}

/** What one member has of an interval; `other` null: this node. */
interface Holding {
  readonly other: OtherMember | null
  readonly lengthMs: number
  readonly spans: ReadonlyArray<Interval>
}

const lengthOf = (spans: ReadonlyArray<Interval>): number => spans.reduce((sum, span) => sum + span.end - span.start, 0)

/** By start, without overlap. */
const union = (spans: ReadonlyArray<Interval>): ReadonlyArray<Interval> => {
  const joined: Array<{ start: number; end: number }> = []
  for (const { end, start } of spans.toSorted((a, b) => a.start - b.start)) {
    const last = joined.at(-1)
    if (last !== undefined && start <= last.end) last.end = Math.max(last.end, end)
    else joined.push({ start, end })
  }
  return joined
}

export const makeElsewhere = Effect.gen(function*() {
  const [peers, recordings, serving] = yield* Effect.all([Peers, Recordings, Serving])
  const footage = makeFootage(peers)

  const ofRecording = Effect.fnUntraced(
    function*({ endMs, recordingToken, startMs }: Extract<RtspWhat, { readonly kind: "recording" }>) {
      const nowMs = yield* Clock.currentTimeMillis
      const end = endMs ?? nowMs
      const interval = { start: Math.max(startMs ?? 0, end - longestMs), end }
      if (interval.start >= end) return null
      const members = (yield* peers.list()).filter(({ relation }) => relation === "member")
      if (members.length === 0) return null
      const present = new Set(members.map(({ nodeId }) => nodeId))
      const { holders } = yield* recordings.holders(recordingToken, interval, present)
      const found: Array<Holding> = []
      let away: DependencyUnavailable | null = null
      for (const { holder, spans } of holders) {
        if (spans.length === 0) continue
        const other = yield* Effect.result(serving.member(holder))
        if (Result.isSuccess(other)) found.push({ other: other.success, lengthMs: lengthOf(spans), spans })
        else away ??= other.failure
      }
      // This node is the first of them; of two that have as much, the nearer.
      const [most] = found.toSorted((a, b) => b.lengthMs - a.lengthMs)
      if (most === undefined) return away === null ? null : yield* away
      if (lengthOf(union(found.flatMap(({ spans }) => spans))) - most.lengthMs <= roundingMs) return most.other
      const { id } = yield* recordings.byToken(recordingToken)
      const others = found.flatMap(({ other }) => other === null ? [] : [other])
      return yield* footage.of(id, interval, others)
    },
    Effect.catchTags({
      RecordingNotFound: () => Effect.succeed(null),
      InvalidInput: () => Effect.succeed(null),
    }),
  )

  const lineTo = Effect.fnUntraced(function*(nodeId: NodeId) {
    const { body, headers } = yield* peers.send(nodeId, { method: "POST", path: rtspLinePath, bulk: true })
    const id = headers[rtspLineHeader]
    if (id === undefined) return yield* new RtspGateClosed()
    const unsent = yield* Queue.bounded<Uint8Array>(mostUnsent)
    const ended = yield* Deferred.make<void>()
    const say = (bytes: Uint8Array) =>
      Effect.scoped(peers.send(nodeId, {
        method: "POST",
        path: `${rtspLinePath}/${id}`,
        body: {
          stream: Stream.make(bytes),
          contentType: "application/octet-stream",
          contentLength: bytes.length,
        },
      }))
    yield* Queue.takeAll(unsent).pipe(
      Effect.flatMap((parts) => Effect.forEach(join(parts), say, { discard: true })),
      Effect.forever,
      Effect.catchCause(() => Deferred.succeed(ended, undefined)),
      Effect.forkScoped,
    )
    const received = unframed(body).pipe(Stream.interruptWhen(Deferred.await(ended)), Stream.catch(() => Stream.empty))
    return {
      received,
      send: (bytes) => {
        if (!Queue.offerUnsafe(unsent, bytes)) Deferred.doneUnsafe(ended, Effect.void)
      },
    } satisfies RtspLine
  })

  /** A database that is away tells nothing: then this node looks for what it has itself. */
  const unknown = (error: DependencyUnavailable) =>
    error.dependency === "node" ? Effect.fail(new RtspGateClosed()) : Effect.succeed(null)

  return Effect.fn("Rtsp.elsewhere")(function*(what: RtspWhat) {
    const found = yield* (what.kind === "live" ? serving.ofStream(what.streamId) : ofRecording(what)).pipe(
      Effect.catchTag("DependencyUnavailable", unknown),
    )
    if (found === null || "files" in found) return found
    const line = yield* lineTo(found.nodeId).pipe(
      Effect.catch((error) =>
        Effect.andThen(
          Effect.logInfo("A stream of another node could not be had for a player", {
            node: found.name,
            reason: error.message,
          }),
          Effect.fail(new RtspGateClosed()),
        )
      ),
    )
    return { kind: "line", line } satisfies RtspElsewhere
  })
})
