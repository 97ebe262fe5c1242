/** Handlers of the camera devices group: from the contract to {@link CameraDevices}, and nothing else. */
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CameraDeviceGroup } from "../contract/camera-device.ts"
import { createdAt, nightjar } from "../contract/conventions.ts"

/** A pad that is held down repeats its command sooner. */
const moveMs = 2_000
/** Twice what the slowest of well-behaved devices may take (SOAP over UDP lets them wait half a second). */
const searchMs = 3_000

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })
const of = ({ profileToken }: { readonly profileToken?: string }) => ({ profile: profileToken ?? null })

export const CameraDeviceHandlers = HttpApiBuilder.group(
  nightjar.add(CameraDeviceGroup),
  "cameraDevice",
  Effect.fnUntraced(function*(handlers) {
    const { ask, discover } = yield* CameraDevices
    return handlers
      .handle("discoverCameras", ({ payload }) => Effect.map(discover(payload.waitMs ?? searchMs), whole))
      .handle("capabilities", ({ params }) => Effect.map(ask(params.id, (camera) => camera.Capabilities()), whole))
      .handle("mediaProfiles", ({ params }) => Effect.map(ask(params.id, (camera) => camera.Profiles()), whole))
      .handle("videoEncoders", ({ params }) => Effect.map(ask(params.id, (camera) => camera.VideoEncoders()), whole))
      .handle("videoEncoder", ({ params: { id, token } }) => ask(id, (camera) => camera.VideoEncoder({ token })))
      .handle(
        "setVideoEncoder",
        ({ params: { id, token }, payload }) => ask(id, (camera) => camera.SetVideoEncoder({ token, change: payload })),
      )
      .handle(
        "videoEncoderOptions",
        ({ params: { id, token } }) => ask(id, (camera) => camera.VideoEncoderOptions({ token })),
      )
      .handle(
        "imaging",
        ({ params: { id, video_source_token: source } }) => ask(id, (camera) => camera.Imaging({ source })),
      )
      .handle("setImaging", ({ params: { id, video_source_token: source }, payload }) =>
        ask(id, (camera) => camera.SetImaging({ source, change: payload })))
      .handle("imagingOptions", ({ params: { id, video_source_token: source } }) =>
        ask(id, (camera) =>
          camera.ImagingOptions({ source })))
      .handle("deviceClock", ({ params }) =>
        ask(params.id, (camera) =>
          camera.ReadClock()))
      .handle(
        "setDeviceClock",
        ({ params, payload }) => ask(params.id, (camera) => camera.SetClock({ change: payload })),
      )
      .handle("rebootDevice", ({ params }) => ask(params.id, (camera) => camera.Reboot()))
      .handle(
        "moveContinuous",
        ({ params, payload }) =>
          ask(params.id, (camera) =>
            camera.MoveContinuous({ ...of(payload), speed: payload.velocity, timeoutMs: payload.timeoutMs ?? moveMs })),
      )
      .handle(
        "moveAbsolute",
        ({ params, payload }) =>
          ask(params.id, (camera) =>
            camera.MoveAbsolute({ ...of(payload), position: payload.position, speed: payload.speed ?? null })),
      )
      .handle(
        "moveRelative",
        ({ params, payload }) =>
          ask(params.id, (camera) =>
            camera.MoveRelative({ ...of(payload), by: payload.translation, speed: payload.speed ?? null })),
      )
      .handle("stopMoving", ({ params, payload }) => ask(params.id, (camera) => camera.StopMoving(of(payload))))
      .handle("ptzStatus", ({ params, query }) => ask(params.id, (camera) => camera.Status(of(query))))
      .handle(
        "presets",
        ({ params, query }) => Effect.map(ask(params.id, (camera) => camera.Presets(of(query))), whole),
      )
      .handle(
        "setPreset",
        ({ params, payload: { name, token = null, ...more } }) =>
          Effect.map(ask(params.id, (camera) => camera.SetPreset({ ...of(more), name, token })), (made) =>
            createdAt(`/camera/api/v1/cameras/${params.id}/ptz/presets`, { token: made, name })),
      )
      .handle(
        "removePreset",
        ({ params: { id, token }, query }) => ask(id, (camera) => camera.RemovePreset({ ...of(query), token })),
      )
      .handle(
        "gotoPreset",
        ({ params: { id, token }, payload }) => ask(id, (camera) => camera.GotoPreset({ ...of(payload), token })),
      )
      .handle("setHome", ({ params, payload }) => ask(params.id, (camera) => camera.SetHome(of(payload))))
      .handle("gotoHome", ({ params, payload }) => ask(params.id, (camera) => camera.GotoHome(of(payload))))
  }),
)
