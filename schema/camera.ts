/**
 * Cameras, their channels (one picture each) and the streams of a channel (the same picture in several qualities).
 *
 * Invariants
 * 1. A camera has at most 64 channels, a channel at most one stream a role.
 * 2. A stored source URL holds no user name and no password; a password never comes out again (`hasPassword` tells of it).
 * 3. `codec`, `width`, `height` and `audioCodec` are what was last seen on the wire; null until the stream was seen.
 * 4. `version` grows by one with every change by a person, of the camera or of anything below it; what the product observes
 *    (`status`) does not change it.
 */
import { Schema } from "effect"
import { sourceUrlFault } from "./camera-url.ts"
import { CameraId, ChannelId, Instant, NodeId, StreamId } from "./common.ts"
import { AudioCodec, VideoCodec } from "./media.ts"
import type { Reach } from "./permission.ts"
import { StreamRole } from "./record.ts"

/** Camera families of the contract. A family without a driver in this version is answered by `DriverUnsupported`. */
export const DriverKind = Schema.Literals(["rtsp", "onvif", "mobile"])
export type DriverKind = typeof DriverKind.Type

/**
 * `registered`: known, not tried yet. `probing`: connecting. `online`: every active stream delivers. `degraded`: some do, or
 * with losses. `offline`: none does. `authFailed`: the credentials were refused. `disabled`: switched off by a person. `idle`: it
 * delivered when it was last connected to, and will be when somebody watches (`onDemand`).
 */
export const CameraStatus = Schema.Literals([
  "registered",
  "probing",
  "online",
  "degraded",
  "offline",
  "authFailed",
  "disabled",
  "idle",
])
export type CameraStatus = typeof CameraStatus.Type

export const Transport = Schema.Literals(["tcp", "udp"])
export type Transport = typeof Transport.Type

export const maxChannels = 64

const Name = Schema.String.check(Schema.isTrimmed(), Schema.isMinLength(1), Schema.isMaxLength(120))
const Description = Schema.String.check(Schema.isMaxLength(2000))
const UserName = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(256))
const Password = Schema.RedactedFromValue(Schema.String.check(Schema.isMaxLength(512)))
const Host = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(253), Schema.isPattern(/^[A-Za-z0-9.:_-]+$/))
/** A word or a few that cameras are found by; at most {@link maxTags} a camera, each once. */
const Tag = Schema.String.check(Schema.isTrimmed(), Schema.isMinLength(1), Schema.isMaxLength(40))
export const maxTags = 32
const Tags = Schema.Array(Tag).check(Schema.isMaxLength(maxTags), Schema.isUnique())
const Port = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 65_535 }))

/** `rtsp://[user:password@]host[:port]/path?query`; the credentials are taken out and sealed before it is kept. */
const SourceUrl = Schema.String.check(
  Schema.isMaxLength(2048),
  Schema.makeFilter((text: string) => sourceUrlFault(text) ?? true),
)

export const CameraStream = Schema.Struct({
  id: StreamId,
  channelId: ChannelId,
  cameraId: CameraId,
  role: StreamRole,
  sourceUrl: Schema.String,
  transport: Transport,
  enabled: Schema.Boolean,
  /** Connected while somebody watches (or it is recorded), and ten seconds longer; otherwise it is connected to once a minute. */
  onDemand: Schema.Boolean,
  /** Credentials of this stream alone; null: those of the camera. */
  username: Schema.NullOr(Schema.String),
  hasPassword: Schema.Boolean,
  codec: Schema.NullOr(VideoCodec),
  width: Schema.NullOr(Schema.Int),
  height: Schema.NullOr(Schema.Int),
  audioCodec: Schema.NullOr(AudioCodec),
  status: CameraStatus,
  reason: Schema.String,
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "CameraStream" })
export type CameraStream = typeof CameraStream.Type

export const Channel = Schema.Struct({
  id: ChannelId,
  cameraId: CameraId,
  /** Counts the channels of a camera, from 1. */
  number: Schema.Int,
  name: Schema.String,
  /** Switched on: its streams are watched and may be recorded. */
  active: Schema.Boolean,
  status: CameraStatus,
  reason: Schema.String,
  streams: Schema.Array(CameraStream),
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "Channel" })
export type Channel = typeof Channel.Type

