/** The media proxy: live streams that the node passes on to players by RTSP, and who reads them. */
import { Schema } from "effect"
import { Instant, RecordingToken, StreamId } from "./common.ts"

export const ProxyConfig = Schema.Struct({
  /** `rtsp://<host>:<port>/live/<stream id>`; null while nothing listens. */
  port: Schema.NullOr(Schema.Int),
  transports: Schema.Array(Schema.Literals(["tcp", "udp"])),
  /** A user name and password that open every stream are set. */
  hasAccount: Schema.Boolean,
  maxReaders: Schema.Int,
  /** Longest silence of a reader by UDP, and of one that does not play. */
  sessionTimeoutSeconds: Schema.Int,
  /** So far behind a reader is closed. */
  maxBehindBytes: Schema.Int,
}).annotate({ identifier: "MediaProxyConfig" })
export type ProxyConfig = typeof ProxyConfig.Type

export const ProxySession = Schema.Struct({
  id: Schema.String,
  streamId: StreamId,
  /** What recorded footage is played of; null: it is live. */
  recordingToken: Schema.NullOr(RecordingToken),
  /** `address:port`. */
  remote: Schema.String,
  userAgent: Schema.NullOr(Schema.String),
  /** The login session whose token let it in, or the name of the account. */
  holder: Schema.String,
  transport: Schema.Literals(["tcp", "udp"]),
  state: Schema.Literals(["ready", "playing"]),
  since: Instant,
  sentBytes: Schema.Int,
  sentPackets: Schema.Int,
  /** Pictures left out because the reader was too slow. */
  skippedPictures: Schema.Int,
  /** By the reader's own reports; null before the first. */
  lostPackets: Schema.NullOr(Schema.Int),
  jitterMs: Schema.NullOr(Schema.Int),
}).annotate({ identifier: "MediaProxySession" })
export type ProxySession = typeof ProxySession.Type

export const ProxyStream = Schema.Struct({
  /** What stands behind `live/` in its address: the stream's id. */
  path: StreamId,
  /** `idle`: nobody reads it; `waiting`: the camera has not delivered yet. */
  state: Schema.Literals(["idle", "waiting", "ready"]),
  /** Since when it is passed on; null while `idle`. */
  since: Schema.NullOr(Instant),
  /** Codecs, video first. */
  tracks: Schema.Array(Schema.String),
  readers: Schema.Int,
  /** Framed for the readers, once. */
  bytes: Schema.Int,
  packets: Schema.Int,
  /** To all its present readers. */
  sentBytes: Schema.Int,
  /** By the reports of its present readers: lost in all, the largest jitter; null before the first. */
  lostPackets: Schema.NullOr(Schema.Int),
  jitterMs: Schema.NullOr(Schema.Int),
}).annotate({ identifier: "MediaProxyStream" })
export type ProxyStream = typeof ProxyStream.Type
