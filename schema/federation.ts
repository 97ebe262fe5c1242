/**
 * Words of federation: nodes that know each other, what one may ask of another, who stands in for whom, and how footage comes
 * home. Design: failover.
 *
 * Invariants
 * 1. A node is named by its id; an address, a UUID or an mDNS name proves nothing. What proves it is its signing key, whose
 *    fingerprint a person can compare.
 * 2. The epoch of a home node's channels grows by exactly one with every change of the serving node.
 */
import { Effect, Schema } from "effect"
import { EpochMs, Instant, NodeId } from "./common.ts"

/** SHA-256 of a node's signing key as a JWK thumbprint (RFC 7638, RFC 8037), base64url: 43 characters. */
export const Fingerprint = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{43}$/)).pipe(
  Schema.brand("Fingerprint"),
)
export type Fingerprint = typeof Fingerprint.Type

/**
 * How this node stands to another: `self`; `member` of the same cluster (one PostgreSQL); a paired `peer` with a database of its own;
 * `discovered` on the network or added by address, and strange as yet.
 */
export const NodeRelation = Schema.Literals(["self", "member", "peer", "discovered"])
export type NodeRelation = typeof NodeRelation.Type

/** `unknown`: nothing was heard of it since this node started, or nothing that it had proven. */
export const NodeState = Schema.Literals(["online", "suspect", "offline", "unknown"])
export type NodeState = typeof NodeState.Type

/** Nodes of earlier versions do not tell it, and hold nothing in memory. */
const MemoryBytes = Schema.Int.pipe(Schema.withDecodingDefaultKey(Effect.succeed(0)))

/** What a node can take on, as it tells of itself. */
export const NodeCapacity = Schema.Struct({
  cameras: Schema.Int,
  ingestBps: Schema.Int,
  diskBytesPerSecond: Schema.Int,
  diskFreeBytes: Schema.Int,
  /** For what it holds of cameras that it shadows. */
  memoryBytes: MemoryBytes,
})
export type NodeCapacity = typeof NodeCapacity.Type

/** What the serving of one home node uses, or would. */
export const CapacityNeed = Schema.Struct({
  cameras: Schema.Int,
  ingestBps: Schema.Int,
  diskBytesPerSecond: Schema.Int,
  /** For the outage that the settings expect. */
  diskBytes: Schema.Int,
  /** For what is held of cameras that are shadowed. */
  memoryBytes: MemoryBytes,
})
export type CapacityNeed = typeof CapacityNeed.Type

/** A node in the list of nodes. */
export const FederationNode = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  /** `https://host:port`, or `http` on loopback; null where it is not known. */
  address: Schema.NullOr(Schema.String),
  /** Of a peer: where it is tried before that, in this order, as an administrator gave them. */
  addresses: Schema.Array(Schema.String),
  fingerprint: Schema.NullOr(Fingerprint),
  self: Schema.Boolean,
  relation: NodeRelation,
  state: NodeState,
  version: Schema.NullOr(Schema.String),
  lastSeen: Schema.NullOr(Instant),
  /** Its clock minus ours, milliseconds. */
  clockOffsetMs: Schema.NullOr(Schema.Int),
  capacity: Schema.NullOr(NodeCapacity),
  /** Place in the list that people see, from 0. */
  order: Schema.Int,
  mediaReadEnforcement: Schema.Boolean,
  pairedAt: Schema.NullOr(Instant),
}).annotate({ identifier: "FederationNode" })
export type FederationNode = typeof FederationNode.Type

/** How much of a home node's service is kept ready. */
export const ProtectionClass = Schema.Literals(["shadow", "warm", "liveOnly"])
export type ProtectionClass = typeof ProtectionClass.Type

/** A guardian's relation to a home node, as the guardian knows it. */
export const ProtectionState = Schema.Literals([
  "pendingGrant",
  "protected",
  "suspect",
  "takingOver",
  "takenOver",
  "restored",
  "failingBack",
  "recordingBack",
  "stale",
  "capacityShort",
  "fenced",
  "released",
])
export type ProtectionState = typeof ProtectionState.Type

/** `GET failover/heartbeat`: what a node says of itself twice a second. */
export const Heartbeat = Schema.Struct({
  nodeId: NodeId,
  /** Made anew at each start of the process. */
  bootId: Schema.String,
  name: Schema.String,
  version: Schema.String,
  /** Of its own home slot. */
  epoch: Schema.Int,
  /** Who serves its home slot, as it knows. */
  servingNodeId: NodeId,
  seq: Schema.Int,
  timeMs: EpochMs,
  /** Digest of its configuration, so that a guardian knows when its snapshot is stale. */
  bundleDigest: Schema.String,
  /** Who asked may guard this node. */
  guardianGranted: Schema.optionalKey(Schema.Boolean),
  capacity: NodeCapacity,
  /** Home nodes whose control it holds, with the epoch. */
  leases: Schema.Array(Schema.Struct({ homeNodeId: NodeId, epoch: Schema.Int })),
})
export type Heartbeat = typeof Heartbeat.Type

export class NodeNotFound extends Schema.TaggedError<NodeNotFound>()("NodeNotFound", {
  nodeId: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return "No such node"
  }
}

/** The other node cannot be reached, or did not answer in time. */
export class PeerUnreachable extends Schema.TaggedError<PeerUnreachable>()("PeerUnreachable", {
  nodeId: Schema.String,
  reason: Schema.String,
}, { httpApiStatus: 503 }) {
  override get message(): string {
    return `The other node does not answer: ${this.reason}`
  }
}

/** The other node answered, and refused: its status, and the `code` of its problem document. */
export class PeerRefused extends Schema.TaggedError<PeerRefused>()("PeerRefused", {
  nodeId: Schema.String,
  theirStatus: Schema.Int,
  theirCode: Schema.String,
  reason: Schema.String,
}, { httpApiStatus: 502 }) {
  override get message(): string {
    return `The other node refused (${this.theirStatus} ${this.theirCode}): ${this.reason}`
  }
}

/** How far the footage of one reroute has come home. */
export const RecordBackState = Schema.Literals([
  "pending",
  "keyExchange",
  "transferring",
  "paused",
  "verifying",
  "retryWait",
  "done",
  "partial",
  "failed",
])
export type RecordBackState = typeof RecordBackState.Type

export const RecordBackProgress = Schema.Struct({
  state: RecordBackState,
  segmentsDone: Schema.Int,
  segmentsTotal: Schema.Int,
  bytesDone: Schema.Int,
  bytesTotal: Schema.Int,
  /** Of the last half minute; null while nothing moves. */
  rateBps: Schema.NullOr(Schema.Int),
  /** When it will be done at that rate; null where that cannot be told. */
  estimatedEnd: Schema.NullOr(Instant),
  /** One line for a person; empty while all is well. */
  reason: Schema.String,
})
export type RecordBackProgress = typeof RecordBackProgress.Type
