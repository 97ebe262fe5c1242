/**
 * Words of the cluster as people see it: the nodes on one database, who of them was admitted, and why one is not.
 *
 * Invariants
 * 1. Who is approved is named by the fingerprint of its key, which a person compared: a row of the database proves nothing.
 */
import { Schema } from "effect"
import { Instant, NodeId } from "./common.ts"
import { Fingerprint } from "./federation.ts"

/** A node on the cluster's database. */
export const ClusterMember = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  /** Its home among the 64 of the cluster. */
  slot: Schema.String,
  fingerprint: Fingerprint,
  /** It has the cluster's key. While this node itself has not, nobody counts as admitted. */
  admitted: Schema.Boolean,
  self: Schema.Boolean,
  /** Of its HTTP interface; null where it never told. */
  address: Schema.NullOr(Schema.String),
  version: Schema.NullOr(Schema.String),
  startedAt: Instant,
}).annotate({ identifier: "ClusterMember" })
export type ClusterMember = typeof ClusterMember.Type

/** This node has no key to give. */
export class NotAMember extends Schema.TaggedError<NotAMember>()("NotAMember", {}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "This node was not admitted to the cluster itself; ask one that was"
  }
}

/** The node there is not the one that was meant. */
export class OtherNode extends Schema.TaggedError<OtherNode>()("OtherNode", {}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "The node's fingerprint is not the one named; compare it with what that node says of itself"
  }
}

/** Nobody would be left to know. */
export class RemovesItself extends Schema.TaggedError<RemovesItself>()("RemovesItself", {}, { httpApiStatus: 409 }) {
  override get message(): string {
    return "A node does not remove itself from its cluster; ask another member to"
  }
}

/** The cluster's key cannot be written to the data folder; without it there it is not used. */
export class KeyNotKept extends Schema.TaggedError<KeyNotKept>()("KeyNotKept", { detail: Schema.String }, {
  httpApiStatus: 503,
}) {
  override get message(): string {
    return `The cluster's key cannot be kept: ${this.detail}`
  }
}
