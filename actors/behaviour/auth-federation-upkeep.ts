/**
 * What keeps a pairing alive: greetings that tell whether the other side is there, and tokens that are renewed in time.
 *
 * Invariants
 * 1. Each node is greeted every {@link greetEvery}, when it is new, and when the bus hints that one came or went; all at once, whatever
 *    became of the greeting before. Only a greeting tells how a node is.
 * 2. A token is renewed at half of its life, and whenever this node is reached otherwise than the peer was told: so each learns where
 *    the other has gone, as long as one of them stayed where it was.
 * 3. A node that is lost, and one that is found again, are told once.
 */
import { type KnownPeer, PeerRegistry } from "#actors/protocol/auth-federation.ts"
import { Events } from "#actors/protocol/event.ts"
import { NodeLiveness } from "#actors/protocol/federation-node.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Bus } from "#cluster/bus.ts"
import type { OwnReach } from "#cluster/members.ts"
import { peerTokenSeconds } from "#cluster/peer-token.ts"
import { PeerGreeting, PeerTokenAnswer } from "#schema/auth-federation.ts"
import type { NodeId } from "#schema/common.ts"
import { Clock, Effect, Latch, Layer, Redacted, Stream, SubscriptionRef } from "effect"

const greetEvery = "10 seconds"
const patience = "5 seconds"

export interface UpkeepOptions {
  readonly name: string
  readonly reach: OwnReach
}

const make = Effect.fnUntraced(function*({ name, reach }: UpkeepOptions) {
  const registry = yield* PeerRegistry
  const peers = yield* Peers
  const liveness = yield* NodeLiveness
  const events = yield* Events
  /** What each peer was told of us, as a text. */
  const told = new Map<NodeId, string>()
  const lost = new Set<NodeId>()

  const greet = Effect.fnUntraced(function*(peer: KnownPeer) {
    const sentMs = yield* Clock.currentTimeMillis
    const request = { method: "GET", path: "/auth/api/v1/federation/peer", timeout: patience } as const
    const greeting = yield* peers.call(peer.nodeId, request, PeerGreeting)
    const heardMs = yield* Clock.currentTimeMillis
    // As if the way there took as long as the way back.
    const clockOffsetMs = Math.round(greeting.time - (sentMs + heardMs) / 2)
    yield* liveness.seen(peer.nodeId, { version: greeting.version, clockOffsetMs })
  })

  const renew = Effect.fnUntraced(function*(peer: KnownPeer) {
    const own = yield* SubscriptionRef.get(reach)
    if (peer.pairing === null || own === null) return
    const json = { name: name.slice(0, 128), address: own.address, tlsPin: own.tlsPin }
    const text = JSON.stringify(json)
    const nowMs = yield* Clock.currentTimeMillis
    const young = peer.pairing.tokenExpiresAtMs - nowMs > peerTokenSeconds * 500
    if (young && told.get(peer.nodeId) === text) return
    const request = {
      method: "POST",
      path: "/auth/api/v1/federation/refresh",
      body: { json },
      timeout: patience,
    } as const
    const given = yield* peers.call(peer.nodeId, request, PeerTokenAnswer)
    yield* registry.keepToken(peer.pairing.id, Redacted.make(given.token), nowMs + given.expiresIn * 1000)
    told.set(peer.nodeId, text)
  })

  const watch = Effect.fnUntraced(function*(peer: KnownPeer) {
    const { state } = yield* liveness.of(peer.nodeId)
    const tell = (type: "federation.node.lost" | "federation.node.found", reason: string) =>
      events.publish({ type, subject: peer.nodeId, data: { name: peer.name, reason }, resource: [] })
    if (state === "offline" && !lost.has(peer.nodeId)) {
      lost.add(peer.nodeId)
      yield* tell("federation.node.lost", `It was last heard at ${peer.address}`)
    }
    if (state === "online" && lost.delete(peer.nodeId)) yield* tell("federation.node.found", "It answers again")
  })

  const attend = (peer: KnownPeer) =>
    Effect.andThen(renew(peer), greet(peer)).pipe(
      Effect.catch((error) => Effect.logDebug(`${peer.name}: ${error.message}`)),
      Effect.andThen(watch(peer)),
    )

  const round = Effect.gen(function*() {
    const all = yield* registry.list
    const there = new Set(all.map((peer) => peer.nodeId))
    for (const nodeId of told.keys()) if (!there.has(nodeId)) told.delete(nodeId)
    for (const nodeId of lost) if (!there.has(nodeId)) lost.delete(nodeId)
    yield* Effect.forEach(all, attend, { concurrency: "unbounded", discard: true })
  })
  const wanted = yield* Latch.make(true)
  yield* registry.changes.pipe(Stream.runForEach(() => wanted.open), Effect.forkScoped)
  const bus = yield* Bus
  yield* bus.onPresence(Effect.asVoid(wanted.open))
  yield* Effect.forkScoped(Effect.forever(Effect.gen(function*() {
    yield* Effect.timeoutOption(wanted.await, greetEvery)
    yield* wanted.close
    yield* Effect.catchCause(round, (cause) => Effect.logWarning("Greeting other nodes failed", cause))
  })))
})

export const upkeepLayer = (
  options: UpkeepOptions,
): Layer.Layer<never, never, PeerRegistry | Peers | NodeLiveness | Events> => Layer.effectDiscard(make(options))
