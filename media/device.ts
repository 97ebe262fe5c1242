/**
 * The door to a camera's own protocol: who it is, which streams it has, what it can be told to do. A driver (`media/drivers/*.ts`)
 * implements it.
 *
 * Invariants
 * 1. Every call ends within its time limit, with a typed error if it must; nothing a device sends makes it throw or grow.
 * 2. Credentials go to the host and port that a person gave, never to an address that the device names.
 * 3. What is not reading is sent only where `DeviceOptions.allow` says so at that moment.
 * 4. One connection to a device at a time, and one more where it is listened to; a call is repeated only where it has not reached the device's services.
 */
import type {
  Capability,
  DeviceClock,
  DeviceClockChange,
  DeviceError,
  DeviceInformation,
  FoundChannel,
  ImagingChange,
  ImagingOptions,
  ImagingSettings,
  MediaProfile,
  PtzPreset,
  PtzStatus,
  PtzVector,
  VideoEncoder,
  VideoEncoderChange,
  VideoEncoderOptions,
} from "#schema/camera-device.ts"
import type { Noticed } from "#schema/camera-event.ts"
import type { NewPresetTour, PresetTour, PtzConfiguration, PtzNode, TourOperation } from "#schema/camera-ptz.ts"
import type { DriverKind } from "#schema/camera.ts"
import type { InvalidInput } from "#schema/problem.ts"
import { Context, type Effect, type Redacted, type Scope } from "effect"
import type { DeviceConfig } from "./device-config.ts"

export interface DeviceOptions {
  /** A name or an address as a person gave it. */
  readonly host: string
  readonly port: number
  readonly username: string | null
  readonly password: Redacted.Redacted | null
  /** Longest wait for one answer, connecting included, in milliseconds. */
  readonly requestTimeoutMs: number
  /** Services that are left alone although the device names them, as if it did not. */
  readonly without?: ReadonlyArray<"media" | "media2">
  /**
   * Asked immediately before each request that makes the device do or become something, after whatever it waited for; where it fails
   * nothing is sent, and that is the answer. `reset`: the device forgets its settings. Left out: nobody is asked.
   */
  readonly allow?: (what: "command" | "reset") => Effect.Effect<void, DeviceError>
}

type Answer<A, E = never> = Effect.Effect<A, E | DeviceError>

/** Moving a camera; `profile` is the token of a media profile, null: the first one that can move. */
export interface DevicePtz {
  /** Speeds; it stops by itself after `timeoutMs`. */
  readonly moveContinuous: (profile: string | null, speed: PtzVector, timeoutMs: number) => Answer<void>
  readonly moveAbsolute: (profile: string | null, position: PtzVector, speed: PtzVector | null) => Answer<void>
  readonly moveRelative: (profile: string | null, by: PtzVector, speed: PtzVector | null) => Answer<void>
  readonly stop: (profile: string | null) => Answer<void>
  readonly status: (profile: string | null) => Answer<PtzStatus>
  readonly presets: (profile: string | null) => Answer<ReadonlyArray<PtzPreset>>
  /** Answers the token; with `token` it replaces that preset. */
  readonly setPreset: (profile: string | null, name: string, token: string | null) => Answer<string>
  readonly removePreset: (profile: string | null, token: string) => Answer<void>
  readonly gotoPreset: (profile: string | null, token: string) => Answer<void>
  readonly setHome: (profile: string | null) => Answer<void>
  readonly gotoHome: (profile: string | null) => Answer<void>
}

/** What moves, and tours that the camera runs by itself; `profile` as in {@link DevicePtz}. */
export interface DeviceTours {
  readonly nodes: Answer<ReadonlyArray<PtzNode>>
  readonly configurations: Answer<ReadonlyArray<PtzConfiguration>>
  /** Takes the limits off the profile's configuration, as far as its node goes; answers what it then is. */
  readonly widen: (profile: string | null) => Answer<PtzConfiguration>
  readonly tours: (profile: string | null) => Answer<ReadonlyArray<PresetTour>>
  /** Answers the token. */
  readonly createTour: (profile: string | null, tour: NewPresetTour) => Answer<string>
  readonly removeTour: (profile: string | null, token: string) => Answer<void>
  readonly operateTour: (profile: string | null, token: string, operation: TourOperation) => Answer<void>
}

/** What a device notices, for as long as the scope of it is open. */
export interface DeviceSubscription {
  /** What it noticed since the last call; waits up to `waitMs` for something. */
  readonly pull: (waitMs: number) => Answer<Noticed>
  /** A device forgets a subscription that is not renewed for two minutes. */
  readonly renew: Answer<void>
}

export interface Device {
  readonly information: DeviceInformation
  /** What the device's clock is ahead of ours, in milliseconds. */
  readonly clockOffsetMs: number
  readonly capabilities: Answer<ReadonlyArray<Capability>>
  readonly profiles: Answer<ReadonlyArray<MediaProfile>>
  /** One channel a video source, its best stream as `main` and its smallest as `sub`. */
  readonly channels: Answer<ReadonlyArray<FoundChannel>>
  /** Rewritten to the host that was given. */
  readonly streamUri: (profile: string) => Answer<string>
  readonly snapshotUri: (profile: string | null) => Answer<string>
  readonly videoEncoders: Answer<ReadonlyArray<VideoEncoder>>
  readonly videoEncoder: (token: string) => Answer<VideoEncoder>
  readonly videoEncoderOptions: (token: string) => Answer<VideoEncoderOptions>
  /** Checked against the options before the device is told; answers what the device then has. */
  readonly setVideoEncoder: (token: string, change: VideoEncoderChange) => Answer<VideoEncoder, InvalidInput>
  readonly clock: Answer<DeviceClock>
  /** Answers what the device's clock is then. */
  readonly setClock: (change: DeviceClockChange) => Answer<DeviceClock>
  readonly reboot: Answer<{ readonly message: string }>
  /** Of a video source, by its token. */
  readonly imaging: (source: string) => Answer<ImagingSettings>
  readonly imagingOptions: (source: string) => Answer<ImagingOptions>
  /** Checked against the options before the device is told; answers what the device then has. */
  readonly setImaging: (source: string, change: ImagingChange) => Answer<ImagingSettings, InvalidInput>
  readonly ptz: DevicePtz
  readonly tours: DeviceTours
  /** Null: it tells of nothing. A subscription waits on the device: it wants a connection of its own. */
  readonly events: Effect.Effect<DeviceSubscription, DeviceError, Scope.Scope> | null
  readonly config: DeviceConfig
}

/** A still picture, whole. */
export interface DevicePicture {
  readonly contentType: "image/jpeg" | "image/png"
  readonly bytes: Uint8Array
}

/** One camera family that has a protocol of its own. */
export interface DeviceDriver {
  /** Verifies the credentials: what it answers has spoken with the device as that user. */
  readonly connect: (options: DeviceOptions) => Answer<Device>
  /** Fetches the picture that `Device.snapshotUri` names, beside the connection with the device. */
  readonly picture: (options: DeviceOptions, uri: string) => Answer<DevicePicture>
}

/** The drivers of this node by family; null: the family has no protocol by which it can be asked. */
export class DeviceDrivers
  extends Context.Service<DeviceDrivers, Readonly<Record<DriverKind, DeviceDriver | null>>>()(
    "nightjar/media/DeviceDrivers",
  )
{}
