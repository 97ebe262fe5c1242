/**
 * Words of a protection that nodes say to each other or that people set: how patient a guardian is, whose turn it was, who serves.
 *
 * Invariants
 * 1. Times are milliseconds; what is compared with a clock is compared with the monotonic clock of the node that compares.
 * 2. Two turns of one number are of different nodes: the pair is the epoch.
 */
import { Schema } from "effect"
import { NodeId } from "./common.ts"

/** How patient a guardian is; all times in milliseconds. */
export const ProtectionSettings = Schema.Struct({
  /** Silence of the home node until the others are asked, and until it counts as dead. */
  suspectMs: Schema.Int,
  deadMs: Schema.Int,
  /** Between two questions to the home node and the other guardians while one of them is away or this node serves. */
  askMs: Schema.Int,
  /** What each rank waits longer than the one before it. */
  rankWaitMs: Schema.Int,
  /** A command that failed is given again after this. */
  retryMs: Schema.Int,
  /** Unbroken presence of the home node before it gets its service back by itself. */
  stableMs: Schema.Int,
  /** Both record for this long at a failback where nobody measured what two groups of pictures are. */
  overlapMs: Schema.Int,
  /** How long a drill serves. */
  drillMs: Schema.Int,
  failbackAutomatic: Schema.Boolean,
})
export type ProtectionSettings = typeof ProtectionSettings.Type

/** Detection within 3 s leaves 2 s of the promised 5 for the first key frame. */
export const defaultSettings: ProtectionSettings = {
  suspectMs: 1_500,
  deadMs: 3_000,
  askMs: 1_000,
  rankWaitMs: 2_000,
  retryMs: 2_000,
  stableMs: 30_000,
  overlapMs: 4_000,
  drillMs: 20_000,
  failbackAutomatic: true,
}

/** A guardian took the slot: the home node judges by these that no number was skipped. */
export const Turn = Schema.Struct({ epoch: Schema.Int, nodeId: NodeId })
export type Turn = typeof Turn.Type

/** What a node answers when asked who serves a home node. */
export const RerouteStatus = Schema.Struct({
  /** Who answers. */
  nodeId: NodeId,
  homeNodeId: NodeId,
  /** `none`: it does not serve; `taking`: it is about to; `serving`: it does; `returning`: it is giving back. */
  phase: Schema.Literals(["none", "taking", "serving", "returning"]),
  /** With which it serves; else the highest it knows. */
  epoch: Schema.Int,
  /** It may control the cameras. */
  control: Schema.Boolean,
  /** Every takeover it knows of since the home node served, oldest first. */
  turns: Schema.Array(Turn),
  /** Changes of the home node's cameras that were made where it was asked and wait for it; nodes of earlier versions tell nothing. */
  changes: Schema.optionalKey(Schema.Int),
  /** The highest number with which the home node told this one that it serves itself: it knows less after an older backup was restored. */
  homeServed: Schema.optionalKey(Schema.Int),
})
export type RerouteStatus = typeof RerouteStatus.Type
