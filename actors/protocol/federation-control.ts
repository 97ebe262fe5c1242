/**
 * Control of home nodes' cameras, as failover drives it and nodes ask each other for it; who is about to control asks `FailoverGate`
 * instead.
 *
 * Invariants
 * 1. A voter's promise is on disk before its answer leaves.
 * 2. A node asks for itself alone: whoever speaks for another, or was not named by the home node, is refused.
 */
import type { NodeId } from "#schema/common.ts"
import type { ControlRequest, LeaseAnswer, LeaseRelease } from "#schema/federation-control.ts"
import type { ControlElsewhere, ControlView, GuardianNotGranted } from "#schema/federation-failover.ts"
import type { Turn } from "#schema/federation-protection.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

/** Another node that serves this one's cameras. */
export interface ServedBy {
  readonly nodeId: NodeId
  readonly epoch: number
  /** It moves cameras and changes what is theirs; otherwise it only records. */
  readonly control: boolean
}

/** A voter knows of a later turn. */
export interface Denied {
  readonly inForce: number
  readonly turns: ReadonlyArray<Turn>
}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

export class Controls extends Context.Service<Controls, {
  /** Null: nobody, or the guardians were not asked yet. */
  readonly servedBy: () => Effect.Effect<ServedBy | null>
  /** What the guardians of this node answered. */
  readonly tellServedBy: (servedBy: ServedBy | null) => Effect.Effect<void>
  /** Nodes that vote about this one besides its guardians. */
  readonly setWitnesses: (witnesses: ReadonlyArray<NodeId>) => Effect.Effect<void>

  /**
   * Wants control of a home node's cameras until `release`. `override`: an administrator states that the other of two voters is off.
   * Of its own cameras this node wants it by itself.
   */
  readonly want: (
    homeNodeId: NodeId,
    wanted: { readonly epoch: number; readonly override: boolean; readonly turns: ReadonlyArray<Turn> },
  ) => Effect.Effect<void>
  /** Controls nothing of it from now on, then tells the voters. */
  readonly release: (homeNodeId: NodeId) => Effect.Effect<void>
  /** The epoch with which this node controls it now; null: it does not. */
  readonly holds: (homeNodeId: NodeId) => Effect.Effect<number | null>
  /** The newest refusal for a later turn; null: none. */
  readonly denied: (homeNodeId: NodeId) => Effect.Effect<Denied | null>
  /** An administrator of this node states that the other voter is off: control of its own cameras comes back. */
  readonly takeBack: () => Answer<void, ControlElsewhere>
  /** This node first, then those it serves. */
  readonly view: () => Effect.Effect<ReadonlyArray<ControlView>>

  /** Another node asks for this one's vote. */
  readonly vote: (asker: NodeId, request: ControlRequest) => Answer<LeaseAnswer, GuardianNotGranted>
  readonly letGo: (asker: NodeId, release: LeaseRelease) => Answer<void, GuardianNotGranted>
}>()("nightjar/actors/Controls") {}