export const Camera = Schema.Struct({
  id: CameraId,
  name: Schema.String,
  description: Schema.String,
  driver: DriverKind,
  /** Where its own protocol is spoken; null for families without one. */
  host: Schema.NullOr(Schema.String),
  port: Schema.NullOr(Schema.Int),
  enabled: Schema.Boolean,
  username: Schema.NullOr(Schema.String),
  hasPassword: Schema.Boolean,
  tags: Schema.Array(Schema.String),
  /** As the camera told them when it was added; null for families that do not. */
  manufacturer: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  firmware: Schema.NullOr(Schema.String),
  serial: Schema.NullOr(Schema.String),
  status: CameraStatus,
  /** One line for a person; empty while all is well. */
  reason: Schema.String,
  /** Place in the list, from 0. */
  position: Schema.Int,
  /** The node whose disks hold its recordings. */
  homeNodeId: NodeId,
  channels: Schema.Array(Channel),
  createdAt: Instant,
  updatedAt: Instant,
  version: Schema.Int,
}).annotate({ identifier: "Camera" })
export type Camera = typeof Camera.Type

export const StreamCreate = Schema.Struct({
  role: StreamRole,
  sourceUrl: SourceUrl,
  transport: Schema.optionalKey(Transport),
  enabled: Schema.optionalKey(Schema.Boolean),
  /** Left out: sub streams are, main streams are not. */
  onDemand: Schema.optionalKey(Schema.Boolean),
  username: Schema.optionalKey(Schema.NullOr(UserName)),
  password: Schema.optionalKey(Schema.NullOr(Password)),
})
export type StreamCreate = typeof StreamCreate.Type

/** A replacement, but a user name or password that is left out stays; `null` removes it. The role stays. */
export const StreamUpdate = Schema.Struct({
  sourceUrl: SourceUrl,
  transport: Schema.optionalKey(Transport),
  enabled: Schema.optionalKey(Schema.Boolean),
  /** Left out, it stays. */
  onDemand: Schema.optionalKey(Schema.Boolean),
  username: Schema.optionalKey(Schema.NullOr(UserName)),
  password: Schema.optionalKey(Schema.NullOr(Password)),
})
export type StreamUpdate = typeof StreamUpdate.Type

export const ChannelCreate = Schema.Struct({
  name: Schema.optionalKey(Name),
  active: Schema.optionalKey(Schema.Boolean),
  streams: Schema.optionalKey(Schema.Array(StreamCreate).check(Schema.isMaxLength(2))),
})
export type ChannelCreate = typeof ChannelCreate.Type

export const ChannelUpdate = Schema.Struct({ name: Name, active: Schema.optionalKey(Schema.Boolean) })
export type ChannelUpdate = typeof ChannelUpdate.Type

/** `rtsp` takes `streams` (one channel) or `channels`; the other families take `host`, and their driver finds the rest. */
export const CameraCreate = Schema.Struct({
  name: Name,
  description: Schema.optionalKey(Description),
  tags: Schema.optionalKey(Tags),
  driver: DriverKind,
  enabled: Schema.optionalKey(Schema.Boolean),
  username: Schema.optionalKey(Schema.NullOr(UserName)),
  password: Schema.optionalKey(Schema.NullOr(Password)),
  host: Schema.optionalKey(Host),
  port: Schema.optionalKey(Port),
  streams: Schema.optionalKey(Schema.Array(StreamCreate).check(Schema.isMaxLength(2))),
  channels: Schema.optionalKey(Schema.Array(ChannelCreate).check(Schema.isMaxLength(maxChannels))),
})
export type CameraCreate = typeof CameraCreate.Type

/** A replacement, but tags, a user name or a password that are left out stay; `null` removes the latter two. Channels and streams have operations of their own. */
export const CameraUpdate = Schema.Struct({
  name: Name,
  description: Schema.optionalKey(Description),
  tags: Schema.optionalKey(Tags),
  enabled: Schema.optionalKey(Schema.Boolean),
  username: Schema.optionalKey(Schema.NullOr(UserName)),
  password: Schema.optionalKey(Schema.NullOr(Password)),
  /** Where the camera is asked by its own protocol from now on; verified before it is stored. */
  host: Schema.optionalKey(Host),
  port: Schema.optionalKey(Port),
})
export type CameraUpdate = typeof CameraUpdate.Type

export const CameraFilter = Schema.Struct({
  status: Schema.optionalKey(CameraStatus),
  driver: Schema.optionalKey(DriverKind),
  enabled: Schema.optionalKey(Schema.Boolean),
  /** Words that must all be found: in the name, the description, an address, the maker, the model, the serial number or a tag. */
  text: Schema.optionalKey(Schema.String),
  /** A whole tag. */
  tag: Schema.optionalKey(Schema.String),
})
export type CameraFilter = typeof CameraFilter.Type

/**
 * The camera as somebody sees who reaches that much: of a camera of which only channels are reached, these alone; null where
 * nothing of it is.
 */
export const seenWithin = (camera: Camera, within: Reach): Camera | null => {
  if (within === "all" || within.camera.has(camera.id)) return camera
  const channels = camera.channels.filter((channel) => within.channel.has(channel.id))
  if (channels.length === 0) return null
  return { ...camera, ...statusOf(channels.flatMap((channel) => channel.streams)), channels }
}

