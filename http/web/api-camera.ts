/** What the page of a camera asks of the node, and of the camera by way of the node. */
import { snapshotUrl } from "#http/contract/camera-live.ts"
import { etag } from "#http/contract/conventions.ts"
import type { ImagingChange, PtzVector, VideoEncoderChange } from "#schema/camera-device.ts"
import type { NewPresetTour, TourOperation } from "#schema/camera-ptz.ts"
import type { Camera } from "#schema/camera.ts"
import type { CameraId, StreamId } from "#schema/common.ts"
import { Redacted } from "effect"
import { call, messageOf, readFile, tagOf } from "./api.ts"

/** What a camera was asked for: its answer, or in words why there is none. */
export type Offered<A> =
  | { readonly kind: "yes"; readonly value: A }
  /** It does not offer that. */
  | { readonly kind: "absent"; readonly why: string }
  /** It refuses user name and password. */
  | { readonly kind: "refused"; readonly why: string }

export const refusedWords = "The camera refused the user name or the password"

/** Tells what the camera does not offer, and that it refuses us, from what goes wrong. */
export const offered = async <A>(asked: Promise<A>): Promise<Offered<A>> => {
  try {
    return { kind: "yes", value: await asked }
  } catch (error) {
    const tag = tagOf(error)
    if (tag === "OnvifOperationUnsupported") return { kind: "absent", why: messageOf(error) }
    if (tag === "CameraAuthFailed") return { kind: "refused", why: refusedWords }
    throw error
  }
}

/** A stream that nobody watches yet has to start first. */
const stillMs = 30_000

export const readCamera = async (id: CameraId) => (await call((api) => api.camera.camera({ params: { id } }))).body

/** Other credentials for a camera; everything else stays. */
export const setCredentials = (
  { description, enabled, id, name, version }: Camera,
  username: string,
  password: string,
) =>
  call((api) =>
    api.camera.updateCamera({
      params: { id },
      headers: { "if-match": etag(version) },
      payload: {
        name,
        description,
        enabled,
        username: username === "" ? null : username,
        password: password === "" ? null : Redacted.make(password),
      },
    })
  )

export const capabilitiesOf = async (id: CameraId) =>
  (await call((api) => api.cameraOffer.capabilities({ params: { id } }))).items
export const profilesOf = async (id: CameraId) =>
  (await call((api) => api.cameraPtz.mediaProfiles({ params: { id } }))).items

/** Who reads which stream by RTSP now. */
export const proxyStreams = async () => (await call((api) => api.cameraProxy.proxyStreams())).items
/** The newest picture of a stream, as a file. */
export const stillOf = (id: StreamId) => readFile(snapshotUrl(id), () => undefined, AbortSignal.timeout(stillMs))
export const mediaPathOf = (id: StreamId) => call((api) => api.camera.mediaPath({ params: { stream_id: id } }))

/** A camera, by the profile that stands for the channel that is shown. */
export interface Target {
  readonly id: CameraId
  readonly profileToken: string
}

/** Ends by itself after `timeoutMs`. */
export const moveAt = ({ id, profileToken }: Target, velocity: PtzVector, timeoutMs: number) =>
  call((api) =>
    api.cameraPtz.moveContinuous({ params: { id }, headers: {}, payload: { profileToken, velocity, timeoutMs } })
  )
export const stopMoving = ({ id, profileToken }: Target) =>
  call((api) => api.cameraPtz.stopMoving({ params: { id }, headers: {}, payload: { profileToken } }))
export const positionOf = ({ id, profileToken }: Target) =>
  call((api) => api.cameraPtz.ptzStatus({ params: { id }, query: { profileToken } }))

export const presetsOf = async ({ id, profileToken }: Target) =>
  (await call((api) => api.cameraPtz.presets({ params: { id }, query: { profileToken } }))).items
/** Keeps where the camera looks now; with `token` that preset is replaced. */
export const setPreset = ({ id, profileToken }: Target, name: string, token: string | null) =>
  call((api) =>
    api.cameraPtz.setPreset({
      params: { id },
      headers: {},
      payload: { profileToken, name, ...(token === null ? {} : { token }) },
    })
  )
export const removePreset = ({ id, profileToken }: Target, token: string) =>
  call((api) => api.cameraPtz.removePreset({ params: { id, token }, query: { profileToken } }))
export const gotoPreset = ({ id, profileToken }: Target, token: string) =>
  call((api) => api.cameraPtz.gotoPreset({ params: { id, token }, headers: {}, payload: { profileToken } }))
export const setHome = ({ id, profileToken }: Target) =>
  call((api) => api.cameraPtz.setHome({ params: { id }, payload: { profileToken } }))
export const gotoHome = ({ id, profileToken }: Target) =>
  call((api) => api.cameraPtz.gotoHome({ params: { id }, headers: {}, payload: { profileToken } }))

/** What a camera's tours are made of; null where it keeps none. */
export const toursOf = async ({ id, profileToken }: Target) => {
  const { items: nodes } = await call((api) => api.cameraPtz.ptzNodes({ params: { id } }))
  const able = nodes.find(({ tours }) => tours !== null && tours.max > 0)?.tours ?? null
  if (able === null) return null
  const { items: tours } = await call((api) => api.cameraPtz.tours({ params: { id }, query: { profileToken } }))
  return { ...able, tours }
}
export const createTour = ({ id, profileToken }: Target, tour: NewPresetTour) =>
  call((api) => api.cameraPtz.createTour({ params: { id }, headers: {}, payload: { profileToken, ...tour } }))
export const removeTour = ({ id, profileToken }: Target, token: string) =>
  call((api) => api.cameraPtz.removeTour({ params: { id, token }, query: { profileToken } }))
export const operateTour = ({ id, profileToken }: Target, token: string, operation: TourOperation) =>
  call((api) => api.cameraPtz.operateTour({ params: { id, token }, headers: {}, payload: { profileToken, operation } }))

/** A video source of a camera. */
export interface Source {
  readonly id: CameraId
  readonly token: string
}

export const imagingOf = async ({ id, token }: Source) => {
  const params = { id, video_source_token: token }
  const [settings, options] = await Promise.all([
    call((api) => api.cameraDevice.imaging({ params })),
    call((api) => api.cameraDevice.imagingOptions({ params })),
  ])
  return { settings, options }
}
export const setImaging = ({ id, token }: Source, payload: ImagingChange) =>
  call((api) => api.cameraDevice.setImaging({ params: { id, video_source_token: token }, payload }))

export const encoderOf = async (id: CameraId, token: string) => {
  const params = { id, token }
  const [encoder, options] = await Promise.all([
    call((api) => api.cameraDevice.videoEncoder({ params })),
    call((api) => api.cameraDevice.videoEncoderOptions({ params })),
  ])
  return { encoder, options }
}
export const setEncoder = (id: CameraId, token: string, payload: VideoEncoderChange) =>
  call((api) => api.cameraDevice.setVideoEncoder({ params: { id, token }, payload }))

export const deviceClock = (id: CameraId) => call((api) => api.cameraDevice.deviceClock({ params: { id } }))
/** The time of the node, or the network's. */
export const setDeviceClock = (id: CameraId, mode: "manual" | "ntp", timeZone: string) =>
  call((api) =>
    api.cameraDevice.setDeviceClock({ params: { id }, payload: { mode, ...(timeZone === "" ? {} : { timeZone }) } })
  )
export const reboot = (id: CameraId) => call((api) => api.cameraDevice.rebootDevice({ params: { id }, headers: {} }))
