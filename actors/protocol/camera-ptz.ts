/**
 * Moving a camera: the part of the entity `CameraDevice` that is about PTZ.
 *
 * Invariants
 * 1. Message tags are a storage format: renaming one is a migration.
 */
import { deviceErrors, PtzPreset, PtzStatus, PtzVector } from "#schema/camera-device.ts"
import {
  NewPresetTour,
  PresetTour,
  PtzConfiguration,
  PtzNode,
  PtzReset,
  PtzResetDone,
  TourOperation,
} from "#schema/camera-ptz.ts"
import { CameraNotFound } from "#schema/camera.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Schema } from "effect"
import { Rpc } from "effect/rpc"

const error = Schema.Union([CameraNotFound, DependencyUnavailable, ...deviceErrors])
/** Token of a media profile; null: the first that can move. */
const profile = Schema.NullOr(Schema.String)
const token = Schema.String

export const ptzMessages = [
  Rpc.make("MoveContinuous", { payload: { profile, speed: PtzVector, timeoutMs: Schema.Int }, error }),
  Rpc.make("MoveAbsolute", { payload: { profile, position: PtzVector, speed: Schema.NullOr(PtzVector) }, error }),
  Rpc.make("MoveRelative", { payload: { profile, by: PtzVector, speed: Schema.NullOr(PtzVector) }, error }),
  Rpc.make("StopMoving", { payload: { profile }, error }),
  Rpc.make("Status", { payload: { profile }, success: PtzStatus, error }),
  Rpc.make("Presets", { payload: { profile }, success: Schema.Array(PtzPreset), error }),
  Rpc.make("SetPreset", {
    payload: { profile, name: Schema.String, token: Schema.NullOr(token) },
    success: token,
    error,
  }),
  Rpc.make("RemovePreset", { payload: { profile, token }, error }),
  Rpc.make("GotoPreset", { payload: { profile, token }, error }),
  Rpc.make("SetHome", { payload: { profile }, error }),
  Rpc.make("GotoHome", { payload: { profile }, error }),
  Rpc.make("PtzNodes", { success: Schema.Array(PtzNode), error }),
  Rpc.make("PtzConfigurations", { success: Schema.Array(PtzConfiguration), error }),
  Rpc.make("ResetPtz", { payload: { profile, forget: PtzReset }, success: PtzResetDone, error }),
  Rpc.make("Tours", { payload: { profile }, success: Schema.Array(PresetTour), error }),
  Rpc.make("CreateTour", { payload: { profile, tour: NewPresetTour }, success: token, error }),
  Rpc.make("RemoveTour", { payload: { profile, token }, error }),
  Rpc.make("OperateTour", { payload: { profile, token, operation: TourOperation }, error }),
] as const
