/** Phones as cameras: what an administrator asks for, and what the phone's own page does without anybody signed in. */
import type { DeviceUuid } from "#schema/camera-mobile.ts"
import { call } from "./api.ts"

export const preparePhone = async (name: string) =>
  (await call((api) => api.cameraMobile.prepareMobile({ headers: {}, payload: { name } }))).body

export const phoneStatus = (deviceUuid: DeviceUuid) =>
  call((api) => api.cameraMobile.mobileStatus({ query: { deviceUuid } }))
