/**
 * The camera service, as far as cameras are set up by their own protocol (ONVIF): OSDs, sources, audio encoders, focus, network, factory
 * defaults; and the picture that a camera serves by itself.
 */
import {
  AudioEncoder,
  AudioEncoderChange,
  AudioSource,
  FactoryReset,
  FactoryResetMode,
  FocusMove,
  NetworkChange,
  NetworkChanged,
  NetworkInterface,
  Osd,
  OsdChange,
  OsdCreate,
  OsdOptions,
  SnapshotUri,
  VideoSource,
  VideoSourceChange,
} from "#schema/camera-config.ts"
import { deviceErrors, DeviceToken } from "#schema/camera-device.ts"
import { PtzHeld } from "#schema/camera-ptz.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { CameraId, Page } from "#schema/common.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { created, extension, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras/:id"
const config = `${base}/config`
const params = { id: CameraId }
const tokenParams = { id: CameraId, token: DeviceToken }
const focusParams = { id: CameraId, video_source_token: DeviceToken }
const error = problems(CameraNotFound, DependencyUnavailable, ...deviceErrors)
const changeError = problems(CameraNotFound, DependencyUnavailable, InvalidInput, ...deviceErrors)
const camera = { on: { kind: "camera", param: "id" } } as const
const reads = access("camera:read", camera)
const writes = access("camera:write", camera)
const headers = idempotencyKey

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const bounded =
  "What is left out stays. Checked against the camera's options first: 422 names what it allows. Answers what the " +
  "camera has then."

const onOsd = [
  HttpApiEndpoint.get("osds", `${config}/osd`, { params, success: Page(Osd), error }).annotateMerge(reads)
    .annotateMerge(doc("List OSDs", "Texts and pictures that the camera draws into its image.")),
  HttpApiEndpoint.post("createOsd", `${config}/osd`, {
    params,
    headers,
    payload: OsdCreate,
    success: created(Osd),
    error: changeError,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Create an OSD",
      "`sourceToken` is that of a video source configuration; the first, if left out. Checked against the camera's options first, " +
        "the number of OSDs included: 422 names what it allows.",
    ),
  ),
  HttpApiEndpoint.get("osdOptions", `${config}/osd/options`, {
    params,
    query: { sourceToken: Schema.optionalKey(DeviceToken) },
    success: OsdOptions,
    error,
  }).annotateMerge(reads).annotateMerge(
    doc("Get OSD options (supported ranges)", "An empty list, or null: the camera does not say."),
  ),
  HttpApiEndpoint.get("osd", `${config}/osd/:token`, { params: tokenParams, success: Osd, error }).annotateMerge(reads)
    .annotateMerge(doc("Get one OSD", "409 `camera_refused` where the camera has no such OSD.")),
  HttpApiEndpoint.put("setOsd", `${config}/osd/:token`, {
    params: tokenParams,
    payload: OsdChange,
    success: Osd,
    error: changeError,
  }).annotateMerge(writes).annotateMerge(doc("Change an OSD", bounded)),
  HttpApiEndpoint.delete("deleteOsd", `${config}/osd/:token`, {
    params: tokenParams,
    success: HttpApiSchema.NoContent,
    error,
  }).annotateMerge(writes).annotateMerge(doc("Delete an OSD")),
] as const

const onSources = [
  HttpApiEndpoint.get("videoSources", `${config}/video/source`, { params, success: Page(VideoSource), error })
    .annotateMerge(reads).annotateMerge(doc("List video source configurations")),
  HttpApiEndpoint.put("setVideoSource", `${config}/video/source/:token`, {
    params: tokenParams,
    payload: VideoSourceChange,
    success: VideoSource,
    error: changeError,
  }).annotateMerge(writes).annotateMerge(doc("Change a video source configuration", bounded)),
  HttpApiEndpoint.get("audioSources", `${config}/audio/source`, { params, success: Page(AudioSource), error })
    .annotateMerge(reads).annotateMerge(doc("List audio source configurations")),
  HttpApiEndpoint.get("audioEncoders", `${config}/audio/encoder`, { params, success: Page(AudioEncoder), error })
    .annotateMerge(reads).annotateMerge(doc("List audio encoder configurations")),
  HttpApiEndpoint.put("setAudioEncoder", `${config}/audio/encoder/:token`, {
    params: tokenParams,
    payload: AudioEncoderChange,
    success: AudioEncoder,
    error: changeError,
  }).annotateMerge(writes).annotateMerge(doc("Change an audio encoder configuration", bounded)),
] as const

