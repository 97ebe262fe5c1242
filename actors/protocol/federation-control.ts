/** Control of home nodes' cameras, as failover drives it; who is about to control asks {@link FailoverGate} instead. */
import type { NodeId } from "#schema/common.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

/** Another node that serves this one's cameras. */
export interface ServedBy {
  readonly nodeId: NodeId
  readonly epoch: number
  /** It moves cameras and changes what is theirs; otherwise it only records. */
  readonly control: boolean
}

export class Controls extends Context.Service<Controls, {
  /** Null: nobody, or the guardians were not asked yet. */
  readonly servedBy: () => Effect.Effect<ServedBy | null, DependencyUnavailable>
  /** What the guardians of this node answered. */
  readonly tellServedBy: (servedBy: ServedBy | null) => Effect.Effect<void>
  /** This node controls the cameras of `homeNodeId` with `epoch`; null: no longer. */
  readonly hold: (homeNodeId: NodeId, epoch: number | null) => Effect.Effect<void>
}>()("nightjar/actors/Controls") {}
