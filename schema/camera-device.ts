/**
 * What a camera tells of itself by its own protocol (ONVIF), and what can go wrong in asking it.
 *
 * Invariants
 * 1. An error's text holds no password, no address that the device named, and at most {@link maxDetail} characters of its words.
 * 2. A capability says how it is known; `unverified` means that the device was asked and left it open.
 */
import { Schema } from "effect"
import { CameraId, Instant } from "./common.ts"
import { ControlElsewhere } from "./federation-failover.ts"

/** Characters of a device's own words in an error. */
export const maxDetail = 200
/** A token of ONVIF (`tt:ReferenceToken`). */
export const DeviceToken = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(64))

/** GetDeviceInformation. */
export const DeviceInformation = Schema.Struct({
  manufacturer: Schema.String,
  model: Schema.String,
  firmwareVersion: Schema.String,
  serialNumber: Schema.String,
  hardwareId: Schema.String,
}).annotate({ identifier: "DeviceInformation" })
export type DeviceInformation = typeof DeviceInformation.Type

export const VideoEncoding = Schema.Literals(["h264", "h265", "jpeg", "mpeg4", "other"])
export type VideoEncoding = typeof VideoEncoding.Type

/** A video encoder configuration (`tt:VideoEncoderConfiguration`, `tt:VideoEncoder2Configuration`). */
export const VideoEncoder = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  /** Profiles that share it. */
  useCount: Schema.Int,
  encoding: VideoEncoding,
  width: Schema.Int,
  height: Schema.Int,
  /** On the device's own scale; its options give the range. */
  quality: Schema.Finite,
  /** Pictures a second at most; null where the device does not limit or tell it. */
  frameRate: Schema.NullOr(Schema.Finite),
  bitrateBps: Schema.NullOr(Schema.Int),
  /** Pictures from key frame to key frame. */
  govLength: Schema.NullOr(Schema.Int),
  /** The encoder's profile, as the device names it (`Main`, `High`). */
  profile: Schema.NullOr(Schema.String),
}).annotate({ identifier: "VideoEncoder" })
export type VideoEncoder = typeof VideoEncoder.Type

/** What is to become of an encoder; what is left out stays. */
export const VideoEncoderChange = Schema.Struct({
  encoding: Schema.optionalKey(Schema.Literals(["h264", "h265", "jpeg"])),
  width: Schema.optionalKey(Schema.Int),
  height: Schema.optionalKey(Schema.Int),
  quality: Schema.optionalKey(Schema.Finite),
  frameRate: Schema.optionalKey(Schema.Finite),
  bitrateBps: Schema.optionalKey(Schema.Int),
  govLength: Schema.optionalKey(Schema.Int),
})
export type VideoEncoderChange = typeof VideoEncoderChange.Type

/** Smallest and greatest, both allowed. */
export const Range = Schema.Struct({ min: Schema.Finite, max: Schema.Finite })
export type Range = typeof Range.Type

/** What one encoding may be set to; null: the device does not say. */
export const EncodingOptions = Schema.Struct({
  encoding: VideoEncoding,
  resolutions: Schema.Array(Schema.Struct({ width: Schema.Int, height: Schema.Int })),
  quality: Schema.NullOr(Range),
  frameRate: Schema.NullOr(Range),
  bitrateBps: Schema.NullOr(Range),
  govLength: Schema.NullOr(Range),
})
export type EncodingOptions = typeof EncodingOptions.Type

export const VideoEncoderOptions = Schema.Struct({ token: Schema.String, encodings: Schema.Array(EncodingOptions) })
  .annotate({ identifier: "VideoEncoderOptions" })
export type VideoEncoderOptions = typeof VideoEncoderOptions.Type

/** A media profile: which source goes through which encoder. */
export const MediaProfile = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  videoSourceToken: Schema.NullOr(Schema.String),
  videoEncoder: Schema.NullOr(VideoEncoder),
  audio: Schema.Boolean,
  /** Its PTZ configuration; null: it cannot move. */
  ptzToken: Schema.NullOr(Schema.String),
}).annotate({ identifier: "MediaProfile" })
export type MediaProfile = typeof MediaProfile.Type

export const CapabilityName = Schema.Literals([
  "media",
  "media2",
  "ptz",
  "imaging",
  "events",
  "analytics",
  "audio",
  "snapshot",
])

export const Capability = Schema.Struct({
  name: CapabilityName,
  supported: Schema.Literals(["yes", "no", "unverified"]),
  /** What that is known from. */
  evidence: Schema.String,
}).annotate({ identifier: "CameraCapability" })
export type Capability = typeof Capability.Type

/** Left and right, down and up, from -1 to 1 on the generic scale of ONVIF; zoom from 0 (wide) to 1, or -1 to 1 as a speed. */
const Axis = Schema.Finite.check(Schema.isBetween({ minimum: -1, maximum: 1 }))
export const PtzVector = Schema.Struct({
  pan: Schema.optionalKey(Axis),
  tilt: Schema.optionalKey(Axis),
  zoom: Schema.optionalKey(Axis),
})
export type PtzVector = typeof PtzVector.Type

export const PtzPosition = Schema.Struct({
  pan: Schema.NullOr(Schema.Finite),
  tilt: Schema.NullOr(Schema.Finite),
  zoom: Schema.NullOr(Schema.Finite),
})
export const PtzStatus = Schema.Struct({
  ...PtzPosition.fields,
  moving: Schema.NullOr(Schema.Boolean),
  /** The device's own word of what is wrong; empty: nothing. */
  error: Schema.String,
}).annotate({ identifier: "PtzStatus" })
export type PtzStatus = typeof PtzStatus.Type

