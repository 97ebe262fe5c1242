/**
 * Footage that another node recorded for its home node, on its way home.
 *
 * Invariants
 * 1. A job belongs to one reroute, lives on the node that served, and survives restarts of both nodes.
 * 2. A segment leaves the serving node only after the home node's signed receipt, or by retention.
 */
import type { NodeId } from "#schema/common.ts"
import type { RecordBackProgress } from "#schema/federation.ts"
import type { Slot } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect, type Stream } from "effect"

/** What is brought home: everything this node recorded in `slot` with an epoch from `firstEpoch` to `lastEpoch`. */
export interface RecordBackOrder {
  /** UUIDv7 of the reroute; beginning the same one again changes nothing. */
  readonly rerouteId: string
  readonly homeNodeId: NodeId
  /** The slot of the home node, as this node knows it. */
  readonly slot: Slot
  readonly firstEpoch: number
  readonly lastEpoch: number
}

export class RecordBacks extends Context.Service<RecordBacks, {
  readonly begin: (order: RecordBackOrder) => Effect.Effect<void, DependencyUnavailable>
  /** Null: no such job. */
  readonly progressOf: (rerouteId: string) => Effect.Effect<RecordBackProgress | null, DependencyUnavailable>
  /** Reroutes whose progress changed, as it happens. */
  readonly changes: () => Effect.Effect<Stream.Stream<string>, DependencyUnavailable>
}>()("nightjar/actors/RecordBacks") {}
