/**
 * Whether this node may delete what is its own while another node serves its cameras: in memory, written by failover alone.
 *
 * Invariants
 * 1. Until the guardians of this node were asked once after its start, nobody knows: what would be refused waits.
 * 2. Recording asks nobody.
 */
import type { NodeId } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer, SubscriptionRef } from "effect"

/** Another node that serves this one's cameras. */
export interface ServedBy {
  readonly nodeId: NodeId
  readonly epoch: number
  /** It moves cameras and changes what is theirs; otherwise it only records. */
  readonly control: boolean
}

interface Known {
  readonly asked: boolean
  readonly servedBy: ServedBy | null
}

const unknown = () =>
  new DependencyUnavailable({
    dependency: "node",
    message: "Whether another node serves these cameras is being asked; try again.",
  })

export class FailoverGate extends Context.Service<FailoverGate, {
  readonly servedBy: () => Effect.Effect<ServedBy | null, DependencyUnavailable>
  readonly tell: (servedBy: ServedBy | null) => Effect.Effect<void, DependencyUnavailable>
  /** Recordings and cameras: not while another node serves them, with control or without. */
  readonly mayDelete: () => Effect.Effect<void, ControlElsewhere | DependencyUnavailable>
}>()("nightjar/actors/FailoverGate") {
  static readonly layer = Layer.effect(
    FailoverGate,
    Effect.gen(function*() {
      const known = yield* SubscriptionRef.make<Known>({ asked: false, servedBy: null })
      const mayDelete = () =>
        Effect.flatMap(
          SubscriptionRef.get(known),
          ({ asked, servedBy }): Effect.Effect<void, ControlElsewhere | DependencyUnavailable> =>
            !asked ?
              Effect.fail(unknown()) :
              servedBy !== null ?
              Effect.fail(new ControlElsewhere({ nodeId: servedBy.nodeId })) :
              Effect.void,
        )
      return FailoverGate.of({
        servedBy: () => Effect.map(SubscriptionRef.get(known), ({ servedBy }) => servedBy),
        tell: (servedBy) => SubscriptionRef.set(known, { asked: true, servedBy }),
        mayDelete,
      })
    }),
  )
}
