/** The nodes on this one's database: who was admitted to the cluster, and who decides about it. */
import type { NodeId } from "#schema/common.ts"
import type { ClusterMember, KeyNotKept, NotAMember, OtherNode, RemovesItself } from "#schema/federation-member.ts"
import type { Fingerprint, NodeNotFound } from "#schema/federation.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export class ClusterMembers extends Context.Service<ClusterMembers, {
  /** At most 64, ordered by slot; this node among them. */
  readonly list: () => Effect.Effect<ReadonlyArray<ClusterMember>, DependencyUnavailable>
  /** Gives the cluster's key to the node with this fingerprint. Doing it again changes nothing. */
  readonly approve: (
    nodeId: NodeId,
    fingerprint: Fingerprint,
  ) => Effect.Effect<ClusterMember, NodeNotFound | OtherNode | NotAMember | DependencyUnavailable>
  /** Ends its admission; all others get a new key. */
  readonly remove: (
    nodeId: NodeId,
  ) => Effect.Effect<ClusterMember, NodeNotFound | RemovesItself | NotAMember | KeyNotKept | DependencyUnavailable>
}>()("nightjar/actors/ClusterMembers") {}
