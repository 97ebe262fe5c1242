/**
 * Which member of the cluster serves what a player asks this node's RTSP door for, and the line there.
 *
 * Invariants
 * 1. What the player says is sent in order, one message after another; {@link mostUnsent} wait at most, then the line ends.
 * 2. Footage is played from the member that has most of the interval, of those that answer; what this node has most of, it plays itself.
 */
import { Serving } from "#actors/protocol/camera-serving.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { RtspGateClosed, type RtspLine, type RtspWhat } from "#media/rtsp-server.ts"
import { unframed } from "#media/rtsp-server/line.ts"
import type { NodeId } from "#schema/common.ts"
import { mostLineBytes, rtspLineHeader, rtspLinePath } from "#schema/federation-rtsp.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Clock, Deferred, Effect, Queue, Result, Stream } from "effect"

const mostUnsent = 256
/** The retention of whoever keeps longest: an interval without a beginning. */
const longestMs = 400 * 86_400_000

const join = (parts: ReadonlyArray<Uint8Array>): ReadonlyArray<Uint8Array> => {
  const whole = Buffer.concat(parts)
  return Array.from(
    { length: Math.ceil(whole.length / mostLineBytes) },
    (_, at) => whole.subarray(at * mostLineBytes, (at + 1) * mostLineBytes),
  )
}

export const makeElsewhere = Effect.gen(function*() {
  const [peers, recordings, serving] = yield* Effect.all([Peers, Recordings, Serving])

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
      const lengths = holders.map(({ holder, spans }) => ({
        holder,
        length: spans.reduce((sum, span) => sum + span.end - span.start, 0),
      }))
      // This node is the first of them; of two that have as much, the nearer.
      const most = lengths.filter(({ length }) => length > 0).sort((a, b) => b.length - a.length)
      let away: DependencyUnavailable | null = null
      for (const { holder } of most) {
        const found = yield* Effect.result(serving.member(holder))
        if (Result.isSuccess(found)) return found.success
        away ??= found.failure
      }
      return away === null ? null : yield* away
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
    const other = yield* (what.kind === "live" ? serving.ofStream(what.streamId) : ofRecording(what)).pipe(
      Effect.catchTag("DependencyUnavailable", unknown),
    )
    if (other === null) return null
    return yield* lineTo(other.nodeId).pipe(
      Effect.catch((error) =>
        Effect.andThen(
          Effect.logInfo("A stream of another node could not be had for a player", {
            node: other.name,
            reason: error.message,
          }),
          Effect.fail(new RtspGateClosed()),
        )
      ),
    )
  })
})
