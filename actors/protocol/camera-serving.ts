/**
 * Which member of the cluster serves something that this node does not: what media doors ask before they say that there is nothing.
 *
 * Invariants
 * 1. A member that serves it and is away is told by its name, never as if there were nothing.
 */
import type { NodeId, StreamId } from "#schema/common.ts"
import type { Slot } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

/** Another member, which answers. */
export interface OtherMember {
  readonly nodeId: NodeId
  readonly name: string
}

export class Serving extends Context.Service<Serving, {
  /** Who captures a stream; null where that is this node, or there is no such stream. */
  readonly ofStream: (id: StreamId) => Effect.Effect<OtherMember | null, DependencyUnavailable>
  /** The member whose home a slot is, as sessions in memory name it; null where that is this node, or none. */
  readonly atHome: (slot: Slot) => Effect.Effect<OtherMember | null, DependencyUnavailable>
  readonly member: (nodeId: NodeId) => Effect.Effect<OtherMember | null, DependencyUnavailable>
  /** This node's own home. */
  readonly slot: () => Effect.Effect<Slot, DependencyUnavailable>
}>()("nightjar/actors/Serving") {}
