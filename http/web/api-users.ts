/** What the pages of users, roles and sessions ask of the node. */
import { etag } from "#http/contract/conventions.ts"
import type { NewRole, NewUser, Role, RoleUpdate, User, UserUpdate } from "#schema/auth-users.ts"
import type { UserId } from "#schema/common.ts"
import { call, everything } from "./api.ts"

export const listUsers = () => everything((api, query) => api.users.users({ query }))
export const listRoles = () => everything((api, query) => api.security.roles({ query }))

export const createUser = async (payload: NewUser) =>
  (await call((api) => api.users.createUser({ headers: {}, payload }))).body

export const updateUser = async ({ id, version }: User, payload: UserUpdate) =>
  (await call((api) => api.users.updateUser({ params: { id }, headers: { "if-match": etag(version) }, payload }))).body

export const deleteUser = ({ id, version }: User) =>
  call((api) => api.users.deleteUser({ params: { id }, headers: { "if-match": etag(version) } }))

export const unlockUser = ({ id }: User) => call((api) => api.users.unlockUser({ params: { id } }))

/** For somebody who lost it. */
export const resetSecondFactor = ({ id }: User) => call((api) => api.network.resetSecondFactor({ params: { id } }))

export const sessionsOf = (id: UserId) => everything((api, query) => api.users.userSessions({ params: { id }, query }))

export const endSessions = (id: UserId) => call((api) => api.users.terminateSessions({ params: { user_id: id } }))

export const readRole = async (name: string) => (await call((api) => api.security.role({ params: { name } }))).body
export const createRole = async (payload: NewRole) =>
  (await call((api) => api.security.createRole({ headers: {}, payload }))).body

export const updateRole = async ({ name, version }: Role, payload: RoleUpdate) =>
  (await call((api) => api.security.updateRole({ params: { name }, headers: { "if-match": etag(version) }, payload })))
    .body

export const deleteRole = ({ name, version }: Role) =>
  call((api) => api.security.deleteRole({ params: { name }, headers: { "if-match": etag(version) } }))
