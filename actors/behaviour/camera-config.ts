/**
 * The part of the entity `CameraDevice` that sets cameras up; see `camera-device.ts`.
 *
 * Invariants
 * 1. A camera loses its settings only where whoever asks has written its name or its id beside it: a path alone is easily of the
 *    wrong camera, and a reset cannot be taken back.
 */
import type { CameraStore } from "#actors/store/camera.ts"
import type {
  AudioEncoderChange,
  FactoryResetMode,
  NetworkChange,
  OsdChange,
  OsdCreate,
  VideoSourceChange,
} from "#schema/camera-config.ts"
import { OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { CameraNotFound } from "#schema/camera.ts"
import type { CameraId } from "#schema/common.ts"
import { InvalidInput } from "#schema/problem.ts"
import { Effect } from "effect"
import type { OnDevice } from "./camera-ptz.ts"

interface Payload<P> {
  readonly payload: P
}
type Token = { readonly token: string }

/** What a person has to write to mean this camera and no other. */
const confirmed = Effect.fnUntraced(function*(store: CameraStore["Service"], id: CameraId, confirm: string) {
  const camera = yield* store.get(id)
  if (camera === null) return yield* new CameraNotFound({ id })
  if (confirm !== camera.name && confirm.toLowerCase() !== id) {
    return yield* InvalidInput.at(
      "/payload/confirm",
      "write the name or the id of this camera: a reset cannot be taken back",
    )
  }
})

const pictures = (on: OnDevice) => ({
  Osds: () => on("OSD", ({ config }) => config.osds),
  Osd: ({ payload }: Payload<Token>) => on("OSD", ({ config }) => config.osd(payload.token)),
  OsdOptions: ({ payload }: Payload<{ readonly source: string | null }>) =>
    on("OSD", ({ config }) => config.osdOptions(payload.source)),
  CreateOsd: ({ payload }: Payload<{ readonly input: OsdCreate }>) =>
    on("OSD", ({ config }) => config.createOsd(payload.input)),
  SetOsd: ({ payload: { change, token } }: Payload<Token & { readonly change: OsdChange }>) =>
    on("OSD", ({ config }) => config.setOsd(token, change)),
  DeleteOsd: ({ payload }: Payload<Token>) => on("OSD", ({ config }) => config.deleteOsd(payload.token)),
  VideoSources: () => on("video sources", ({ config }) => config.videoSources),
  SetVideoSource: ({ payload: { change, token } }: Payload<Token & { readonly change: VideoSourceChange }>) =>
    on("video sources", ({ config }) => config.setVideoSource(token, change)),
  Snapshot: ({ payload }: Payload<{ readonly profile: string | null }>) =>
    on("a snapshot", (device) =>
      Effect.gen(function*() {
        const own = payload.profile === null ? yield* device.profiles : []
        const profile = payload.profile ?? (own.find(({ videoEncoder }) => videoEncoder !== null) ?? own[0])?.token
        if (profile === undefined) {
          return yield* new OnvifOperationUnsupported({ operation: "GetSnapshotUri", detail: "it has no profile" })
        }
        return { profile, uri: yield* device.snapshotUri(profile) }
      })),
})

/** `id`: of this entity's camera. */
export const configHandlers = (on: OnDevice, store: CameraStore["Service"], id: CameraId) => ({
  ...pictures(on),
  AudioSources: () => on("audio sources", ({ config }) => config.audioSources),
  AudioEncoders: () => on("audio encoders", ({ config }) => config.audioEncoders),
  SetAudioEncoder: ({ payload: { change, token } }: Payload<Token & { readonly change: AudioEncoderChange }>) =>
    on("audio encoders", ({ config }) => config.setAudioEncoder(token, change)),
  NetworkInterfaces: () => on("network interfaces", ({ config }) => config.networkInterfaces),
  SetNetworkInterface: ({ payload: { change, token } }: Payload<Token & { readonly change: NetworkChange }>) =>
    on("network interfaces", ({ config }) => config.setNetworkInterface(token, change)),
  FactoryReset: (
    { payload: { confirm, mode } }: Payload<{ readonly mode: FactoryResetMode; readonly confirm: string }>,
  ) => Effect.andThen(confirmed(store, id, confirm), on("a factory reset", ({ config }) => config.factoryReset(mode))),
})
