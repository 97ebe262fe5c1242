/** What cameras offer: capabilities with what administrators set, channels and streams as they are found. */
import type { Capability, DeviceError } from "#schema/camera-device.ts"
import type { CapabilityChange, DiscoveredChannel, DiscoveredStreams } from "#schema/camera-offer.ts"
import type { CameraNotFound, ChannelNotFound, ChannelsExhausted, StreamExists } from "#schema/camera.ts"
import type { CameraId, ChannelId } from "#schema/common.ts"
import type { ControlElsewhere } from "#schema/federation-failover.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import type { DependencyUnavailable, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Answer<A, E> = Effect.Effect<A, E | DependencyUnavailable>

export class CameraOffers extends Context.Service<CameraOffers, {
  readonly ofCamera: (id: CameraId) => Answer<ReadonlyArray<Capability>, CameraNotFound | DeviceError>
  readonly ofChannel: (id: ChannelId) => Answer<ReadonlyArray<Capability>, ChannelNotFound | DeviceError>
  /** `by`: name of the user. Answers the capability as it counts then, as far as the node knows without the camera. */
  readonly setOfCamera: (
    id: CameraId,
    change: CapabilityChange,
    by: string,
  ) => Answer<Capability, CameraNotFound | ControlElsewhere>
  readonly setOfChannel: (
    id: ChannelId,
    change: CapabilityChange,
    by: string,
  ) => Answer<Capability, ChannelNotFound | ControlElsewhere>
  /** With `apply` the new ones are added, as long as it goes. */
  readonly discoverChannels: (id: CameraId, apply: boolean) => Answer<
    ReadonlyArray<DiscoveredChannel>,
    CameraNotFound | DeviceError | ChannelsExhausted | InvalidInput | LicenseRestricted | VersionConflict
  >
  readonly discoverStreams: (id: ChannelId, apply: boolean) => Answer<
    DiscoveredStreams,
    ChannelNotFound | DeviceError | StreamExists | VersionConflict
  >
}>()("nightjar/actors/CameraOffers") {}
