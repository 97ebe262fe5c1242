/**
 * Whether this node may control the cameras of a slot now, and change or delete what is theirs. Asked where it is done: by the entities
 * of cameras and recordings, by what speaks with a device, by what deletes footage. Design: failover, "What must hold" 2.
 *
 * Invariants
 * 1. Nobody asks but the one who is about to do it, immediately before, with the epoch that he was told to do it with: a command that
 *    waited until its epoch was over is refused.
 * 2. Recording asks nobody, nor does a takeover.
 * 3. What is answered is known in memory: no question waits for another node.
 */
import type { NodeId } from "#schema/common.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type { Slot } from "#schema/ownership.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect } from "effect"

/** A slot, and the epoch with which this node serves it. */
export interface Served {
  readonly slot: Slot
  readonly epoch: number
}

/** Control is with another node; or with nobody for the moment, or nobody knows yet. */
export type ControlRefused = ControlElsewhere | DependencyUnavailable

/** A program without other nodes (tests, tools) may do everything. */
export const FailoverGate = Context.Reference<{
  /** Before each command to a device. */
  readonly mayControl: (served: Served) => Effect.Effect<void, ControlRefused>
  /**
   * Before each change of configuration. Answers the home node where that is another one with a database of its own, which this node
   * stands in for: such a change is this node's to keep for the failback.
   */
  readonly mayChange: (served: Served) => Effect.Effect<NodeId | null, ControlRefused>
  /** Before a recording, a camera or footage is deleted, or a camera forgets its settings: not during a reroute, whoever controls. */
  readonly mayDelete: (served: Served) => Effect.Effect<void, ControlRefused>
  /** Before the licence is given back: not while this node is served by another, or serves one. */
  readonly mayReleaseLicense: Effect.Effect<void, ControlRefused>
}>("nightjar/actors/FailoverGate", {
  defaultValue: () => ({
    mayControl: () => Effect.void,
    mayChange: () => Effect.succeed(null),
    mayDelete: () => Effect.void,
    mayReleaseLicense: Effect.void,
  }),
})