const focus = `${config}/imaging/:video_source_token/focus`
const moves = access("camera:ptz", camera)
const onFocus = [
  HttpApiEndpoint.post("moveFocus", `${focus}/move`, {
    params: focusParams,
    headers,
    payload: FocusMove,
    success: HttpApiSchema.NoContent,
    error: problems(CameraNotFound, DependencyUnavailable, InvalidInput, PtzHeld, ...deviceErrors),
  }).annotateMerge(moves).annotateMerge(
    doc(
      "Move focus",
      "On the camera's own scales; checked against its move options first: 422 names what it allows, 501 where it has no such move. " +
        "A `continuous` move is stopped after `timeoutMs` (2000 if left out) or with the caller's session: whoever goes on moving " +
        "repeats it. Focus belongs to whoever moves the camera: 409 `ptz_held` for everybody else.",
    ),
  ),
  HttpApiEndpoint.post("stopFocus", `${focus}/stop`, {
    params: focusParams,
    headers,
    success: HttpApiSchema.NoContent,
    error: problems(CameraNotFound, DependencyUnavailable, PtzHeld, ...deviceErrors),
  }).annotateMerge(moves).annotateMerge(doc("Stop focus")),
] as const

const onNetwork = [
  HttpApiEndpoint.get("networkInterfaces", `${config}/device/network`, {
    params,
    success: Page(NetworkInterface),
    error,
  }).annotateMerge(reads).annotateMerge(doc("Get network interfaces")),
  HttpApiEndpoint.put("setNetworkInterface", `${config}/device/network/:token`, {
    params: tokenParams,
    payload: NetworkChange,
    success: NetworkChanged,
    error: changeError,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Change a network interface configuration",
      "What is left out stays. Afterwards the camera may be found at another address only: the answer tells whether it needs a " +
        "restart first (`rebootNeeded`), whether its address changes, and that its `host` has to be changed then (`PUT " +
        "/camera/api/v1/cameras/{id}`). 503 where no answer came: the camera may have taken the change nevertheless.",
    ),
  ),
  HttpApiEndpoint.post("factoryReset", `${config}/device/factory-reset`, {
    params,
    headers,
    payload: FactoryReset,
    success: Schema.Struct({ mode: FactoryResetMode, advice: Schema.String }),
    error: changeError,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Factory reset",
      "Dangerous: the camera loses its settings, `hard` also its network settings and users, and cannot be reached until somebody sets " +
        "it up at the camera's own site. It cannot be taken back, and a path is easily that of another camera; hence `confirm` must " +
        "be the name or the id of this one (422 otherwise).",
    ),
  ),
] as const

const snapshotQuery = { profileToken: Schema.optionalKey(DeviceToken) }
const onSnapshot = [
  HttpApiEndpoint.get("snapshotUri", `${base}/snapshot-uri`, {
    params,
    query: snapshotQuery,
    success: SnapshotUri,
    error,
  }).annotateMerge(reads).annotateMerge(
    doc(
      "Get the camera snapshot URI",
      "A path on this server, where the camera's picture is passed on with the camera's own credentials; 501 where the camera " +
        "serves no pictures. Of the first profile with a picture, if `profileToken` is left out.",
    ),
  ),
  HttpApiEndpoint.get("snapshot", `${base}/snapshot`, {
    params,
    query: snapshotQuery,
    success: Schema.Uint8Array.pipe(HttpApiSchema.asUint8Array({ contentType: "image/jpeg" })),
    error,
  }).annotateMerge(extension).annotateMerge(access("camera:live", camera)).annotateMerge(
    doc(
      "Get the camera's picture",
      "A JPEG (or PNG) of at most 8 MiB as the camera serves it, at most a second old. 503 `camera_unreachable` where it answers " +
        "something else.",
    ),
  ),
] as const

export class CameraConfigGroup extends HttpApiGroup.make("cameraConfig")
  .add(...onOsd)
  .add(...onSources)
  .add(...onFocus)
  .add(...onNetwork)
  .add(...onSnapshot)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Camera configuration",
    description: "What cameras are set to by their own protocol. A camera without one answers 501.",
  }))
{}
