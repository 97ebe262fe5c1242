/** Handlers of the camera configuration group: from the contract to {@link CameraDevices}, and nothing else. */
import { CameraDevices } from "#actors/protocol/camera-device.ts"
import type { FactoryResetMode } from "#schema/camera-config.ts"
import { Effect } from "effect"
import { HttpServerResponse } from "effect/http"
import { HttpApiBuilder } from "effect/http-api"
import { CameraConfigGroup } from "../contract/camera-config.ts"
import { createdAt, nightjar } from "../contract/conventions.ts"
import { askAsCaller } from "./camera-ptz.ts"
import { auditDetail } from "./http-audit.ts"

const base = "/camera/api/v1/cameras"
const whole = <A>(items: ReadonlyArray<A>) => ({ items, nextCursor: null })

const resetAdvice: Readonly<Record<FactoryResetMode, string>> = {
  soft:
    "The camera restarts with the settings of its maker, network settings excepted. Check its user and password here.",
  hard:
    "The camera restarts with all settings of its maker, network settings and users included. Find it by discovery, set a " +
    "password at the camera, and change its host, user name and password here.",
}

export const CameraConfigHandlers = HttpApiBuilder.group(
  nightjar.add(CameraConfigGroup),
  "cameraConfig",
  Effect.fnUntraced(function*(handlers) {
    const { ask, picture } = yield* CameraDevices
    const askAs = askAsCaller(ask)
    return handlers
      .handle("osds", ({ params }) => Effect.map(ask(params.id, (camera) => camera.Osds()), whole))
      .handle("createOsd", ({ params: { id }, payload }) =>
        Effect.map(ask(id, (camera) => camera.CreateOsd({ input: payload })), (made) =>
          createdAt(`${base}/${id}/config/osd/${encodeURIComponent(made.token)}`, made)))
      .handle("osdOptions", ({ params, query }) =>
        ask(params.id, (camera) =>
          camera.OsdOptions({ source: query.sourceToken ?? null })))
      .handle("osd", ({ params: { id, token } }) =>
        ask(id, (camera) =>
          camera.Osd({ token })))
      .handle(
        "setOsd",
        ({ params: { id, token }, payload }) => ask(id, (camera) => camera.SetOsd({ token, change: payload })),
      )
      .handle("deleteOsd", ({ params: { id, token } }) => ask(id, (camera) => camera.DeleteOsd({ token })))
      .handle("videoSources", ({ params }) => Effect.map(ask(params.id, (camera) => camera.VideoSources()), whole))
      .handle(
        "setVideoSource",
        ({ params: { id, token }, payload }) => ask(id, (camera) => camera.SetVideoSource({ token, change: payload })),
      )
      .handle("audioSources", ({ params }) => Effect.map(ask(params.id, (camera) => camera.AudioSources()), whole))
      .handle("audioEncoders", ({ params }) => Effect.map(ask(params.id, (camera) => camera.AudioEncoders()), whole))
      .handle(
        "setAudioEncoder",
        ({ params: { id, token }, payload }) => ask(id, (camera) => camera.SetAudioEncoder({ token, change: payload })),
      )
      .handle(
        "moveFocus",
        ({ params: { id, video_source_token: source }, payload }) =>
          askAs(id, (camera, by) => camera.MoveFocus({ by, source, move: payload })),
      )
      .handle(
        "stopFocus",
        ({ params: { id, video_source_token: source } }) => askAs(id, (camera, by) => camera.StopFocus({ by, source })),
      )
      .handle(
        "networkInterfaces",
        ({ params }) => Effect.map(ask(params.id, (camera) => camera.NetworkInterfaces()), whole),
      )
      .handle(
        "setNetworkInterface",
        ({ params: { id, token }, payload }) =>
          Effect.andThen(
            auditDetail({ interface: token, change: payload }),
            ask(id, (camera) => camera.SetNetworkInterface({ token, change: payload })),
          ),
      )
      .handle(
        "factoryReset",
        ({ params, payload: { confirm, mode } }) =>
          Effect.as(
            Effect.andThen(auditDetail({ mode }), ask(params.id, (camera) => camera.FactoryReset({ mode, confirm }))),
            { mode, advice: resetAdvice[mode] },
          ),
      )
      .handle(
        "snapshotUri",
        ({ params: { id }, query }) =>
          Effect.map(ask(id, (camera) => camera.Snapshot({ profile: query.profileToken ?? null })), ({ profile }) => ({
            uri: `${base}/${id}/snapshot?profileToken=${encodeURIComponent(profile)}`,
            profileToken: profile,
          })),
      )
      .handle(
        "snapshot",
        ({ params, query }) =>
          Effect.map(picture(params.id, query.profileToken ?? null), ({ bytes, contentType }) =>
            HttpServerResponse.uint8Array(bytes, { contentType, headers: { "cache-control": "no-store" } })),
      )
  }),
)
