/** The auth service: users, their roles and sessions, and the preferences of the caller. */
import { PasswordRefused, SessionsEnded, UserSession } from "#schema/auth-security.ts"
import {
  CreatedUser,
  LastAdministrator,
  NewUser,
  Preferences,
  Role,
  RoleName,
  RoleNotFound,
  User,
  UserNotFound,
  UserUpdate,
} from "#schema/auth-users.ts"
import { SignInLocked, UsernameTaken } from "#schema/auth.ts"
import { Page, UserId } from "#schema/common.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension, idempotencyKey, ifMatch, pageQuery, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/auth/api/v1"
const userParams = { id: UserId }
const grantParams = { id: UserId, role_name: RoleName }
const Users = Page(User)

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const management = [
  HttpApiEndpoint.get("users", `${base}/users`, {
    query: {
      ...pageQuery,
      text: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^\P{Cc}{1,200}$/u))),
      role: Schema.optionalKey(RoleName),
      enabled: Schema.optionalKey(Schema.Literals(["true", "false"])),
    },
    success: Users,
    error: problems(InvalidCursor),
  }).annotateMerge(access("user:read")).annotateMerge(
    doc(
      "List users",
      "By name. `text`: a part of the name, the display name or the mail address, in any case of letters.",
    ),
  ),
  HttpApiEndpoint.post("createUser", `${base}/users`, {
    headers: idempotencyKey,
    payload: NewUser,
    success: HttpApiSchema.WithHeaders(CreatedUser.annotate({ httpApiStatus: 201 }), {
      location: Schema.String,
      etag: Schema.optionalKey(Schema.String),
      "cache-control": Schema.Literal("no-store"),
    }),
    error: problems(UsernameTaken, RoleNotFound, PasswordRefused, SignInLocked, LicenseRestricted),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc(
      "Create a user",
      "Without a password a random one is made and told in `initialPassword`, this once: such an answer is not kept for an " +
        "`Idempotency-Key`. Only somebody who holds what a role grants may give it (403).",
    ),
  ),
  HttpApiEndpoint.get("user", `${base}/users/:id`, {
    params: userParams,
    success: versioned(User),
    error: problems(UserNotFound),
  }).annotateMerge(access("user:read")).annotateMerge(doc("Get a user")),
  HttpApiEndpoint.put("updateUser", `${base}/users/:id`, {
    params: userParams,
    headers: ifMatch,
    payload: UserUpdate,
    success: versioned(User),
    error: problems(
      UserNotFound,
      UsernameTaken,
      RoleNotFound,
      PasswordRefused,
      LastAdministrator,
      VersionConflict,
      SignInLocked,
    ),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc(
      "Update a user",
      "What is left out stays. A new password and `enabled: false` end every session of the user. Somebody who holds more " +
        "than the caller cannot be changed (403).",
    ),
  ),
  HttpApiEndpoint.delete("deleteUser", `${base}/users/:id`, {
    params: userParams,
    headers: ifMatch,
    success: HttpApiSchema.NoContent,
    error: problems(UserNotFound, LastAdministrator, VersionConflict),
  }).annotateMerge(access("user:write")).annotateMerge(doc("Delete a user", "Ends every session of the user.")),
  HttpApiEndpoint.post("unlockUser", `${base}/users/:id/unlock`, {
    params: userParams,
    success: versioned(User),
    error: problems(UserNotFound),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Unlock an account", "Forgets its failed sign-ins. Those of an address are not touched."),
  ),
] as const

const grants = [
  HttpApiEndpoint.get("userRoles", `${base}/users/:id/roles`, {
    params: userParams,
    success: Page(Role),
    error: problems(UserNotFound),
  }).annotateMerge(access("user:read")).annotateMerge(doc("List roles of a user", "Always one page.")),
  HttpApiEndpoint.post("grantRole", `${base}/users/:id/roles/:role_name`, {
    params: grantParams,
    success: versioned(User),
    error: problems(UserNotFound, RoleNotFound),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Grant a role to a user", "Holds from the user's next request on. Granting it twice changes nothing."),
  ),
  HttpApiEndpoint.delete("revokeRole", `${base}/users/:id/roles/:role_name`, {
    params: grantParams,
    success: HttpApiSchema.NoContent,
    error: problems(UserNotFound, RoleNotFound, LastAdministrator),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc("Revoke a role from a user", "Holds from the user's next request on. 404 where the user does not hold it."),
  ),
] as const

const sessions = [
  HttpApiEndpoint.get("userSessions", `${base}/users/:id/sessions`, {
    params: userParams,
    query: pageQuery,
    success: Page(UserSession),
    error: problems(UserNotFound, InvalidCursor),
  }).annotateMerge(access("user:read")).annotateMerge(extension).annotateMerge(
    doc("List sessions of a user", "Those that have not ended, newest first."),
  ),
  HttpApiEndpoint.post("terminateSessions", `${base}/sessions/:user_id/terminate`, {
    params: { user_id: UserId },
    success: SessionsEnded,
    error: problems(UserNotFound),
  }).annotateMerge(access("user:write")).annotateMerge(
    doc(
      "Force-terminate the sessions of a user",
      "Their tokens are refused from now on, on every node within 2 s; their media and event streams close.",
    ),
  ),
] as const

const preferences = [
  HttpApiEndpoint.get("preferences", `${base}/users/me/preferences`, {
    success: HttpApiSchema.WithHeaders(Preferences, { etag: Schema.String }),
  }).annotateMerge(access("signedIn")).annotateMerge(
    doc("Get current user preferences", "A JSON object of the client's own making; empty at first."),
  ),
  HttpApiEndpoint.patch("updatePreferences", `${base}/users/me/preferences`, {
    headers: ifMatch,
    payload: [
      Preferences,
      Preferences.pipe(HttpApiSchema.asJson({ contentType: "application/merge-patch+json" })),
    ],
    success: HttpApiSchema.WithHeaders(Preferences, { etag: Schema.String }),
    error: problems(InvalidInput, VersionConflict),
  }).annotateMerge(access("signedIn")).annotateMerge(
    doc(
      "Update current user preferences",
      "A JSON merge patch (RFC 7396): `null` removes a member. The result may have 64 KiB and 16 levels.",
    ),
  ),
] as const

export class UsersGroup extends HttpApiGroup.make("users")
  .add(...management)
  .add(...grants)
  .add(...sessions)
  .add(...preferences)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Users", description: "Who may sign in, and with which roles." }))
{}
