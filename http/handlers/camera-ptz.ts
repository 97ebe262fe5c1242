/** Handlers of the camera movement group: from the contract to {@link CameraDevices}, and nothing else. */
import { type CameraDeviceClient, CameraDevices } from "#actors/protocol/camera-device.ts"
import type { PtzUser } from "#schema/camera-ptz.ts"
import type { CameraId } from "#schema/common.ts"
import { ptzPriorityOf } from "#schema/permission.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { currentUser } from "../contract/access.ts"
import { CameraPtzGroup } from "../contract/camera-ptz.ts"
import { createdAt, nightjar } from "../contract/conventions.ts"

/** A pad that is held down repeats its command sooner. */
const moveMs = 2_000

/** Asks a camera in the name of the caller. */
export const askAsCaller =
  (ask: CameraDevices["Service"]["ask"]) =>
  <A, E extends { readonly _tag: string }>(
    id: CameraId,
    message: (camera: CameraDeviceClient, by: PtzUser) => Effect.Effect<A, E>,
  ) =>
    Effect.flatMap(
      currentUser,
      ({ grants, sessionId, userId, username }) =>
        ask(id, (camera) => message(camera, { userId, username, sessionId, priority: ptzPriorityOf(grants) })),
    )

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })
const of = ({ profileToken }: { readonly profileToken?: string }) => ({ profile: profileToken ?? null })

export const CameraPtzHandlers = HttpApiBuilder.group(
  nightjar.add(CameraPtzGroup),
  "cameraPtz",
  Effect.fnUntraced(function*(handlers) {
    const { ask } = yield* CameraDevices
    const askAs = askAsCaller(ask)
    return handlers
      .handle("mediaProfiles", ({ params }) => Effect.map(ask(params.id, (camera) => camera.Profiles()), whole))
      .handle(
        "ptzConfigurations",
        ({ params }) => Effect.map(ask(params.id, (camera) => camera.PtzConfigurations()), whole),
      )
      .handle("ptzNodes", ({ params }) => Effect.map(ask(params.id, (camera) => camera.PtzNodes()), whole))
      .handle("resetPtz", ({ params, payload: { presets = false, tours = false, ...more } }) =>
        askAs(params.id, (camera, by) => camera.ResetPtz({ by, ...of(more), forget: { presets, tours } })))
      .handle("moveContinuous", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.MoveContinuous({
            by,
            ...of(payload),
            speed: payload.velocity,
            timeoutMs: payload.timeoutMs ?? moveMs,
          })))
      .handle("moveAbsolute", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.MoveAbsolute({ by, ...of(payload), position: payload.position, speed: payload.speed ?? null })))
      .handle("moveRelative", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.MoveRelative({
            by,
            ...of(payload),
            translation: payload.translation,
            speed: payload.speed ?? null,
          })))
      .handle("stopMoving", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.StopMoving({ by, ...of(payload) })))
      .handle("ptzStatus", ({ params, query }) =>
        ask(params.id, (camera) =>
          camera.Status(of(query))))
      .handle("presets", ({ params, query }) =>
        Effect.map(
          ask(params.id, (camera) => camera.Presets(of(query))),
          whole,
        ))
      .handle("setPreset", ({ params, payload: { name, token = null, ...more } }) =>
        Effect.map(
          askAs(params.id, (camera, by) => camera.SetPreset({ by, ...of(more), name, token })),
          (made) => createdAt(`/camera/api/v1/cameras/${params.id}/ptz/presets`, { token: made, name }),
        ))
      .handle("removePreset", ({ params: { id, token }, query }) =>
        askAs(id, (camera, by) =>
          camera.RemovePreset({ by, ...of(query), token })))
      .handle("gotoPreset", ({ params: { id, token }, payload }) =>
        askAs(id, (camera, by) =>
          camera.GotoPreset({ by, ...of(payload), token })))
      .handle("setHome", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.SetHome({ by, ...of(payload) })))
      .handle("gotoHome", ({ params, payload }) =>
        askAs(params.id, (camera, by) =>
          camera.GotoHome({ by, ...of(payload) })))
      .handle("tours", ({ params, query }) =>
        Effect.map(
          ask(params.id, (camera) => camera.Tours(of(query))),
          whole,
        ))
      .handle("createTour", ({ params, payload: { autoStart = false, name, spots, ...more } }) =>
        Effect.map(
          askAs(params.id, (camera, by) => camera.CreateTour({ by, ...of(more), tour: { autoStart, name, spots } })),
          (token) => createdAt(`/camera/api/v1/cameras/${params.id}/ptz/tours`, { token, name }),
        ))
      .handle("removeTour", ({ params: { id, token }, query }) =>
        askAs(id, (camera, by) =>
          camera.RemoveTour({ by, ...of(query), token })))
      .handle("operateTour", ({ params: { id, token }, payload: { operation, ...more } }) =>
        askAs(id, (camera, by) =>
          camera.OperateTour({ by, ...of(more), token, operation })))
  }),
)
