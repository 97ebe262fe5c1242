/**
 * The camera service, as far as cameras are moved: what they can, moves, presets, home and tours.
 */
import { deviceErrors, DeviceToken, MediaProfile, PtzPreset, PtzVector } from "#schema/camera-device.ts"
import {
  HeldPtzStatus,
  NewPresetTour,
  PresetTour,
  PtzConfiguration,
  PtzHeld,
  PtzNode,
  PtzReset,
  PtzResetDone,
  TourOperation,
} from "#schema/camera-ptz.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { CameraId, Page } from "#schema/common.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { created, idempotencyKey } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/camera/api/v1/cameras/:id"
const params = { id: CameraId }
const tokenParams = { id: CameraId, token: DeviceToken }
const error = problems(CameraNotFound, DependencyUnavailable, ...deviceErrors)
/** Of what only the holder of the camera may do. */
const held = problems(CameraNotFound, DependencyUnavailable, PtzHeld, ...deviceErrors)
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

const onAbilities = [
  HttpApiEndpoint.get("mediaProfiles", `${base}/ptz/profiles`, { params, success: Page(MediaProfile), error })
    .annotateMerge(reads).annotateMerge(doc("List ONVIF profiles")),
  HttpApiEndpoint.get("ptzConfigurations", `${base}/ptz/configurations`, {
    params,
    success: Page(PtzConfiguration),
    error,
  }).annotateMerge(reads).annotateMerge(
    doc("List PTZ configurations", "Their limits and default speeds. What the camera does not tell is null."),
  ),
  HttpApiEndpoint.get("ptzNodes", `${base}/ptz/nodes`, { params, success: Page(PtzNode), error })
    .annotateMerge(reads).annotateMerge(
      doc("List PTZ nodes", "What moves, how far, and how many presets and tours it keeps."),
    ),
  HttpApiEndpoint.post("resetPtz", `${base}/ptz/reset`, {
    params,
    headers,
    payload: PtzReset.mapFields((fields) => ({
      profileToken,
      presets: Schema.optionalKey(fields.presets),
      tours: Schema.optionalKey(fields.tours),
    })),
    success: PtzResetDone,
    error: held,
  }).annotateMerge(writes).annotateMerge(
    doc(
      "Reset PTZ settings",
      "Stops the camera and takes the limits off its PTZ configuration, as far as its node goes. Presets and tours go only " +
        "where `presets` or `tours` asks for it.",
    ),
  ),
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
    error: held,
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
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Move to an absolute position", moveDoc)),
  HttpApiEndpoint.post("moveRelative", `${base}/ptz/move/relative`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, translation: PtzVector, speed: Schema.optionalKey(PtzVector) }),
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Move relative", moveDoc)),
  HttpApiEndpoint.post("stopMoving", `${base}/ptz/stop`, {
    params,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Stop PTZ")),
  HttpApiEndpoint.get("ptzStatus", `${base}/ptz/status`, { params, query, success: HeldPtzStatus, error })
    .annotateMerge(reads).annotateMerge(
      doc(
        "Get PTZ status",
        "What the camera does not tell is null. `holder`: who keeps others from moving it, and until when.",
      ),
    ),
] as const

const onPresets = [
  HttpApiEndpoint.get("presets", `${base}/ptz/presets`, { params, query, success: Page(PtzPreset), error })
    .annotateMerge(reads).annotateMerge(doc("List presets", "In the camera's order; names may repeat.")),
  HttpApiEndpoint.post("setPreset", `${base}/ptz/presets`, {
    params,
    headers,
    payload: Schema.Struct({ profileToken, name: PresetName, token: Schema.optionalKey(DeviceToken) }),
    success: created(Schema.Struct({ token: Schema.String, name: Schema.String })),
    error: held,
  }).annotateMerge(moves).annotateMerge(
    doc("Set a preset", "The position of this moment; with `token` that preset is replaced."),
  ),
  HttpApiEndpoint.delete("removePreset", `${base}/ptz/presets/:token`, {
    params: tokenParams,
    query,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Delete a preset")),
  HttpApiEndpoint.post("gotoPreset", `${base}/ptz/presets/:token/goto`, {
    params: tokenParams,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Go to a preset")),
  HttpApiEndpoint.put("setHome", `${base}/ptz/home`, {
    params,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Set the home position", "The position of this moment.")),
  HttpApiEndpoint.post("gotoHome", `${base}/ptz/home/goto`, {
    params,
    headers,
    payload: Profile,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Go to the home position")),
] as const

const onTours = [
  HttpApiEndpoint.get("tours", `${base}/ptz/tours`, { params, query, success: Page(PresetTour), error })
    .annotateMerge(reads).annotateMerge(doc("List preset tours", "Those that the camera keeps and runs by itself.")),
  HttpApiEndpoint.post("createTour", `${base}/ptz/tours`, {
    params,
    headers,
    payload: NewPresetTour.mapFields((fields) => ({
      ...fields,
      profileToken,
      autoStart: Schema.optionalKey(fields.autoStart),
    })),
    success: created(Schema.Struct({ token: Schema.String, name: Schema.String })),
    error: held,
  }).annotateMerge(moves).annotateMerge(
    doc(
      "Create a preset tour",
      "Goes from preset to preset in this order. `autoStart`: it begins when the camera starts.",
    ),
  ),
  HttpApiEndpoint.delete("removeTour", `${base}/ptz/tours/:token`, {
    params: tokenParams,
    query,
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(doc("Delete a preset tour")),
  HttpApiEndpoint.post("operateTour", `${base}/ptz/tours/:token/operate`, {
    params: tokenParams,
    headers,
    payload: Schema.Struct({ profileToken, operation: TourOperation }),
    success: HttpApiSchema.NoContent,
    error: held,
  }).annotateMerge(moves).annotateMerge(
    doc("Control a preset tour", "A tour that was started goes on when its starter has gone: the camera runs it."),
  ),
] as const

export class CameraPtzGroup extends HttpApiGroup.make("cameraPtz")
  .add(...onAbilities)
  .add(...onMoves)
  .add(...onPresets)
  .add(...onTours)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Camera movement",
    description:
      "Moving cameras, their presets, homes and tours. A camera that cannot move answers 501. One user moves a camera at a " +
      "time: whoever has a higher PTZ priority (of his roles) takes it over, everybody else is refused (409 `ptz_held`) until " +
      "its holder has done nothing for some seconds.",
  }))
{}
