/**
 * Heartbeats: this node asks every member and peer how it is, each in a fiber of its own, and tells who is there.
 *
 * Invariants
 * 1. One that does not answer holds up no other, and a question that gets no answer ends within {@link longest}.
 * 2. Silence is measured by this node's monotonic clock; the other's clock is only compared, at the middle of the question.
 */
import { NodeLiveness } from "#actors/protocol/federation-node.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { Presence } from "#cluster/presence.ts"
import type { EpochMs, NodeId } from "#schema/common.ts"
import { Heartbeat, type NodeState } from "#schema/federation.ts"
import { Clock, Duration, Effect, FiberMap, PubSub, Schedule, Stream } from "effect"
import type { FailoverSettingsKept } from "./federation-failover-settings.ts"

const path = "/federation/api/v1/federation/failover/heartbeat"
/** A node that is busy answers later than usual, and is not dead for that. */
const longest = Duration.seconds(2)
/** Heartbeats a slow reader may be behind. */
const buffered = 256

export const monotonicMs: Effect.Effect<number> = Effect.map(
  Clock.monotonicTimeNanos,
  (nanos) => Number(nanos / 1_000_000n),
)

/** A heartbeat as it came. */
export interface HeardNode {
  readonly nodeId: NodeId
  readonly heartbeat: Heartbeat
  /** By this node's wall clock. */
  readonly heardMs: EpochMs
}

/** How often a silent node is judged. */
const judgeEvery = "500 millis"

export const makeHeartbeats = (settings: FailoverSettingsKept) =>
  Effect.gen(function*() {
    const [peers, liveness, presence] = yield* Effect.all([Peers, NodeLiveness, Presence])
    /** Monotonic moments of the first question and of the last heartbeat; null: none yet. */
    const known = new Map<NodeId, { readonly since: number; readonly heard: number | null }>()
    const told = yield* PubSub.sliding<HeardNode>(buffered)

    const stateOf = (silence: number, limits: { readonly suspectMs: number; readonly deadMs: number }): NodeState =>
      silence < limits.suspectMs ? "online" : silence < limits.deadMs ? "suspect" : "offline"
    const judge = Effect.gen(function*() {
      const { settings: limits } = yield* settings.get
      const nowMs = yield* monotonicMs
      for (const [id, { heard, since }] of known) {
        if (heard !== null) yield* liveness.judge(id, stateOf(nowMs - heard, limits))
        // Whoever never answered is waited for as long as one that fell silent.
        yield* presence.tell(id, stateOf(nowMs - (heard ?? since), limits))
      }
    })
    yield* Effect.forkScoped(Effect.repeat(judge, Schedule.spaced(judgeEvery)))
    const once = (peer: Peer) =>
      Effect.gen(function*() {
        const [askedMs, askedAt] = [yield* Clock.currentTimeMillis, yield* monotonicMs]
        const heartbeat = yield* peers.call(peer.nodeId, { method: "GET", path, timeout: longest }, Heartbeat)
        const nowMs = yield* monotonicMs
        if (heartbeat.nodeId !== peer.nodeId) return
        known.set(peer.nodeId, { since: nowMs, heard: nowMs })
        const clockOffsetMs = Math.round(heartbeat.timeMs - askedMs - (nowMs - askedAt) / 2)
        const { capacity, version } = heartbeat
        yield* liveness.seen(peer.nodeId, { version, clockOffsetMs, capacity })
        yield* PubSub.publish(told, { nodeId: peer.nodeId, heartbeat, heardMs: yield* Clock.currentTimeMillis })
      }).pipe(Effect.catchCause(() => Effect.void))
    const follow = (peer: Peer) =>
      Effect.forever(Effect.andThen(
        once(peer),
        Effect.flatMap(settings.get, ({ settings: { heartbeatMs } }) => Effect.sleep(heartbeatMs)),
      ))

    const fibers = yield* FiberMap.make<NodeId>()
    const keep = (now: ReadonlyArray<Peer>) =>
      Effect.gen(function*() {
        const ids = new Set(now.map(({ nodeId }) =>
          nodeId
        ))
        for (const id of [...known.keys()].filter((id) => !ids.has(id))) {
          known.delete(id)
          yield* FiberMap.remove(fibers, id)
          yield* liveness.judge(id, null)
          yield* presence.tell(id, null)
        }
        for (const peer of now) {
          if (known.has(peer.nodeId)) continue
          const { nodeId } = peer
          known.set(nodeId, { since: yield* monotonicMs, heard: null })
          yield* FiberMap.run(fibers, nodeId, follow(peer))
        }
      })
    yield* Stream.unwrap(peers.changes()).pipe(
      Stream.runForEach(keep),
      Effect.retry(Schedule.spaced("2 seconds")),
      Effect.forkScoped,
    )
    return Stream.fromPubSub(told)
  })
