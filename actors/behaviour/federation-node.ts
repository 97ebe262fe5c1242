/**
 * {@link FederationNodes} and {@link NodeLiveness}: who is there, and how they are.
 *
 * Invariants
 * 1. A node is online for {@link onlineMs} after it was heard, suspect until {@link lostMs}, offline after that; whoever watches it
 *    closer decides instead. One that was only seen on the network is never more than `unknown`: nothing it says is proven.
 * 2. Who is a member or a peer is told as such, whatever somebody says of that id on the network.
 */
import { PeerRegistry } from "#actors/protocol/auth-federation.ts"
import { FederationNodes, type Liveness, NodeLiveness, type Sighting } from "#actors/protocol/federation-node.ts"
import { NodeDiscovery } from "#cluster/discovery.ts"
import { thumbprintOf } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { OwnReach } from "#cluster/members.ts"
import type { EpochMs, NodeId } from "#schema/common.ts"
import { type FederationNode, Fingerprint, NodeNotFound, type NodeState } from "#schema/federation.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Clock, Effect, Layer, SubscriptionRef } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { FederationNodeStore } from "../store/federation-node.ts"

/** Greetings go out every ten seconds. */
const onlineMs = 15_000
const lostMs = 30_000

interface Known extends Sighting {
  readonly lastSeenMs: EpochMs | null
  readonly judged: NodeState | null
}

export const livenessLayer: Layer.Layer<NodeLiveness> = Layer.sync(NodeLiveness, () => {
  const known = new Map<NodeId, Known>()
  const stranger: Known = { lastSeenMs: null, judged: null }
  const stateOf = ({ judged, lastSeenMs }: Known, nowMs: EpochMs): NodeState => {
    if (judged !== null) return judged
    if (lastSeenMs === null) return "unknown"
    const age = nowMs - lastSeenMs
    return age < onlineMs ? "online" : age < lostMs ? "suspect" : "offline"
  }
  return NodeLiveness.of({
    seen: (nodeId, told = {}) =>
      Effect.map(Clock.currentTimeMillis, (lastSeenMs) => {
        known.set(nodeId, { ...known.get(nodeId) ?? stranger, ...told, lastSeenMs })
      }),
    judge: (nodeId, judged) => Effect.sync(() => void known.set(nodeId, { ...known.get(nodeId) ?? stranger, judged })),
    of: (nodeId) =>
      Effect.map(Clock.currentTimeMillis, (nowMs): Liveness => {
        const one = known.get(nodeId) ?? stranger
        return {
          lastSeenMs: one.lastSeenMs,
          state: stateOf(one, nowMs),
          version: one.version ?? null,
          clockOffsetMs: one.clockOffsetMs ?? null,
          capacity: one.capacity ?? null,
        }
      }),
    keepOnly: (nodeIds) =>
      Effect.sync(() => {
        for (const nodeId of known.keys()) if (!nodeIds.has(nodeId)) known.delete(nodeId)
      }),
  })
})

export interface NodeListOptions {
  readonly name: string
  readonly version: string
  readonly reach: OwnReach
}

const make = Effect.fnUntraced(function*(options: NodeListOptions) {
  const store = yield* FederationNodeStore
  const registry = yield* PeerRegistry
  const liveness = yield* NodeLiveness
  const discovery = yield* NodeDiscovery
  const { nodeId: self, signing } = yield* NodeIdentity

  const own = Effect.gen(function*() {
    const reach = yield* SubscriptionRef.get(options.reach)
    return {
      nodeId: self,
      name: options.name,
      address: reach?.address ?? null,
      addresses: [],
      fingerprint: Fingerprint.make(thumbprintOf(signing.publicKey)),
      self: true,
      relation: "self",
      state: "online",
      version: options.version,
      lastSeen: yield* Clock.currentTimeMillis,
      clockOffsetMs: 0,
      capacity: (yield* liveness.of(self)).capacity,
      order: 0,
      mediaReadEnforcement: false,
      pairedAt: null,
    } satisfies FederationNode
  })

  const others = Effect.flatMap(
    registry.list,
    Effect.forEach((peer) =>
      Effect.map(liveness.of(peer.nodeId), (heard): FederationNode => ({
        nodeId: peer.nodeId,
        name: peer.name,
        address: peer.address,
        addresses: peer.addresses,
        fingerprint: peer.fingerprint,
        self: false,
        relation: peer.relation,
        state: heard.state,
        version: peer.version ?? heard.version,
        lastSeen: heard.lastSeenMs,
        clockOffsetMs: heard.clockOffsetMs,
        capacity: heard.capacity,
        order: 0,
        mediaReadEnforcement: peer.mediaReadEnforcement,
        pairedAt: peer.pairing?.pairedAtMs ?? null,
      }))
    ),
  )

  const seen = Effect.map(discovery.list, (found) =>
    found.map((node): FederationNode => ({
      nodeId: node.nodeId,
      name: node.name,
      address: node.address,
      addresses: [],
      // Whoever took it from the air would compare it with itself.
      fingerprint: null,
      self: false,
      relation: "discovered",
      state: "unknown",
      version: node.version === "" ? null : node.version,
      lastSeen: node.lastHeardMs,
      clockOffsetMs: null,
      capacity: null,
      order: 0,
      mediaReadEnforcement: false,
      pairedAt: null,
    })))

  const list = Effect.gen(function*() {
    const places = yield* store.order
    const place = ({ nodeId }: FederationNode) => places.get(nodeId) ?? Infinity
    const known = yield* others
    const ids = new Set(known.map(({ nodeId }) => nodeId))
    const strangers = (yield* seen).filter(({ nodeId }) => !ids.has(nodeId))
    const sorted = [...known, ...strangers].toSorted((a, b) =>
      Number(a.relation === "discovered") - Number(b.relation === "discovered") ||
      // Infinity minus itself is none.
      (place(a) === place(b) ? 0 : place(a) - place(b)) || a.name.localeCompare(b.name) ||
      (a.nodeId < b.nodeId ? -1 : 1)
    )
    return [yield* own, ...sorted].map((node, order) => ({ ...node, order }))
  })

  return FederationNodes.of({
    list: () => answered(list),
    get: (nodeId) =>
      answered(Effect.flatMap(list, (all) => {
        const found = all.find((node) => node.nodeId === nodeId)
        return found === undefined ? Effect.fail(new NodeNotFound({ nodeId })) : Effect.succeed(found)
      })),
    order: Effect.fnUntraced(function*(nodeIds) {
      if (new Set(nodeIds).size < nodeIds.length) {
        return yield* InvalidInput.at("/payload/nodeIds", "names a node twice")
      }
      const known = new Set((yield* list).map(({ nodeId }) => nodeId))
      const stranger = nodeIds.findIndex((nodeId) => !known.has(nodeId))
      if (stranger >= 0) return yield* InvalidInput.at(`/payload/nodeIds/${stranger}`, "is no node of this list")
      yield* store.setOrder(nodeIds)
      return yield* list
    }, answered),
  })
})

export const layer = (options: NodeListOptions): Layer.Layer<
  FederationNodes,
  never,
  SqlClient.SqlClient | PeerRegistry | NodeLiveness | NodeDiscovery | NodeIdentity
> => Layer.effect(FederationNodes, make(options))
