/** The auth service: roles, the security settings, and the sessions of the caller. */
import { SecuritySettings, SecuritySettingsChange, SessionNotFound, UserSession } from "#schema/auth-security.ts"
import {
  NewRole,
  Role,
  RoleBuiltIn,
  RoleHeld,
  RoleName,
  RoleNameTaken,
  RoleNotFound,
  RoleUpdate,
  User,
  UserNotFound,
} from "#schema/auth-users.ts"
import { Page, Uuid7 } from "#schema/common.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { created, extension, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/auth/api/v1"
const roleParams = { name: RoleName }

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const roles = [
  HttpApiEndpoint.get("roles", `${base}/roles`, {
    query: pageQuery,
    success: Page(Role),
    error: problems(InvalidCursor),
  })
    .annotateMerge(access("user:read")).annotateMerge(doc("List roles", "By name.")),
  HttpApiEndpoint.post("createRole", `${base}/roles`, {
    headers: idempotencyKey,
    payload: NewRole,
    success: created(Role),
    error: problems(RoleNameTaken),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Create a role", "Only somebody who holds a permission may put it into a role (403)."),
  ),
  HttpApiEndpoint.get("role", `${base}/roles/:name`, {
    params: roleParams,
    success: versioned(Role),
    error: problems(RoleNotFound),
  }).annotateMerge(access("user:read")).annotateMerge(extension).annotateMerge(doc("Get a role")),
  HttpApiEndpoint.put("updateRole", `${base}/roles/:name`, {
    params: roleParams,
    headers: ifMatch,
    payload: RoleUpdate,
    success: versioned(Role),
    error: problems(RoleNotFound, RoleBuiltIn, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Update a role", "What is left out stays. Holds from the next request of its users on."),
  ),
  HttpApiEndpoint.delete("deleteRole", `${base}/roles/:name`, {
    params: roleParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(RoleNotFound, RoleBuiltIn, RoleHeld, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Delete a role", "409 `role_held` names who holds it, 20 users at most, and how many there are."),
  ),
  HttpApiEndpoint.get("roleUsers", `${base}/roles/:name/users`, {
    params: roleParams,
    query: pageQuery,
    success: Page(User),
    error: problems(RoleNotFound, InvalidCursor),
  }).annotateMerge(access("user:read")).annotateMerge(doc("List users belonging to a role", "By name.")),
] as const

const settings = [
  HttpApiEndpoint.get("securitySettings", `${base}/settings/security`, { success: versioned(SecuritySettings) })
    .annotateMerge(access("user:read")).annotateMerge(
      doc("Get security settings", "Rules for passwords, locks after failed sign-ins, and sessions."),
    ),
  HttpApiEndpoint.post("updateSecuritySettings", `${base}/settings/security`, {
    headers: ifMatch,
    payload: SecuritySettingsChange,
    success: versioned(SecuritySettings),
    error: problems(InvalidInput, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Update security settings", "What is left out stays. Holds on every node from the next sign-in on."),
  ),
] as const

const ownSessions = [
  HttpApiEndpoint.get("ownSessions", `${base}/auth/sessions`, {
    query: pageQuery,
    success: Page(UserSession),
    error: problems(UserNotFound, InvalidCursor),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(
    doc("List own sessions", "Those that have not ended, newest first; `current` marks the caller's."),
  ),
  HttpApiEndpoint.delete("endOwnSession", `${base}/auth/sessions/:session_id`, {
    params: { session_id: Uuid7 },
    success: HttpApiSchema.NoContent,
    error: problems(SessionNotFound),
  }).annotateMerge(access("signedIn")).annotateMerge(extension).annotateMerge(doc("End one of the own sessions")),
] as const

export class SecurityGroup extends HttpApiGroup.make("security")
  .add(...roles)
  .add(...settings)
  .add(...ownSessions)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Security",
    description: "Roles, rules for passwords and sessions, the own sessions.",
  }))
{}
