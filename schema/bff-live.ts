/**
 * Words for live pictures of other nodes' channels through this one: low-latency HLS that is relayed, and the newest picture.
 *
 * Invariant
 * 1. Two sessions belong together: one here, bound to the user who watches; one at the node that has the camera, bound to this node.
 */
import { Schema } from "effect"
import { FederatedSessionId } from "./bff-federation.ts"
import { LiveSessionId } from "./camera-live.ts"
import { NodeId, StreamId } from "./common.ts"
import { StreamRole } from "./record.ts"

/** Which stream of the channel; the other one where it is missing or switched off. */
export const LiveWish = Schema.Struct({ role: StreamRole })

/** What a node asks another one for; `hls` false: no session of HLS is to be opened. */
export const PeerLiveWish = Schema.Struct({ role: StreamRole, hls: Schema.optionalKey(Schema.Boolean) })

/** What a node answers another one that wants to watch. */
export const PeerLive = Schema.Struct({
  streamId: StreamId,
  /** Of HLS; null where none was asked for. */
  sessionId: Schema.NullOr(LiveSessionId),
  /** The multivariant playlist, with names that stand beside it; null likewise. */
  master: Schema.NullOr(Schema.String.check(Schema.isMaxLength(16_384))),
}).annotate({ identifier: "PeerLive" })
export type PeerLive = typeof PeerLive.Type

export const FederatedLive = Schema.Struct({
  sessionId: FederatedSessionId,
  nodeId: NodeId,
  /** Path of the multivariant playlist on this node. */
  uri: Schema.String,
  /** Path that takes an offer of WebRTC (WHEP) for the same. */
  whepUri: Schema.String,
  /** Path of the newest picture on this node; takes `width`. */
  snapshotUri: Schema.String,
}).annotate({ identifier: "FederatedLive" })
export type FederatedLive = typeof FederatedLive.Type
