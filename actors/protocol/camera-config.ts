/** What cameras are set to by their own protocol: messages of the entity `CameraDevice` (`camera-device.ts`). */
import {
  AudioEncoder,
  AudioEncoderChange,
  AudioSource,
  FactoryResetMode,
  NetworkChange,
  NetworkChanged,
  NetworkInterface,
  Osd,
  OsdChange,
  OsdCreate,
  OsdOptions,
  VideoSource,
  VideoSourceChange,
} from "#schema/camera-config.ts"
import { deviceErrors } from "#schema/camera-device.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { Rpc } from "effect/rpc"

const errors = [CameraNotFound, DependencyUnavailable, ...deviceErrors] as const
const error = Schema.Union(errors)
/** Checked against the camera's options first. */
const changeError = Schema.Union([...errors, InvalidInput])
const token = Schema.String

export const configMessages = [
  Rpc.make("Osds", { success: Schema.Array(Osd), error }),
  Rpc.make("Osd", { payload: { token }, success: Osd, error }),
  Rpc.make("OsdOptions", { payload: { source: Schema.NullOr(token) }, success: OsdOptions, error }),
  Rpc.make("CreateOsd", { payload: { input: OsdCreate }, success: Osd, error: changeError }),
  Rpc.make("SetOsd", { payload: { token, change: OsdChange }, success: Osd, error: changeError }),
  Rpc.make("DeleteOsd", { payload: { token }, error }),
  Rpc.make("VideoSources", { success: Schema.Array(VideoSource), error }),
  Rpc.make("SetVideoSource", {
    payload: { token, change: VideoSourceChange },
    success: VideoSource,
    error: changeError,
  }),
  Rpc.make("AudioSources", { success: Schema.Array(AudioSource), error }),
  Rpc.make("AudioEncoders", { success: Schema.Array(AudioEncoder), error }),
  Rpc.make("SetAudioEncoder", {
    payload: { token, change: AudioEncoderChange },
    success: AudioEncoder,
    error: changeError,
  }),
  Rpc.make("NetworkInterfaces", { success: Schema.Array(NetworkInterface), error }),
  Rpc.make("SetNetworkInterface", {
    payload: { token, change: NetworkChange },
    success: NetworkChanged,
    error: changeError,
  }),
  Rpc.make("FactoryReset", { payload: { mode: FactoryResetMode, confirm: Schema.String }, error: changeError }),
  /** Where the device serves its picture: an address on its own host; and the profile it is of. */
  Rpc.make("Snapshot", {
    payload: { profile: Schema.NullOr(token) },
    success: Schema.Struct({ uri: Schema.String, profile: token }),
    error,
  }),
] as const
