/** The camera service, as far as it is about what cameras offer: capabilities, and channels and streams that their driver finds. */
import { Capability, deviceErrors } from "#schema/camera-device.ts"
import { CapabilityChange, DiscoveredChannel, DiscoveredStreams } from "#schema/camera-offer.ts"
import { CameraNotFound, ChannelNotFound, ChannelsExhausted, StreamExists } from "#schema/camera.ts"
import { CameraId, ChannelId, Page } from "#schema/common.ts"
import { ControlElsewhere } from "#schema/federation-failover.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { DependencyUnavailable, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1"
const cameraParams = { id: CameraId }
const channelParams = { channel_id: ChannelId }
const ofCamera = { on: { kind: "camera", param: "id" } } as const
const ofChannel = { on: { kind: "channel", param: "channel_id" } } as const
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })

const setting =
  "`yes` and `no` stand above what the camera claims, with `set by <user>` as evidence, until `asTold`. A camera is not asked " +
  "for what it has in none of its channels: 501 `onvif_operation_unsupported`. `events: no` of a camera ends listening to it, `media2: no` " +
  "has it asked by Media1."
const apply = Schema.Struct({ apply: Schema.optionalKey(Schema.Boolean) })
const finding =
  "Asks the driver and tells for each whether it is `new`, `known`, `changed` or `gone`; with `apply` the new ones are `added`. " +
  "Nothing that was added is changed or removed. A camera without a protocol of its own answers 501."

const onCapabilities = [
  HttpApiEndpoint.get("capabilities", `${base}/cameras/:id/capabilities`, {
    params: cameraParams,
    success: Page(Capability),
    error: problems(CameraNotFound, DependencyUnavailable, ...deviceErrors),
  }).annotateMerge(access("camera:read", ofCamera)).annotateMerge(
    doc(
      "Get camera capabilities",
      "As the camera tells them or somebody set them, each with what it is known from. `unverified`: it says so.",
    ),
  ),
  HttpApiEndpoint.put("setCapability", `${base}/cameras/:id/capabilities`, {
    params: cameraParams,
    payload: CapabilityChange,
    success: Capability,
    error: problems(CameraNotFound, ControlElsewhere, DependencyUnavailable),
  }).annotateMerge(access("camera:write", ofCamera)).annotateMerge(doc("Update a camera capability", setting)),
  HttpApiEndpoint.get("channelCapabilities", `${base}/channels/:channel_id/capabilities`, {
    params: channelParams,
    success: Page(Capability),
    error: problems(ChannelNotFound, DependencyUnavailable, ...deviceErrors),
  }).annotateMerge(access("camera:read", ofChannel)).annotateMerge(extension).annotateMerge(
    doc("Get channel capabilities", "Those of its camera, with what was set of the channel alone."),
  ),
  HttpApiEndpoint.put("setChannelCapability", `${base}/channels/:channel_id/capabilities`, {
    params: channelParams,
    payload: CapabilityChange,
    success: Capability,
    error: problems(ChannelNotFound, ControlElsewhere, DependencyUnavailable),
  }).annotateMerge(access("camera:write", ofChannel)).annotateMerge(doc("Update a channel capability", setting)),
] as const

const onDiscovery = [
  HttpApiEndpoint.post("discoverChannels", `${base}/cameras/:id/channels/discover`, {
    params: cameraParams,
    headers: idempotencyKey,
    payload: apply,
    success: Page(DiscoveredChannel),
    error: problems(
      CameraNotFound,
      DependencyUnavailable,
      ChannelsExhausted,
      InvalidInput,
      LicenseRestricted,
      VersionConflict,
      ...deviceErrors,
    ),
  }).annotateMerge(access("camera:write", ofCamera)).annotateMerge(
    doc("Discover camera channels using the driver", finding),
  ),
  HttpApiEndpoint.post("discoverStreams", `${base}/channels/:channel_id/streams/discover`, {
    params: channelParams,
    headers: idempotencyKey,
    payload: apply,
    success: DiscoveredStreams,
    error: problems(ChannelNotFound, DependencyUnavailable, StreamExists, VersionConflict, ...deviceErrors),
  }).annotateMerge(access("camera:write", ofChannel)).annotateMerge(
    doc("Discover channel streams and profiles using the driver", finding),
  ),
] as const

export class CameraOfferGroup extends HttpApiGroup.make("cameraOffer")
  .add(...onCapabilities)
  .add(...onDiscovery)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "What cameras offer",
    description: "Capabilities, claimed and set; channels and streams as the driver finds them.",
  }))
{}
