/**
 * The store of cameras, their channels and streams. Its statements: `camera-reads.ts`, `camera-writes.ts`.
 *
 * Invariants
 * 1. What a person changes is written under the epoch of the camera's slot (`fenced`); a stale owner writes nothing.
 * 2. A change of a stream or a channel is a change of its camera: all their versions grow together.
 * 3. `camera.status` is what its streams amount to, recomputed in the transaction that changes any of them.
 * 4. A page is at most 500 cameras of at most 64 channels; everything else here is one camera or one statement.
 */
import type {
  CameraChange,
  CameraHome,
  ChannelPlace,
  NewCamera,
  NewChannel,
  NewStream,
  StreamChange,
} from "#schema/camera-change.ts"
import type { CapabilityChange, CapabilitySet } from "#schema/camera-offer.ts"
import type {
  Camera,
  CameraFilter,
  CameraNotFound,
  ChannelNotFound,
  ChannelsExhausted,
  StillRecorded,
  StreamExists,
  StreamNotFound,
} from "#schema/camera.ts"
import type { CameraId, ChannelId, StreamId } from "#schema/common.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import type { Reach } from "#schema/permission.ts"
import type { DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { cameraCapabilities, type CapabilityPlace } from "./camera-capability.ts"
import { cameraReads } from "./camera-reads.ts"
import type { CaptureRow, EndpointRow, Observation, Writer } from "./camera-rows.ts"
import { cameraWrites } from "./camera-writes.ts"

type Read<A> = Effect.Effect<A, DependencyUnavailable>
type Write<A, E = never> = Effect.Effect<A, E | StaleEpoch | DependencyUnavailable>

export class CameraStore extends Context.Service<CameraStore, {
  /** In order of position; begins behind `after`. Whole, also where only some channels lie within. */
  readonly list: (
    filter: CameraFilter,
    limit: number,
    after: { readonly position: number; readonly id: string } | null,
    within: Reach,
  ) => Read<ReadonlyArray<Camera>>
  readonly get: (id: CameraId) => Read<Camera | null>
  /** The camera that a channel or a stream belongs to. */
  readonly cameraOf: (of: { readonly channelId: ChannelId } | { readonly streamId: StreamId }) => Read<CameraId | null>
  /** Where a channel, or the channel of a stream, lies. */
  readonly placeOf: (
    of: { readonly channelId: ChannelId } | { readonly streamId: StreamId },
  ) => Read<ChannelPlace | null>
  /** Of these, those that are not there, as `kind:id`. */
  readonly missing: (cameras: ReadonlyArray<CameraId>, channels: ReadonlyArray<ChannelId>) => Read<ReadonlySet<string>>
  /** How the camera itself is asked, its secret sealed. */
  readonly endpoint: (id: CameraId) => Read<EndpointRow | null>
  /** The sealed passwords of these cameras and of their streams, by their ids. */
  readonly secrets: (ids: ReadonlyArray<CameraId>) => Read<ReadonlyMap<string, string>>
  /** Cameras that are asked at one of these hosts. */
  readonly atHosts: (
    hosts: ReadonlyArray<string>,
  ) => Read<ReadonlyArray<{ readonly id: CameraId; readonly host: string; readonly port: number }>>
  readonly home: (id: CameraId) => Read<CameraHome | null>
  /** All of the cluster, switched on or off. */
  readonly count: () => Read<{ readonly cameras: number; readonly channels: number }>
  /** Of these ids of cameras and streams, those that the database has never heard of: neither there nor deleted. */
  readonly strangers: (ids: ReadonlyArray<CameraId | StreamId>) => Read<ReadonlySet<string>>
  readonly insert: (writer: Writer, camera: NewCamera) => Write<void>
  readonly update: (
    writer: Writer,
    id: CameraId,
    change: CameraChange,
    ifMatch: number | null,
  ) => Write<void, CameraNotFound | VersionConflict>
  readonly remove: (
    writer: Writer,
    id: CameraId,
    ifMatch: number | null,
  ) => Write<void, CameraNotFound | VersionConflict | StillRecorded>
  readonly reorder: (ids: ReadonlyArray<CameraId>) => Effect.Effect<void, CameraNotFound | DependencyUnavailable>
  readonly addChannel: (
    writer: Writer,
    id: CameraId,
    channel: NewChannel,
  ) => Write<void, CameraNotFound | ChannelsExhausted>
  readonly updateChannel: (
    writer: Writer,
    id: ChannelId,
    change: { readonly name: string | null; readonly active: boolean | null },
    ifMatch: number | null,
  ) => Write<void, ChannelNotFound | VersionConflict>
  readonly removeChannel: (
    writer: Writer,
    id: ChannelId,
    ifMatch: number | null,
  ) => Write<void, ChannelNotFound | VersionConflict | StillRecorded>
  readonly addStream: (writer: Writer, id: ChannelId, stream: NewStream) => Write<void, ChannelNotFound | StreamExists>
  readonly updateStream: (
    writer: Writer,
    id: StreamId,
    change: StreamChange,
    ifMatch: number | null,
  ) => Write<void, StreamNotFound | VersionConflict>
  readonly removeStream: (
    writer: Writer,
    id: StreamId,
    ifMatch: number | null,
  ) => Write<void, StreamNotFound | VersionConflict | StillRecorded>
  /** What administrators set of the place itself. */
  readonly capabilities: (place: CapabilityPlace) => Read<ReadonlyArray<CapabilitySet>>
  readonly setCapability: (
    writer: Writer,
    place: CapabilityPlace,
    change: CapabilityChange,
    by: string,
  ) => Write<void, CameraNotFound>
  /** Every stream of the cameras of these slots, or of one camera. */
  readonly captures: (
    of: { readonly slots: ReadonlyArray<Slot> } | { readonly cameraId: CameraId },
  ) => Read<ReadonlyArray<CaptureRow>>
  /** Cameras of these slots that are switched on and have a protocol of their own, but for those whose events nobody wants. */
  readonly listened: (
    slots: ReadonlyArray<Slot>,
  ) => Read<ReadonlyArray<{ readonly id: CameraId; readonly version: number }>>
  /** Cameras of these slots with their versions. */
  readonly versions: (
    slots: ReadonlyArray<Slot>,
  ) => Read<ReadonlyArray<{ readonly id: CameraId; readonly slot: Slot; readonly version: number }>>
  /** Answers whose rows there are. */
  readonly observe: (seen: ReadonlyArray<Observation>) => Read<ReadonlySet<string>>
}>()("nightjar/actors/CameraStore") {
  static readonly layer = Layer.effect(
    CameraStore,
    Effect.map(SqlClient.SqlClient, (sql) => {
      const capabilities = cameraCapabilities(sql)
      return CameraStore.of({
        ...cameraReads(sql),
        ...cameraWrites(sql),
        ...capabilities,
        setCapability: (...write) =>
          Effect.provideService(capabilities.setCapability(...write), SqlClient.SqlClient, sql),
      })
    }),
  )
}
