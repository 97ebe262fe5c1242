/**
 * The camera service, as far as cameras are asked by their own protocol (ONVIF): capabilities, profiles, video encoders, PTZ.
 */
import {
  Capability,
  DeviceClock,
  DeviceClockChange,
  deviceErrors,
  DeviceToken,
  DiscoveredDevice,
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
import { CameraNotFound } from "#schema/camera.ts"
import { CameraId, Page } from "#schema/common.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras/:id"
const params = { id: CameraId }
const tokenParams = { id: CameraId, token: DeviceToken }
const error = problems(CameraNotFound, DependencyUnavailable, ...deviceErrors)
const camera = { on: { kind: "camera", param: "id" } } as const
const reads = access("camera:read", camera)
const writes = access("camera:write", camera)
const moves = access("camera:ptz", camera)
const headers = idempotencyKey

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

/** The first profile that can move, if left out. */
const profileToken = Schema.optionalKey(DeviceToken)
const query = { profileToken }
const Profile = Schema.Struct({ profileToken })
const PresetName = Schema.String.check(Schema.isTrimmed(), Schema.isMinLength(1), Schema.isMaxLength(64))

/** How long a search listens, in milliseconds; cameras answer within half a second as a rule. */
const SearchTime = Schema.Int.check(Schema.isBetween({ minimum: 500, maximum: 10_000 }))

const onDevice = [
  HttpApiEndpoint.post("discoverCameras", "/camera/api/v1/cameras/discover", {
    payload: Schema.Struct({ waitMs: Schema.optionalKey(SearchTime) }),
    success: Page(DiscoveredDevice),
    error: problems(DependencyUnavailable),
  }).annotateMerge(access("camera:write", { on: "everything" })).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Discover ONVIF cameras",
      "Asks all networks of this node by WS-Discovery and listens for `waitMs` (3000 if left out). `host` is where the answer " +
        "came from; `cameraId` tells the camera that is added at that address already. Names are the devices' own words.",
    ),
  ),
  HttpApiEndpoint.get("capabilities", `${base}/capabilities`, { params, success: Page(Capability), error })
    .annotateMerge(reads).annotateMerge(
      doc(
        "Get camera capabilities",
        "As the camera tells them, each with what it is known from. `unverified`: it says so.",
      ),
    ),
  HttpApiEndpoint.get("mediaProfiles", `${base}/ptz/profiles`, { params, success: Page(MediaProfile), error })
    .annotateMerge(reads).annotateMerge(doc("List ONVIF profiles")),
] as const

const encoders = `${base}/config/video/encoder`
const onEncoders = [
  HttpApiEndpoint.get("videoEncoders", encoders, { params, success: Page(VideoEncoder), error }).annotateMerge(reads)
    .annotateMerge(doc("List video encoder configurations")),
  HttpApiEndpoint.get("videoEncoder", `${encoders}/:token`, { params: tokenParams, success: VideoEncoder, error })
    .annotateMerge(reads).annotateMerge(
      doc("Get one video encoder configuration", "409 `camera_refused` where the camera has no such encoder."),
    ),
  HttpApiEndpoint.put("setVideoEncoder", `${encoders}/:token`, {
    params: tokenParams,
    payload: VideoEncoderChange,
    success: VideoEncoder,
    error: problems(CameraNotFound, DependencyUnavailable, InvalidInput, ...deviceErrors),
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Change a video encoder configuration",
      "What is left out stays. Checked against the options first: 422 names what the camera allows. Answers what the camera " +
        "has then.",
    ),
  ),
  HttpApiEndpoint.get("videoEncoderOptions", `${encoders}/:token/options`, {
    params: tokenParams,
    success: VideoEncoderOptions,
    error,
  }).annotateMerge(reads).annotateMerge(
    doc("Get video encoder options (supported ranges)", "A range that the camera does not tell is null."),
  ),
] as const

const sourceParams = { id: CameraId, video_source_token: DeviceToken }
const imaging = `${base}/config/imaging/:video_source_token`
const onImaging = [
  HttpApiEndpoint.get("imaging", imaging, { params: sourceParams, success: ImagingSettings, error }).annotateMerge(
    reads,
  )
    .annotateMerge(doc("Get imaging settings", "On the camera's own scale; what it does not offer is null.")),
  HttpApiEndpoint.put("setImaging", imaging, {
    params: sourceParams,
    payload: ImagingChange,
    success: ImagingSettings,
    error: problems(CameraNotFound, DependencyUnavailable, InvalidInput, ...deviceErrors),
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Change imaging settings",
      "What is left out stays. Checked against the options first: 422 names what is allowed.",
    ),
  ),
  HttpApiEndpoint.get("imagingOptions", `${imaging}/options`, { params: sourceParams, success: ImagingOptions, error })
    .annotateMerge(reads).annotateMerge(doc("Get imaging options (supported ranges)")),
] as const

