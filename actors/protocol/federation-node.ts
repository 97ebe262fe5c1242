/**
 * The list of nodes: this one, the members of its cluster, its peers, and those that were seen on the network.
 *
 * Invariants
 * 1. This node comes first, the others in the order that people gave them, then those that were only seen on the network.
 */
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { FederationNode, NodeCapacity, NodeNotFound, NodeState } from "#schema/federation.ts"
import type { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

/** What was heard of a node; what is left out stays as it was. */
export interface Sighting {
  readonly version?: string
  /** Its clock minus ours. */
  readonly clockOffsetMs?: number
  readonly capacity?: NodeCapacity
}

export interface Liveness {
  readonly lastSeenMs: EpochMs | null
  readonly state: NodeState
  readonly version: string | null
  readonly clockOffsetMs: number | null
  readonly capacity: NodeCapacity | null
}

/** Who was heard of last, and when: in memory, of this node alone. */
export class NodeLiveness extends Context.Service<NodeLiveness, {
  /** The node was heard just now. */
  readonly seen: (nodeId: NodeId, told?: Sighting) => Effect.Effect<void>
  /** Whoever watches a node closer than by its greetings says how it is; null: greetings decide again. */
  readonly judge: (nodeId: NodeId, state: NodeState | null) => Effect.Effect<void>
  readonly of: (nodeId: NodeId) => Effect.Effect<Liveness>
  /** Forgets all but these. */
  readonly keepOnly: (nodeIds: ReadonlySet<NodeId>) => Effect.Effect<void>
}>()("nightjar/actors/NodeLiveness") {}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export class FederationNodes extends Context.Service<FederationNodes, {
  readonly list: () => Answer<ReadonlyArray<FederationNode>>
  readonly get: (nodeId: NodeId) => Answer<FederationNode, NodeNotFound>
  /** Places the named ones in this order, the others after them by name. Answers the list. */
  readonly order: (nodeIds: ReadonlyArray<NodeId>) => Answer<ReadonlyArray<FederationNode>, InvalidInput>
}>()("nightjar/actors/FederationNodes") {}
