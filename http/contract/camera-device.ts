/**
 * The camera service, as far as cameras are asked by their own protocol (ONVIF): finding them, video encoders,
 * imaging, the clock. How they are moved stands in `camera-ptz.ts`.
 */
import {
  DeviceClock,
  DeviceClockChange,
  deviceErrors,
  DeviceToken,
  DiscoveredDevice,
  ImagingChange,
  ImagingOptions,
  ImagingSettings,
  VideoEncoder,
  VideoEncoderChange,
  VideoEncoderOptions,
} from "#schema/camera-device.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { CameraId, Page } from "#schema/common.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras/:id"
const params = { id: CameraId }
const tokenParams = { id: CameraId, token: DeviceToken }
const error = problems(CameraNotFound, DependencyUnavailable, ...deviceErrors)
const camera = { on: { kind: "camera", param: "id" } } as const
const reads = access("camera:read", camera)
const writes = access("camera:write", camera)
const headers = idempotencyKey

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

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

export class CameraDeviceGroup extends HttpApiGroup.make("cameraDevice")
  .add(...onDevice)
  .add(...onEncoders)
  .add(...onImaging)
  .add(...onClock)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Camera devices",
    description: "What cameras are asked and told by their own protocol. A camera without one answers 501.",
  }))
{}
