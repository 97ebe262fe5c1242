/**
 * Moving a camera: the part of the entity `CameraDevice` that is about PTZ and focus.
 *
 * Invariants
 * 1. What moves the camera names who asks for it: the entity lets one at a time.
 * 2. Message tags are a storage format: renaming one is a migration.
 */
import { FocusMove } from "#schema/camera-config.ts"
import { deviceErrors, PtzPreset, PtzVector } from "#schema/camera-device.ts"
import {
  HeldPtzStatus,
  NewPresetTour,
  PresetTour,
  PtzConfiguration,
  PtzHeld,
  PtzNode,
  PtzReset,
  PtzResetDone,
  PtzUser,
  TourOperation,
} from "#schema/camera-ptz.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { Rpc } from "effect/rpc"

const errors = [CameraNotFound, DependencyUnavailable, ...deviceErrors] as const
const error = Schema.Union(errors)
/** Of what only the holder of the camera may do. */
const held = Schema.Union([...errors, PtzHeld])
const by = PtzUser
/** Token of a media profile; null: the first that can move. */
const profile = Schema.NullOr(Schema.String)
const token = Schema.String

export const ptzMessages = [
  Rpc.make("MoveContinuous", { payload: { by, profile, speed: PtzVector, timeoutMs: Schema.Int }, error: held }),
  Rpc.make("MoveAbsolute", {
    payload: { by, profile, position: PtzVector, speed: Schema.NullOr(PtzVector) },
    error: held,
  }),
  Rpc.make("MoveRelative", {
    payload: { by, profile, translation: PtzVector, speed: Schema.NullOr(PtzVector) },
    error: held,
  }),
  Rpc.make("StopMoving", { payload: { by, profile }, error: held }),
  Rpc.make("Status", { payload: { profile }, success: HeldPtzStatus, error }),
  Rpc.make("Presets", { payload: { profile }, success: Schema.Array(PtzPreset), error }),
  Rpc.make("SetPreset", {
    payload: { by, profile, name: Schema.String, token: Schema.NullOr(token) },
    success: token,
    error: held,
  }),
  Rpc.make("RemovePreset", { payload: { by, profile, token }, error: held }),
  Rpc.make("GotoPreset", { payload: { by, profile, token }, error: held }),
  Rpc.make("SetHome", { payload: { by, profile }, error: held }),
  Rpc.make("GotoHome", { payload: { by, profile }, error: held }),
  Rpc.make("PtzNodes", { success: Schema.Array(PtzNode), error }),
  Rpc.make("PtzConfigurations", { success: Schema.Array(PtzConfiguration), error }),
  Rpc.make("ResetPtz", { payload: { by, profile, forget: PtzReset }, success: PtzResetDone, error: held }),
  Rpc.make("Tours", { payload: { profile }, success: Schema.Array(PresetTour), error }),
  Rpc.make("CreateTour", { payload: { by, profile, tour: NewPresetTour }, success: token, error: held }),
  Rpc.make("RemoveTour", { payload: { by, profile, token }, error: held }),
  Rpc.make("OperateTour", { payload: { by, profile, token, operation: TourOperation }, error: held }),
] as const

export const focusMessages = [
  Rpc.make("MoveFocus", {
    payload: { by, source: token, move: FocusMove },
    error: Schema.Union([...errors, PtzHeld, InvalidInput]),
  }),
  Rpc.make("StopFocus", { payload: { by, source: token }, error: held }),
] as const
