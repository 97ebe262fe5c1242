/** What the pages ask about the caller: permissions, profile, password, sessions; and who may what, and why. */
import { etag } from "#http/contract/conventions.ts"
import type { Profile, ProfileChange } from "#schema/auth.ts"
import type { Check, ResourceGroup, ResourceGroupInput, RoleResourceGroupsInput } from "#schema/permission-groups.ts"
import { type Permission, permissionNames, type ResourceRef } from "#schema/permission.ts"
import { Redacted } from "effect"
import { call, everything, factorProof, refresh } from "./api.ts"

/** Questions that one call takes. */
const mostChecks = 200

/** Answers in the order of the questions; `username` null: about the caller. */
export const checkAll = async (items: ReadonlyArray<Check>, username: string | null) => {
  const about = username === null ? {} : { username }
  const answers = []
  for (let at = 0; at < items.length; at += mostChecks) {
    const payload = { items: items.slice(at, at + mostChecks), ...about }
    const answer = await call((api) => api.permission.check({ payload }))
    if ("items" in answer) answers.push(...answer.items)
  }
  return answers
}

/** What the caller holds at all. */
export const heldPermissions = async (): Promise<ReadonlySet<Permission>> => {
  const decisions = await checkAll(permissionNames.map((permission) => ({ permission })), null)
  return new Set(permissionNames.filter((_, index) => decisions[index]?.allowed))
}

export const publicConfig = () => call((api) => api.auth.config())

/** The new tokens that follow free a session that was good for nothing else. */
export const changePassword = async (currentPassword: string, newPassword: string): Promise<Profile> => {
  await call((api) =>
    api.auth.password({
      payload: { currentPassword: Redacted.make(currentPassword), newPassword: Redacted.make(newPassword) },
    })
  )
  return refresh()
}

export const changeProfile = async ({ version }: Profile, payload: ProfileChange): Promise<Profile> =>
  (await call((api) => api.auth.updateProfile({ headers: { "if-match": etag(version) }, payload }))).body

export const changeUsername = async (username: string, password: string): Promise<Profile> =>
  (await call((api) => api.auth.username({ payload: { username, password: Redacted.make(password) } }))).body

export const ownSessions = () => everything((api, query) => api.security.ownSessions({ query }))
export const endOwnSession = (session_id: string) =>
  call((api) => api.security.endOwnSession({ params: { session_id } }))

export const secondFactor = () => call((api) => api.network.secondFactor())
export const enrolSecondFactor = (password: string) =>
  call((api) => api.network.enrolSecondFactor({ payload: { password: Redacted.make(password) } }))
export const confirmSecondFactor = async (otp: string) =>
  (await call((api) => api.network.confirmSecondFactor({ payload: { otp: Redacted.make(otp) } }))).recoveryCodes
export const disableSecondFactor = (password: string, code: string) =>
  call((api) =>
    api.network.disableSecondFactor({ payload: { password: Redacted.make(password), ...factorProof(code) } })
  )
export const renewRecoveryCodes = async (password: string, code: string) =>
  (await call((api) =>
    api.network.renewRecoveryCodes({ payload: { password: Redacted.make(password), ...factorProof(code) } })
  )).recoveryCodes

/** Begins the idle time of the session anew. */
export const heartbeat = () => call((api) => api.auth.heartbeat())

export const ipCheck = () => call((api) => api.network.ipCheck())

export const listGroups = () => everything((api, query) => api.permission.resourceGroups({ query }))
export const createGroup = async (payload: ResourceGroupInput) =>
  (await call((api) => api.permission.createResourceGroup({ headers: {}, payload }))).body
export const updateGroup = async ({ id, version }: ResourceGroup, payload: ResourceGroupInput) =>
  (await call((api) =>
    api.permission.updateResourceGroup({ params: { id }, headers: { "if-match": etag(version) }, payload })
  )).body
export const deleteGroup = ({ id, version }: ResourceGroup) =>
  call((api) => api.permission.deleteResourceGroup({ params: { id }, headers: { "if-match": etag(version) } }))
export const membersOf = (id: ResourceGroup["id"]) =>
  everything((api, query) => api.permission.resources({ params: { id }, query }))

/** Puts these in and takes those out. */
export const changeMembers = async (
  id: ResourceGroup["id"],
  add: ReadonlyArray<ResourceRef>,
  take: ReadonlyArray<ResourceRef>,
): Promise<void> => {
  if (add.length > 0) {
    await call((api) => api.permission.addResources({ params: { id }, headers: {}, payload: { resources: add } }))
  }
  if (take.length > 0) {
    await call((api) => api.permission.removeResources({ params: { id }, headers: {}, payload: { resources: take } }))
  }
}

export const groupsOfRole = (name: string) => call((api) => api.permission.roleResourceGroups({ params: { name } }))
export const assignGroups = (name: string, payload: RoleResourceGroupsInput) =>
  call((api) => api.permission.assignResourceGroups({ params: { name }, payload }))