export const PtzPreset = Schema.Struct({
  token: Schema.String,
  name: Schema.String,
  /** Null: the device does not tell. */
  position: Schema.NullOr(PtzPosition),
}).annotate({ identifier: "PtzPreset" })
export type PtzPreset = typeof PtzPreset.Type

/** GetSystemDateAndTime. */
export const DeviceClock = Schema.Struct({
  /** What the device's clock said; null: it has none. */
  utc: Schema.NullOr(Instant),
  /** What it is ahead of ours; 0 below two seconds. */
  offsetMs: Schema.Int,
  mode: Schema.Literals(["manual", "ntp"]),
  /** As POSIX writes them (`CET-1CEST,M3.5.0,M10.5.0/3`). */
  timeZone: Schema.NullOr(Schema.String),
  daylightSavings: Schema.Boolean,
}).annotate({ identifier: "DeviceClock" })
export type DeviceClock = typeof DeviceClock.Type

export const DeviceClockChange = Schema.Struct({
  mode: Schema.Literals(["manual", "ntp"]),
  /** For `manual`: the time of this node, if left out. */
  utc: Schema.optionalKey(Instant),
  timeZone: Schema.optionalKey(Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(100))),
  daylightSavings: Schema.optionalKey(Schema.Boolean),
})
export type DeviceClockChange = typeof DeviceClockChange.Type

/** `auto`: by the light; `on`: for the day; `off`: infrared light is seen. */
export const IrCutFilter = Schema.Literals(["on", "off", "auto"])

/** Settings that are numbers on the device's own scale. */
export const imagingLevels = ["brightness", "colorSaturation", "contrast", "sharpness"] as const

const Level = Schema.NullOr(Schema.Finite)
/** The picture of a video source; null: the device does not offer it. */
export const ImagingSettings = Schema.Struct({
  brightness: Level,
  colorSaturation: Level,
  contrast: Level,
  sharpness: Level,
  irCutFilter: Schema.NullOr(IrCutFilter),
}).annotate({ identifier: "ImagingSettings" })
export type ImagingSettings = typeof ImagingSettings.Type

/** What is to become of the picture; what is left out stays. */
export const ImagingChange = Schema.Struct({
  brightness: Schema.optionalKey(Schema.Finite),
  colorSaturation: Schema.optionalKey(Schema.Finite),
  contrast: Schema.optionalKey(Schema.Finite),
  sharpness: Schema.optionalKey(Schema.Finite),
  irCutFilter: Schema.optionalKey(IrCutFilter),
})
export type ImagingChange = typeof ImagingChange.Type

const LevelRange = Schema.NullOr(Range)
export const ImagingOptions = Schema.Struct({
  brightness: LevelRange,
  colorSaturation: LevelRange,
  contrast: LevelRange,
  sharpness: LevelRange,
  irCutFilters: Schema.Array(IrCutFilter),
}).annotate({ identifier: "ImagingOptions" })
export type ImagingOptions = typeof ImagingOptions.Type

/** A camera that answered a search of the network. */
export const FoundDevice = Schema.Struct({
  /** As the device calls itself; not to be relied on. */
  urn: Schema.String,
  host: Schema.String,
  port: Schema.Int,
  /** As the device tells them; empty where it does not. */
  name: Schema.String,
  model: Schema.String,
  location: Schema.String,
}).annotate({ identifier: "FoundDevice" })
export type FoundDevice = typeof FoundDevice.Type

/** A found camera, and the one of ours that is added at that address. */
export const DiscoveredDevice = FoundDevice.mapFields((fields) => ({ ...fields, cameraId: Schema.NullOr(CameraId) }))
  .annotate({ identifier: "DiscoveredDevice" })
export type DiscoveredDevice = typeof DiscoveredDevice.Type

/** The camera, or this family of cameras, has no such operation. */
export class OnvifOperationUnsupported
  extends Schema.TaggedError<OnvifOperationUnsupported>()("OnvifOperationUnsupported", {
    operation: Schema.String,
    detail: Schema.String,
  }, { httpApiStatus: 501 })
{
  override get message(): string {
    return `The camera does not support ${this.operation}${this.detail === "" ? "." : `: ${this.detail}`}`
  }
}

/** The camera refused user name and password, or they lack the right. */
export class CameraAuthFailed extends Schema.TaggedError<CameraAuthFailed>()("CameraAuthFailed", {
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The camera refuses the user name and password: ${this.detail}`
  }
}

/** No route, no answer in time, or an answer that is none. */
export class CameraUnreachable extends Schema.TaggedError<CameraUnreachable>()("CameraUnreachable", {
  reason: Schema.Literals(["unreachable", "timeout", "busy", "protocol", "tooLarge"]),
  detail: Schema.String,
}, { httpApiStatus: 503 }) {
  override get message(): string {
    return `The camera cannot be asked: ${this.detail}`
  }
}

/** The camera understood and declined. */
export class CameraRefused extends Schema.TaggedError<CameraRefused>()("CameraRefused", {
  operation: Schema.String,
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The camera declines ${this.operation}: ${this.detail}`
  }
}

/** The last one: this node may not command it now. */
export const deviceErrors = [
  OnvifOperationUnsupported,
  CameraAuthFailed,
  CameraUnreachable,
  CameraRefused,
  ControlElsewhere,
] as const
export const DeviceError = Schema.Union(deviceErrors)
export type DeviceError = typeof DeviceError.Type

/** A stream that a driver found: an address without credentials, on the host the camera was added with. */
export interface FoundStream {
  readonly role: "main" | "sub"
  readonly profileToken: string
  readonly sourceUrl: string
}

export interface FoundChannel {
  readonly name: string | null
  readonly videoSourceToken: string
  readonly streams: ReadonlyArray<FoundStream>
}

/** Where a camera's own protocol is spoken. */
export interface DeviceEndpoint {
  readonly host: string
  readonly port: number
}
