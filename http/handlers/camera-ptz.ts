/** Handlers of the camera movement group: from the contract to {@link CameraDevices}, and nothing else. */
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CameraPtzGroup } from "../contract/camera-ptz.ts"
import { createdAt, nightjar } from "../contract/conventions.ts"

/** A pad that is held down repeats its command sooner. */
const moveMs = 2_000

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })
const of = ({ profileToken }: { readonly profileToken?: string }) => ({ profile: profileToken ?? null })

export const CameraPtzHandlers = HttpApiBuilder.group(
  nightjar.add(CameraPtzGroup),
  "cameraPtz",
  Effect.fnUntraced(function*(handlers) {
    const { ask } = yield* CameraDevices
    return handlers
      .handle("mediaProfiles", ({ params }) => Effect.map(ask(params.id, (camera) => camera.Profiles()), whole))
      .handle(
        "ptzConfigurations",
        ({ params }) => Effect.map(ask(params.id, (camera) => camera.PtzConfigurations()), whole),
      )
      .handle("ptzNodes", ({ params }) => Effect.map(ask(params.id, (camera) => camera.PtzNodes()), whole))
      .handle("resetPtz", ({ params, payload: { presets = false, tours = false, ...more } }) =>
        ask(params.id, (camera) => camera.ResetPtz({ ...of(more), forget: { presets, tours } })))
      .handle("moveContinuous", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.MoveContinuous({ ...of(payload), speed: payload.velocity, timeoutMs: payload.timeoutMs ?? moveMs })))
      .handle("moveAbsolute", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.MoveAbsolute({ ...of(payload), position: payload.position, speed: payload.speed ?? null })))
      .handle("moveRelative", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.MoveRelative({ ...of(payload), by: payload.translation, speed: payload.speed ?? null })))
      .handle("stopMoving", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.StopMoving(of(payload))))
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
          ask(params.id, (camera) => camera.SetPreset({ ...of(more), name, token })),
          (made) => createdAt(`/camera/api/v1/cameras/${params.id}/ptz/presets`, { token: made, name }),
        ))
      .handle("removePreset", ({ params: { id, token }, query }) =>
        ask(id, (camera) =>
          camera.RemovePreset({ ...of(query), token })))
      .handle("gotoPreset", ({ params: { id, token }, payload }) =>
        ask(id, (camera) =>
          camera.GotoPreset({ ...of(payload), token })))
      .handle("setHome", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.SetHome(of(payload))))
      .handle("gotoHome", ({ params, payload }) =>
        ask(params.id, (camera) =>
          camera.GotoHome(of(payload))))
      .handle("tours", ({ params, query }) =>
        Effect.map(
          ask(params.id, (camera) => camera.Tours(of(query))),
          whole,
        ))
      .handle(
        "createTour",
        ({ params, payload: { autoStart = false, name, spots, ...more } }) =>
          Effect.map(
            ask(params.id, (camera) => camera.CreateTour({ ...of(more), tour: { autoStart, name, spots } })),
            (token) => createdAt(`/camera/api/v1/cameras/${params.id}/ptz/tours`, { token, name }),
          ),
      )
      .handle(
        "removeTour",
        ({ params: { id, token }, query }) => ask(id, (camera) => camera.RemoveTour({ ...of(query), token })),
      )
      .handle(
        "operateTour",
        ({ params: { id, token }, payload: { operation, ...more } }) =>
          ask(id, (camera) => camera.OperateTour({ ...of(more), token, operation })),
      )
  }),
)
