/** What a camera is set up to by way of the node: texts in its picture, focus, sound, network, factory defaults. */
import type {
  AudioEncoderChange,
  FactoryResetMode,
  NetworkChange,
  OsdChange,
  OsdCreate,
} from "#schema/camera-config.ts"
import type { CameraId } from "#schema/common.ts"
import type { Source } from "./api-camera.ts"
import { call } from "./api.ts"

/** Texts and pictures in the image of one source, with what the camera allows. */
export const osdsOf = async ({ id, token }: Source) => {
  const { items: sources } = await call((api) => api.cameraConfig.videoSources({ params: { id } }))
  const sourceToken = sources.find((one) => one.sourceToken === token)?.token
  const [{ items }, options] = await Promise.all([
    call((api) => api.cameraConfig.osds({ params: { id } })),
    call((api) =>
      api.cameraConfig.osdOptions({ params: { id }, query: sourceToken === undefined ? {} : { sourceToken } })
    ),
  ])
  return { osds: items.filter((one) => sourceToken === undefined || one.sourceToken === sourceToken), options }
}
export const createOsd = async (id: CameraId, payload: OsdCreate) =>
  (await call((api) => api.cameraConfig.createOsd({ params: { id }, headers: {}, payload }))).body
export const setOsd = (id: CameraId, token: string, payload: OsdChange) =>
  call((api) => api.cameraConfig.setOsd({ params: { id, token }, payload }))
export const deleteOsd = (id: CameraId, token: string) =>
  call((api) => api.cameraConfig.deleteOsd({ params: { id, token } }))

/** Ends by itself after `timeoutMs`. */
export const moveFocus = ({ id, token }: Source, speed: number, timeoutMs: number) =>
  call((api) =>
    api.cameraConfig.moveFocus({
      params: { id, video_source_token: token },
      headers: {},
      payload: { mode: "continuous", speed, timeoutMs },
    })
  )
export const stopFocus = ({ id, token }: Source) =>
  call((api) => api.cameraConfig.stopFocus({ params: { id, video_source_token: token }, headers: {} }))

export const audioEncodersOf = async (id: CameraId) =>
  (await call((api) => api.cameraConfig.audioEncoders({ params: { id } }))).items
export const setAudioEncoder = (id: CameraId, token: string, payload: AudioEncoderChange) =>
  call((api) => api.cameraConfig.setAudioEncoder({ params: { id, token }, payload }))

export const networkOf = async (id: CameraId) =>
  (await call((api) => api.cameraConfig.networkInterfaces({ params: { id } }))).items
export const setNetwork = (id: CameraId, token: string, payload: NetworkChange) =>
  call((api) => api.cameraConfig.setNetworkInterface({ params: { id, token }, payload }))

/** `confirm`: the camera's name, typed by a person. */
export const factoryReset = (id: CameraId, mode: FactoryResetMode, confirm: string) =>
  call((api) => api.cameraConfig.factoryReset({ params: { id }, headers: {}, payload: { mode, confirm } }))