/** Where a stream can be watched and the short-lived token that opens it. */
export const MediaPath = Schema.Struct({
  streamId: StreamId,
  /** Name of the stream at the media doors. */
  path: Schema.String,
  /** Live by WebRTC: WHEP, with the token as bearer. */
  whepUrl: Schema.NullOr(Schema.String),
  /** What of the stream it cannot offer, and why; null: nothing, as far as is known before it was seen. */
  whepLimit: Schema.NullOr(Schema.String),
  /** Newest recorded footage by HLS; null where the stream is not recorded. */
  hlsUrl: Schema.NullOr(Schema.String),
  rtspUrl: Schema.NullOr(Schema.String),
  /** Live by low-latency HLS. */
  liveHlsUrl: Schema.String,
  /** What of the stream it cannot offer, and why; null: nothing. */
  liveHlsLimit: Schema.NullOr(Schema.String),
  /** The newest picture as a JPEG, for those who show their access token. */
  snapshotUrl: Schema.String,
  token: Schema.String,
  expiresAt: Instant,
}).annotate({ identifier: "MediaPath" })
export type MediaPath = typeof MediaPath.Type

const notFound = (what: string) => (id: string) => `There is no ${what} ${id}.`

export class CameraNotFound
  extends Schema.TaggedError<CameraNotFound>()("CameraNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return notFound("camera")(this.id)
  }
}

/** Somebody else answers at the address that a camera was said to have gone to. */
export class OtherDevice
  extends Schema.TaggedError<OtherDevice>()("OtherDevice", { expected: Schema.String, found: Schema.String }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return `Another device answers there: its serial number is ${this.found}, this camera's is ${this.expected}. ` +
      "Add it as a camera of its own."
  }
}

export class ChannelNotFound
  extends Schema.TaggedError<ChannelNotFound>()("ChannelNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return notFound("channel")(this.id)
  }
}

export class StreamNotFound
  extends Schema.TaggedError<StreamNotFound>()("StreamNotFound", { id: Schema.String }, { httpApiStatus: 404 })
{
  override get message(): string {
    return notFound("stream")(this.id)
  }
}

export class StreamExists
  extends Schema.TaggedError<StreamExists>()("StreamExists", { channelId: Schema.String, role: StreamRole }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return `The channel ${this.channelId} already has a ${this.role} stream.`
  }
}

export class ChannelsExhausted
  extends Schema.TaggedError<ChannelsExhausted>()("ChannelsExhausted", { cameraId: Schema.String, limit: Schema.Int }, {
    httpApiStatus: 409,
  })
{
  override get message(): string {
    return `A camera has at most ${this.limit} channels.`
  }
}

/** Footage is never deleted as a side effect: what is recorded must lose its recordings first. */
export class StillRecorded
  extends Schema.TaggedError<StillRecorded>()("StillRecorded", { id: Schema.String }, { httpApiStatus: 409 })
{
  override get message(): string {
    return `${this.id} is recorded. Footage is never deleted as a side effect: delete its recordings first.`
  }
}

export class DriverUnsupported
  extends Schema.TaggedError<DriverUnsupported>()("DriverUnsupported", { driver: DriverKind }, { httpApiStatus: 501 })
{
  override get message(): string {
    return this.driver === "mobile" ?
      "A phone has no address: prepare it (`cameras/mobile/prepare`), and it becomes a camera when it is claimed." :
      `Cameras of the kind "${this.driver}" cannot be asked for their streams; add the camera by its RTSP addresses.`
  }
}

export class StreamTokenInvalid
  extends Schema.TaggedError<StreamTokenInvalid>()("StreamTokenInvalid", {}, { httpApiStatus: 401 })
{
  override get message(): string {
    return "The stream token is not valid (any more); ask for a new one."
  }
}

/**
 * What a group of streams amounts to: the status and the first line that tells why. Streams that are switched off do not count, nor
 * do those that wait for somebody to watch, unless all do.
 */
export const statusOf = (
  streams: ReadonlyArray<{ readonly status: CameraStatus; readonly reason: string }>,
): { readonly status: CameraStatus; readonly reason: string } => {
  const assigned = streams.filter((stream) => stream.status !== "disabled")
  const wanted = assigned.filter((stream) => stream.status !== "idle")
  const having = (status: CameraStatus) => wanted.find((stream) => stream.status === status)
  if (wanted.length === 0) return { status: assigned.length === 0 ? "disabled" : "idle", reason: "" }
  if (wanted.every((stream) => stream.status === "online")) return { status: "online", reason: "" }
  const worst = having("authFailed") ?? having("offline") ?? having("degraded") ?? having("probing") ??
    having("registered")
  const reason = worst?.reason ?? ""
  if (having("online") !== undefined || having("degraded") !== undefined) return { status: "degraded", reason }
  return { status: worst?.status ?? "registered", reason }
}
