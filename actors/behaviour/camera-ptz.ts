/**
 * The part of the entity `CameraDevice` that moves the camera.
 */
import type { ptzMessages } from "#actors/protocol/camera-ptz.ts"
import type { Device } from "#media/device.ts"
import type { CameraUnreachable, DeviceError } from "#schema/camera-device.ts"
import type { PtzReset } from "#schema/camera-ptz.ts"
import type { CameraNotFound } from "#schema/camera.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Effect } from "effect"
import type { Entity } from "effect/cluster"

/** Does something with the device, connected if need be. `operation` is what a camera that cannot be asked is told to lack. */
export type OnDevice = <A, E extends { readonly _tag: string }>(
  operation: string,
  work: (device: Device) => Effect.Effect<A, E>,
) => Effect.Effect<A, E | DeviceError | CameraUnreachable | CameraNotFound | DependencyUnavailable>

const resetting = (profile: string | null, forget: PtzReset) =>
  Effect.fnUntraced(function*({ ptz, tours }: Device) {
    yield* ptz.stop(profile)
    const configuration = yield* tours.widen(profile)
    const keptTours = forget.tours ? yield* tours.tours(profile) : []
    yield* Effect.forEach(keptTours, ({ token }) => tours.removeTour(profile, token), { discard: true })
    const keptPresets = forget.presets ? yield* ptz.presets(profile) : []
    yield* Effect.forEach(keptPresets, ({ token }) => ptz.removePreset(profile, token), { discard: true })
    return { configuration, removedPresets: keptPresets.length, removedTours: keptTours.length }
  })

export const ptzHandlers = (on: OnDevice) => ({
  MoveContinuous: ({ payload: { profile, speed, timeoutMs } }) =>
    on("moving", ({ ptz }) => ptz.moveContinuous(profile, speed, timeoutMs)),
  MoveAbsolute: ({ payload: { position, profile, speed } }) =>
    on("moving", ({ ptz }) => ptz.moveAbsolute(profile, position, speed)),
  MoveRelative: ({ payload: { by, profile, speed } }) =>
    on("moving", ({ ptz }) => ptz.moveRelative(profile, by, speed)),
  StopMoving: ({ payload: { profile } }) => on("moving", ({ ptz }) => ptz.stop(profile)),
  Status: ({ payload: { profile } }) => on("moving", ({ ptz }) => ptz.status(profile)),
  Presets: ({ payload: { profile } }) => on("presets", ({ ptz }) => ptz.presets(profile)),
  SetPreset: ({ payload: { name, profile, token } }) => on("presets", ({ ptz }) => ptz.setPreset(profile, name, token)),
  RemovePreset: ({ payload: { profile, token } }) => on("presets", ({ ptz }) => ptz.removePreset(profile, token)),
  GotoPreset: ({ payload: { profile, token } }) => on("presets", ({ ptz }) => ptz.gotoPreset(profile, token)),
  SetHome: ({ payload: { profile } }) => on("a home position", ({ ptz }) => ptz.setHome(profile)),
  GotoHome: ({ payload: { profile } }) => on("a home position", ({ ptz }) => ptz.gotoHome(profile)),
  PtzNodes: () => on("moving", ({ tours }) => tours.nodes),
  PtzConfigurations: () => on("moving", ({ tours }) => tours.configurations),
  ResetPtz: ({ payload: { forget, profile } }) => on("moving", resetting(profile, forget)),
  Tours: ({ payload: { profile } }) => on("tours", ({ tours }) => tours.tours(profile)),
  CreateTour: ({ payload: { profile, tour } }) => on("tours", ({ tours }) => tours.createTour(profile, tour)),
  RemoveTour: ({ payload: { profile, token } }) => on("tours", ({ tours }) => tours.removeTour(profile, token)),
  OperateTour: ({ payload: { operation, profile, token } }) =>
    on("tours", ({ tours }) => tours.operateTour(profile, token, operation)),
} satisfies Entity.HandlersFrom<(typeof ptzMessages)[number]>)
