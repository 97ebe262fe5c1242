/**
 * Words of the demo of several nodes: which of them run, and what happens when one is asked to be killed that does not.
 *
 * Invariant
 * 1. Outside of such a demo there are no demo nodes, and nothing can be done to any.
 */
import { Schema } from "effect"
import { NodeId } from "./common.ts"

/** A node of the demo, as the program that started it knows it. */
export const DemoNode = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  /** Where its dashboard is. */
  address: Schema.String,
  /** Its process lives; it may not answer yet. */
  running: Schema.Boolean,
}).annotate({ identifier: "DemoNode" })
export type DemoNode = typeof DemoNode.Type

export class DemoNodeNotFound extends Schema.TaggedError<DemoNodeNotFound>()("DemoNodeNotFound", {
  nodeId: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return "This is no node of a demo"
  }
}

/** It is dead or alive already. */
export class DemoNodeState extends Schema.TaggedError<DemoNodeState>()("DemoNodeState", {
  nodeId: Schema.String,
  running: Schema.Boolean,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.running ? "This node runs already" : "This node does not run"
  }
}
