/**
 * The camera slice: messages of the entity `Camera`, the interface of the service `Cameras`, and of `StreamAccess`, which
 * tells where a stream can be watched.
 *
 * Invariants
 * 1. Whatever changes a camera, its channels or its streams goes through its entity, a single writer; reads do not.
 * 2. Entity type and message tags are a storage format: renaming one is a migration.
 * 3. Passwords travel sealed. Sealed under the context `camera/<cameraId>/password` or `stream/<streamId>/password`.
 */
import {
  CameraChange,
  type CameraHome,
  type ChannelPlace,
  NewCamera,
  NewChannel,
  NewStream,
  StreamChange,
} from "#schema/camera-change.ts"
import type { DeviceError } from "#schema/camera-device.ts"
import { CapabilityChange } from "#schema/camera-offer.ts"
import {
  Camera,
  type CameraCreate,
  type CameraFilter,
  CameraNotFound,
  CameraStream,
  type CameraUpdate,
  Channel,
  type ChannelCreate,
  ChannelNotFound,
  ChannelsExhausted,
  type ChannelUpdate,
  type DriverUnsupported,
  type MediaPath,
  type OtherDevice,
  StillRecorded,
  type StreamCreate,
  StreamExists,
  StreamNotFound,
  type StreamTokenInvalid,
  type StreamUpdate,
} from "#schema/camera.ts"
import {
  CameraId,
  ChannelId,
  type EpochMs,
  type PageOf,
  type PageRequest,
  StreamId,
  type UserId,
} from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import { shardGroupOf } from "#schema/ownership.ts"
import type { Reach, ResourceRef, UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable, type InvalidCursor, type InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect, type Redacted, Schema } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"

/** Version the caller has seen (`If-Match`); null: whatever it is. */
const ifMatch = Schema.NullOr(Schema.Int)

const cameraErrors = [CameraNotFound, ControlElsewhere, VersionConflict, DependencyUnavailable] as const
const channelErrors = [ChannelNotFound, ControlElsewhere, VersionConflict, DependencyUnavailable] as const
const streamErrors = [StreamNotFound, ControlElsewhere, VersionConflict, DependencyUnavailable] as const

/** Entity id: `<slot>/<cameraId>`. */
export const CameraActor = Entity.make("Camera", [
  /** Brings the captures of this node in line with what the database says of the camera. Idempotent. */
  Rpc.make("Start", { payload: { id: CameraId }, error: DependencyUnavailable }),
  Rpc.make("Create", {
    payload: { camera: NewCamera },
    success: Camera,
    error: Schema.Union([ControlElsewhere, DependencyUnavailable]),
  }),
  Rpc.make("Update", {
    payload: { id: CameraId, change: CameraChange, ifMatch },
    success: Camera,
    error: Schema.Union(cameraErrors),
  }),
  Rpc.make("Delete", { payload: { id: CameraId, ifMatch }, error: Schema.Union([...cameraErrors, StillRecorded]) }),
  Rpc.make("AddChannel", {
    payload: { id: CameraId, channel: NewChannel },
    success: Channel,
    error: Schema.Union([...cameraErrors, ChannelsExhausted]),
  }),
  Rpc.make("UpdateChannel", {
    payload: { channelId: ChannelId, name: Schema.String, active: Schema.Boolean, ifMatch },
    success: Channel,
    error: Schema.Union(channelErrors),
  }),
  Rpc.make("ToggleChannel", {
    payload: { channelId: ChannelId, active: Schema.NullOr(Schema.Boolean), ifMatch },
    success: Channel,
    error: Schema.Union(channelErrors),
  }),
  Rpc.make("DeleteChannel", {
    payload: { channelId: ChannelId, ifMatch },
    error: Schema.Union([...channelErrors, StillRecorded]),
  }),
  Rpc.make("SetCapability", {
    payload: { id: CameraId, channelId: Schema.NullOr(ChannelId), change: CapabilityChange, by: Schema.String },
    error: Schema.Union([CameraNotFound, ControlElsewhere, DependencyUnavailable]),
  }),
  Rpc.make("AddStream", {
    payload: { channelId: ChannelId, stream: NewStream },
    success: CameraStream,
    error: Schema.Union([...channelErrors, StreamExists]),
  }),
  Rpc.make("UpdateStream", {
    payload: { streamId: StreamId, change: StreamChange, ifMatch },
    success: CameraStream,
    error: Schema.Union(streamErrors),
  }),
  Rpc.make("DeleteStream", {
    payload: { streamId: StreamId, ifMatch },
    error: Schema.Union([...streamErrors, StillRecorded]),
  }),
]).annotate(ClusterSchema.ShardGroup, shardGroupOf)

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>
type OfCamera<A, E = never> = Answer<A, E | CameraNotFound>
type OfChannel<A, E = never> = Answer<A, E | ChannelNotFound>
type OfStream<A, E = never> = Answer<A, E | StreamNotFound>
/** A change is refused where another node has control of the camera. */
type Change = ControlElsewhere | VersionConflict

