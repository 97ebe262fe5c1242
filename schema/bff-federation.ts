/**
 * Words for what other nodes show through this one: their channels, what they hold of a recording, replay over all of them.
 *
 * Invariants
 * 1. A channel of another node has an id of its own here, which stays as long as the nodes are paired; groups and roles name it by that.
 * 2. An answer that other nodes contributed to names each of them, and says `partial` where one could not.
 */
import { Schema } from "effect"
import { CameraId, ChannelId, Instant, NodeId, RecordingToken } from "./common.ts"
import { Gap, Span, StreamRole } from "./record.ts"
import { ReplayUriRequest } from "./replay.ts"
import { CalendarMonthDates } from "./search.ts"

const Recorded = Schema.Struct({ recordingToken: RecordingToken, role: StreamRole })

/** A channel as the node tells it whose it is; only those that the asking peer may see. */
export const OfferedChannel = Schema.Struct({
  channelId: ChannelId,
  cameraId: CameraId,
  channelName: Schema.String,
  cameraName: Schema.String,
  active: Schema.Boolean,
  recordings: Schema.Array(Recorded),
}).annotate({ identifier: "OfferedChannel" })
export type OfferedChannel = typeof OfferedChannel.Type

/** More are not taken from one node. */
export const mostOfferedChannels = 20_000

/** A channel of another node, under its id here. */
export const FederatedChannel = Schema.Struct({
  id: ChannelId,
  nodeId: NodeId,
  remoteChannelId: ChannelId,
  remoteCameraId: CameraId,
  channelName: Schema.String,
  cameraName: Schema.String,
  active: Schema.Boolean,
  recordings: Schema.Array(Recorded),
  /** Its node told of it the last time it was asked. */
  present: Schema.Boolean,
  updatedAt: Instant,
}).annotate({ identifier: "FederatedChannel" })
export type FederatedChannel = typeof FederatedChannel.Type

/** What a renewal of the mapping changed. */
export const RemapReport = Schema.Struct({
  nodeId: NodeId,
  channels: Schema.Int,
  added: Schema.Array(ChannelId),
  changed: Schema.Array(ChannelId),
  /** Not told of any more; their ids are kept. */
  gone: Schema.Array(ChannelId),
}).annotate({ identifier: "RemapReport" })
export type RemapReport = typeof RemapReport.Type

/** What one node contributed. `unreachable` covers a node that was too slow. */
export const FederatedSource = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  state: Schema.Literals(["ok", "nothing", "unreachable", "refused"]),
  /** One line for a person, empty while all is well. */
  detail: Schema.String,
}).annotate({ identifier: "FederatedSource" })
export type FederatedSource = typeof FederatedSource.Type

export const FederatedTimeline = Schema.Struct({
  recordingToken: RecordingToken,
  start: Instant,
  end: Instant,
  spans: Schema.Array(Schema.Struct({
    ...Span.fields,
    /** The node whose disks have it, which need not be the one that recorded it. */
    holderNodeId: NodeId,
  })),
  gaps: Schema.Array(Gap),
  /** A node did not answer in time: there may be more than this. */
  partial: Schema.Boolean,
  sources: Schema.Array(FederatedSource),
}).annotate({ identifier: "FederatedTimeline" })
export type FederatedTimeline = typeof FederatedTimeline.Type

/** Days with footage, whichever node holds it. */
export const FederatedCalendar = Schema.Struct({
  ...CalendarMonthDates.fields,
  /** A node did not answer in time: there may be more days than these. */
  partial: Schema.Boolean,
  sources: Schema.Array(FederatedSource),
}).annotate({ identifier: "FederatedCalendar" })
export type FederatedCalendar = typeof FederatedCalendar.Type

export const FederatedReplayRequest = ReplayUriRequest

/** Unguessable: whoever knows it may read the media of that session. */
/** Before it stands the slot of the node that has the session. */
export const FederatedSessionId = Schema.String.check(Schema.isPattern(/^n\d\d\.[A-Za-z0-9_-]{32}$/)).pipe(
  Schema.brand("FederatedSessionId"),
)
export type FederatedSessionId = typeof FederatedSessionId.Type

export const FederatedReplay = Schema.Struct({
  sessionId: FederatedSessionId,
  /** Path of the master playlist on this node. */
  uri: Schema.String,
  expiresAt: Instant,
  partial: Schema.Boolean,
  sources: Schema.Array(FederatedSource),
}).annotate({ identifier: "FederatedReplay" })
export type FederatedReplay = typeof FederatedReplay.Type
