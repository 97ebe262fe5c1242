/** What the pages of security ask of the node: rules, management addresses, the mail server. */
import { etag } from "#http/contract/conventions.ts"
import type { ManagementIp } from "#schema/auth-network.ts"
import type { SecuritySettings, SecuritySettingsChange } from "#schema/auth-security.ts"
import type { SmtpSettings, SmtpSettingsUpdate, SmtpTest } from "#schema/auth-smtp.ts"
import { call, everything } from "./api.ts"

export const securitySettings = async () => (await call((api) => api.security.securitySettings())).body
export const updateSecuritySettings = async ({ version }: SecuritySettings, payload: SecuritySettingsChange) =>
  (await call((api) => api.security.updateSecuritySettings({ headers: { "if-match": etag(version) }, payload }))).body

export interface AddressInput {
  readonly name: string
  readonly cidr: string
  readonly enabled: boolean
  /** Also where it locks its author out. */
  readonly force: boolean
}

export const listAddresses = () => everything((api, query) => api.network.ips({ query }))
export const addAddress = (payload: AddressInput) => call((api) => api.network.addIp({ headers: {}, payload }))
export const changeAddress = ({ id, version }: ManagementIp, payload: AddressInput) =>
  call((api) => api.network.updateIp({ params: { id }, headers: { "if-match": etag(version) }, payload }))
export const removeAddress = ({ id, version }: ManagementIp, force: boolean) =>
  call((api) =>
    api.network.removeIp({
      params: { id },
      headers: { "if-match": etag(version) },
      query: force ? { force: "true" } : {},
    })
  )

export const smtpSettings = async () => (await call((api) => api.network.smtpSettings())).body
export const updateSmtp = async ({ version }: SmtpSettings, payload: SmtpSettingsUpdate) =>
  (await call((api) => api.network.updateSmtpSettings({ headers: { "if-match": etag(version) }, payload }))).body
export const testSmtp = (payload: SmtpTest) => call((api) => api.network.testSmtp({ payload }))

export const masterKey = () => call((api) => api.network.masterKey())
export const rotateMasterKey = () => call((api) => api.network.rotateMasterKey({ headers: {} }))