export class Cameras extends Context.Service<Cameras, {
  /** By position; what lies within `within`, a camera of which only channels do with these alone. */
  readonly list: (filter: CameraFilter, page: PageRequest, within: Reach) => Answer<PageOf<Camera>, InvalidCursor>
  readonly get: (id: CameraId) => OfCamera<Camera>
  /** All of the cluster, switched on or off. */
  readonly count: () => Answer<{ readonly cameras: number; readonly channels: number }>
  /** A camera whose family has a protocol of its own is asked for its channels and streams first. */
  readonly create: (
    input: CameraCreate,
    /** Of its own if left out. */
    id?: CameraId,
  ) => Answer<Camera, DeviceError | DriverUnsupported | InvalidInput | LicenseRestricted>
  /** Writes a camera that is complete, with ids and sealed passwords of its own. */
  readonly place: (camera: NewCamera) => Answer<Camera, ControlElsewhere | LicenseRestricted>
  /** With another `host` or `port` the camera is asked there first; nothing is stored where that fails. */
  readonly update: (
    id: CameraId,
    update: CameraUpdate,
    ifMatch: number | null,
  ) => OfCamera<Camera, VersionConflict | InvalidInput | OtherDevice | DeviceError>
  readonly remove: (id: CameraId, ifMatch: number | null) => OfCamera<void, Change | StillRecorded>
  /** The named ones come first, in this order; the others follow as they were. Answers the first page of the new order. */
  readonly reorder: (ids: ReadonlyArray<CameraId>) => OfCamera<PageOf<Camera>, InvalidInput>

  readonly channels: (id: CameraId) => OfCamera<ReadonlyArray<Channel>>
  readonly channel: (id: ChannelId) => OfChannel<Channel>
  readonly addChannel: (
    id: CameraId,
    input: ChannelCreate,
  ) => OfCamera<Channel, ChannelsExhausted | InvalidInput | LicenseRestricted | Change>
  readonly updateChannel: (id: ChannelId, update: ChannelUpdate, ifMatch: number | null) => OfChannel<Channel, Change>
  readonly toggleChannel: (id: ChannelId, active: boolean | null, ifMatch: number | null) => OfChannel<Channel, Change>
  readonly removeChannel: (id: ChannelId, ifMatch: number | null) => OfChannel<void, Change | StillRecorded>

  readonly streams: (id: ChannelId) => OfChannel<ReadonlyArray<CameraStream>>
  readonly stream: (id: StreamId) => OfStream<CameraStream>
  readonly addStream: (
    id: ChannelId,
    input: StreamCreate,
  ) => OfChannel<CameraStream, InvalidInput | StreamExists | Change>
  readonly updateStream: (
    id: StreamId,
    update: StreamUpdate,
    ifMatch: number | null,
  ) => OfStream<CameraStream, InvalidInput | Change>
  readonly removeStream: (id: StreamId, ifMatch: number | null) => OfStream<void, Change | StillRecorded>

  /** Where a channel, or the channel of a stream, lies; null: there is none. */
  readonly placeOf: (
    of: { readonly channelId: ChannelId } | { readonly streamId: StreamId },
  ) => Answer<ChannelPlace | null>
  /** Of these, those that do not exist, as `kind:id`. */
  readonly missing: (
    cameras: ReadonlyArray<CameraId>,
    channels: ReadonlyArray<ChannelId>,
  ) => Answer<ReadonlySet<string>>
  /** Where the camera of a channel lives, for the entities of other slices that belong to it. */
  readonly homeOf: (id: ChannelId) => OfChannel<CameraHome>
}>()("nightjar/actors/Cameras") {}

/** What a stream token stands for. */
export interface StreamGrant {
  readonly streamId: StreamId
  /** The login session it was given in. */
  readonly sessionId: string
  readonly userId: UserId
  /** The stream's channel and camera: what groups of resources may hold. */
  readonly resource: ReadonlyArray<ResourceRef>
  readonly expiresMs: EpochMs
}

export class StreamAccess extends Context.Service<StreamAccess, {
  /** Where a stream can be watched, with a fresh token for the caller's session. Addresses of HTTP are made where HTTP is spoken. */
  readonly mediaPath: (id: StreamId, who: UserPrincipal) => OfStream<Omit<MediaPath, "liveHlsUrl" | "snapshotUrl">>
  /** The token alone. */
  readonly token: (id: StreamId, who: UserPrincipal) => OfStream<Pick<MediaPath, "streamId" | "token" | "expiresAt">>
  /** The other stream of the grant's channel, main or sub, which its holder may watch as well; null: none is switched on. */
  readonly beside: (grant: StreamGrant) => Effect.Effect<StreamId | null, DependencyUnavailable>
  /** What a media door must know before it serves a stream. */
  readonly verify: (token: Redacted.Redacted) => Effect.Effect<StreamGrant, StreamTokenInvalid | DependencyUnavailable>
}>()("nightjar/actors/StreamAccess") {}
