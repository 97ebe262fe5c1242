/** Handlers of the camera devices group: from the contract to {@link CameraDevices}, and nothing else. */
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { CameraDeviceGroup } from "../contract/camera-device.ts"
import { nightjar } from "../contract/conventions.ts"

/** Twice what the slowest of well-behaved devices may take (SOAP over UDP lets them wait half a second). */
const searchMs = 3_000

const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

export const CameraDeviceHandlers = HttpApiBuilder.group(
  nightjar.add(CameraDeviceGroup),
  "cameraDevice",
  Effect.fnUntraced(function*(handlers) {
    const { ask, discover } = yield* CameraDevices
    return handlers
      .handle("discoverCameras", ({ payload }) => Effect.map(discover(payload.waitMs ?? searchMs), whole))
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
  }),
)
