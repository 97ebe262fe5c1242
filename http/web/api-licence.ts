/** What the page of the licence asks of the node. */
import type { LicenseActivation } from "#schema/license.ts"
import { Redacted } from "effect"
import { call, readFile } from "./api.ts"

/** A request file is a few hundred bytes. */
const fileTimeout = 30_000

export const licence = () => call((api) => api.license.license())
export const hardwareId = () => call((api) => api.license.hardwareId())
export const licenceSessions = () => call((api) => api.license.sessions({ query: { limit: 500 } }))
/** As the node signed it: the text must stay as it is. */
export const requestFile = () =>
  readFile("/license/api/v1/license/request-file", () => undefined, AbortSignal.timeout(fileTimeout))
export const activate = (payload: LicenseActivation) => call((api) => api.license.activate({ headers: {}, payload }))
export const registerKey = (key: string) =>
  call((api) => api.license.registerKey({ headers: {}, payload: { key: Redacted.make(key) } }))
export const releaseKey = () => call((api) => api.license.releaseKey())
export const deactivate = () => call((api) => api.license.deactivate())
export const verifyNow = () => call((api) => api.license.verifyNow())
export const cloudVerify = () => call((api) => api.license.cloudVerify())
