/** The nodes of a demo: killed and started again by the program that runs them, which this node was told of by a setting. */
import type { NodeId } from "#schema/common.ts"
import type { DemoNode, DemoNodeNotFound, DemoNodeState } from "#schema/federation-demo.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Act = (nodeId: NodeId) => Effect.Effect<void, DemoNodeNotFound | DemoNodeState | DependencyUnavailable>

export class DemoNodes extends Context.Service<DemoNodes, {
  /** Empty: this is no demo, or it is not set up yet. */
  readonly list: () => Effect.Effect<ReadonlyArray<DemoNode>, DependencyUnavailable>
  /** kill -9 of its process, a moment after the answer: the node that asks may be the one. */
  readonly kill: Act
  /** On the same data and at the same address. */
  readonly start: Act
}>()("nightjar/actors/DemoNodes") {}
