/**
 * Recorded footage of other members for a player at this node's RTSP door: their files, read over what carries all requests between nodes.
 *
 * Invariants
 * 1. A read that fails is a gap for the player, and told once for each node and session in the log.
 * 2. One read is {@link mostFootageBytes} at most, and no answer is longer than was asked for.
 */
import type { OtherMember } from "#actors/protocol/camera-serving.ts"
import type { Peers } from "#actors/protocol/federation-peer.ts"
import type { RtspFootage } from "#media/rtsp-server.ts"
import type { Interval, NodeId, RecordingId } from "#schema/common.ts"
import { FootageFiles, footagePath, FootageRows, mostFootageBytes } from "#schema/federation-footage.ts"
import type { SegmentFile } from "#schema/record.ts"
import { Effect, Stream } from "effect"

/** Until an answer has come whole: a disk may have to wake, and a player's own patience is a minute. */
const patience = "15 seconds"

const pathOf = ({ folder, id }: SegmentFile, what: "index" | "bytes", more: Readonly<Record<string, string>> = {}) =>
  `${footagePath}/${id}/${what}?${new URLSearchParams({ folder, ...more })}`

export const makeFootage = (peers: Peers["Service"]) => {
  const gathered = (body: Stream.Stream<Uint8Array, unknown>, length: number) =>
    Stream.runFold(body, () => ({ at: 0, bytes: Buffer.allocUnsafeSlow(length) as Buffer | null }), (sum, chunk) => {
      if (sum.bytes === null || sum.at + chunk.length > length) return { at: sum.at, bytes: null }
      sum.bytes.set(chunk, sum.at)
      return { at: sum.at + chunk.length, bytes: sum.bytes }
    }).pipe(Effect.map(({ at, bytes }) => at === length ? bytes : null))

  /** What members have of the interval; null: nothing, by now. */
  const of = Effect.fnUntraced(
    function*(recordingId: RecordingId, { end, start }: Interval, members: ReadonlyArray<OtherMember>) {
      const told = new Set<NodeId>()
      const gap = (holder: NodeId) => (error: unknown) =>
        Effect.suspend(() => {
          if (told.has(holder)) return Effect.succeed(null)
          told.add(holder)
          const node = members.find(({ nodeId }) => nodeId === holder)?.name ?? holder
          return Effect.as(
            Effect.logInfo("Footage of another node could not be had for a player", { node, error }),
            null,
          )
        })
      const at = (ms: number) => new Date(ms).toISOString()
      const query = new URLSearchParams({ recordingId, start: at(start), end: at(end) })
      const lists = yield* Effect.forEach(members, ({ nodeId: holder }) =>
        peers.call(holder, { method: "GET", path: `${footagePath}?${query}`, timeout: patience }, FootageFiles).pipe(
          Effect.map(({ items }) => items.map((file) => ({ holder, file }))),
          Effect.catch((error) => Effect.as(gap(holder)(error), [])),
        ), { concurrency: 4 })
      const files = lists.flat()
      if (files.length === 0) {
        return null
      }
      return {
        kind: "footage",
        files,
        index: (holder, file) =>
          peers.call(holder, { method: "GET", path: pathOf(file, "index"), timeout: patience }, FootageRows).pipe(
            Effect.map(({ items }) =>
              items
            ),
            Effect.catch(gap(holder)),
          ),
        bytes: (holder, file, { from, to }) =>
          to - from > mostFootageBytes ? Effect.succeed(null) : Effect.scoped(Effect.flatMap(
            peers.send(holder, {
              method: "GET",
              path: pathOf(file, "bytes", { from: String(from), to: String(to) }),
              timeout: patience,
              bulk: true,
            }),
            ({ body }) => gathered(body, to - from),
          )).pipe(Effect.timeout(patience), Effect.catch(gap(holder))),
      } satisfies RtspFootage
    },
  )
  return { of }
}
