/**
 * Asking a camera by its own protocol: messages of the entity `CameraDevice`, and the service that finds it.
 *
 * Invariants
 * 1. There is one such entity a camera, on the node that serves the camera: it alone speaks with the device, so that a device has one
 *    connection of ours however many nodes are asked.
 * 2. It writes nothing: what a device was told is remembered by the device.
 */
import {
  Capability,
  DeviceClock,
  DeviceClockChange,
  type DeviceError,
  deviceErrors,
  type DiscoveredDevice,
  ImagingChange,
  ImagingOptions,
  ImagingSettings,
  MediaProfile,
  VideoEncoder,
  VideoEncoderChange,
  VideoEncoderOptions,
} from "#schema/camera-device.ts"
import { FoundChannels } from "#schema/camera-offer.ts"
import type { PtzHeld } from "#schema/camera-ptz.ts"
import { CameraNotFound } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { shardGroupOf } from "#schema/ownership.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Context, type Effect, Schema } from "effect"
import { ClusterSchema, Entity } from "effect/cluster"
import { Rpc } from "effect/rpc"
import { configMessages } from "./camera-config.ts"
import { focusMessages, ptzMessages } from "./camera-ptz.ts"

const errors = [CameraNotFound, DependencyUnavailable, ...deviceErrors] as const
const error = Schema.Union(errors)
const token = Schema.String

/** Entity id: `<slot>/<cameraId>`. */
export const CameraDeviceActor = Entity.make("CameraDevice", [
  Rpc.make("Capabilities", { success: Schema.Array(Capability), error }),
  Rpc.make("Channels", { success: FoundChannels, error }),
  Rpc.make("Profiles", { success: Schema.Array(MediaProfile), error }),
  Rpc.make("VideoEncoders", { success: Schema.Array(VideoEncoder), error }),
  Rpc.make("VideoEncoder", { payload: { token }, success: VideoEncoder, error }),
  Rpc.make("VideoEncoderOptions", { payload: { token }, success: VideoEncoderOptions, error }),
  Rpc.make("SetVideoEncoder", {
    payload: { token, change: VideoEncoderChange },
    success: VideoEncoder,
    error: Schema.Union([...errors, InvalidInput]),
  }),
  Rpc.make("ReadClock", { success: DeviceClock, error }),
  Rpc.make("SetClock", { payload: { change: DeviceClockChange }, success: DeviceClock, error }),
  Rpc.make("Reboot", { success: Schema.Struct({ message: Schema.String }), error }),
  Rpc.make("Imaging", { payload: { source: token }, success: ImagingSettings, error }),
  Rpc.make("ImagingOptions", { payload: { source: token }, success: ImagingOptions, error }),
  Rpc.make("SetImaging", {
    payload: { source: token, change: ImagingChange },
    success: ImagingSettings,
    error: Schema.Union([...errors, InvalidInput]),
  }),
  ...ptzMessages,
  ...focusMessages,
  ...configMessages,
]).annotate(ClusterSchema.ShardGroup, shardGroupOf)

/** What sends messages to one camera's entity. */
export type CameraDeviceClient = ReturnType<Effect.Success<typeof CameraDeviceActor.client>>

/** What a call may fail with, the cluster's own words taken out. */
type Told<E> = Extract<E, (typeof errors)[number]["Type"] | InvalidInput | PtzHeld>

/** Whole, at most 8 MiB. */
export interface CameraPicture {
  readonly contentType: "image/jpeg" | "image/png"
  readonly bytes: Uint8Array
}

export class CameraDevices extends Context.Service<CameraDevices, {
  /** Sends `message` to the entity of the camera and answers within a time limit. */
  readonly ask: <A, E extends { readonly _tag: string }>(
    id: CameraId,
    message: (camera: CameraDeviceClient) => Effect.Effect<A, E>,
  ) => Effect.Effect<A, Told<E> | CameraNotFound | DependencyUnavailable>
  /** The picture that the camera serves by itself, at most a second old; fetched by the node that is asked. Null: of its first profile with one. */
  readonly picture: (
    id: CameraId,
    profile: string | null,
  ) => Effect.Effect<CameraPicture, DeviceError | CameraNotFound | DependencyUnavailable>
  /** Cameras on the networks of the node that is asked, with the camera of ours that each is, if any. */
  readonly discover: (waitMs: number) => Effect.Effect<ReadonlyArray<DiscoveredDevice>, DependencyUnavailable>
}>()("nightjar/actors/CameraDevices") {}