const onClock = [
  HttpApiEndpoint.get("deviceClock", `${base}/config/device/datetime`, { params, success: DeviceClock, error })
    .annotateMerge(reads).annotateMerge(doc("Get system date and time")),
  HttpApiEndpoint.put("setDeviceClock", `${base}/config/device/datetime`, {
    params,
    payload: DeviceClockChange,
    success: DeviceClock,
    error,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Set system date and time",
      "`manual` without `utc` sets the time of this node. Answers what the camera's clock is then.",
    ),
  ),
  HttpApiEndpoint.post("rebootDevice", `${base}/config/device/reboot`, {
    params,
    headers,
    success: Schema.Struct({ message: Schema.String }),
    error,
  }).annotateMerge(writes).annotateMerge(doc("Reboot the device", "`message` is the camera's own.")),
] as const

/** A move whose operator vanished ends within this, in milliseconds. */
const MoveTime = Schema.Int.check(Schema.isBetween({ minimum: 100, maximum: 10_000 }))
const moveDoc = "From -1 to 1 on ONVIF's generic scale; what is left out stays."

const onMoves = [
  HttpApiEndpoint.post("moveContinuous", `${base}/ptz/move/continuous`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, velocity: PtzVector, timeoutMs: Schema.optionalKey(MoveTime) }),
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(
    doc(
      "Start continuous movement",
      "Speeds from -1 to 1. The camera stops by itself after `timeoutMs` (2000 if left out): whoever goes on moving repeats it.",
    ),
  ),
  HttpApiEndpoint.post("moveAbsolute", `${base}/ptz/move/absolute`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, position: PtzVector, speed: Schema.optionalKey(PtzVector) }),
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Move to an absolute position", moveDoc)),
  HttpApiEndpoint.post("moveRelative", `${base}/ptz/move/relative`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, translation: PtzVector, speed: Schema.optionalKey(PtzVector) }),
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Move relative", moveDoc)),
  HttpApiEndpoint.post("stopMoving", `${base}/ptz/stop`, {
    params,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Stop PTZ")),
  HttpApiEndpoint.get("ptzStatus", `${base}/ptz/status`, { params, query, success: PtzStatus, error })
    .annotateMerge(reads).annotateMerge(doc("Get PTZ status", "What the camera does not tell is null.")),
] as const

const onPresets = [
  HttpApiEndpoint.get("presets", `${base}/ptz/presets`, { params, query, success: Page(PtzPreset), error })
    .annotateMerge(reads).annotateMerge(doc("List presets", "In the camera's order; names may repeat.")),
  HttpApiEndpoint.post("setPreset", `${base}/ptz/presets`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, name: PresetName, token: Schema.optionalKey(DeviceToken) }),
    success: created(Schema.Struct({ token: Schema.String, name: Schema.String })),
    error,
  }).annotateMerge(moves).annotateMerge(
    doc("Set a preset", "The position of this moment; with `token` that preset is replaced."),
  ),
  HttpApiEndpoint.delete("removePreset", `${base}/ptz/presets/:token`, {
    params: tokenParams,
    query,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Delete a preset")),
  HttpApiEndpoint.post("gotoPreset", `${base}/ptz/presets/:token/goto`, {
    params: tokenParams,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Go to a preset")),
  HttpApiEndpoint.put("setHome", `${base}/ptz/home`, {
    params,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Set the home position", "The position of this moment.")),
  HttpApiEndpoint.post("gotoHome", `${base}/ptz/home/goto`, {
    params,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(moves).annotateMerge(doc("Go to the home position")),
] as const

export class CameraDeviceGroup extends HttpApiGroup.make("cameraDevice")
  .add(...onDevice)
  .add(...onEncoders)
  .add(...onImaging)
  .add(...onClock)
  .add(...onMoves)
  .add(...onPresets)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Camera devices",
    description: "What cameras are asked and told by their own protocol. A camera without one answers 501.",
  }))
{}
