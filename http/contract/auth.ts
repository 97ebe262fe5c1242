/**
 * The auth service: signing in and out, the own session and profile, the key set. Users are managed in `auth-users.ts`, roles,
 * rules and sessions in `auth-security.ts`.
 */
import { InvalidSecondFactor, OneTimeCode, RecoveryCode, SecondFactorRequired } from "#schema/auth-factor.ts"
import { PasswordRefused, SessionLimitReached } from "#schema/auth-security.ts"
import {
  InvalidCredentials,
  InvalidRefreshToken,
  JwkSet,
  line,
  NewPassword,
  Profile,
  ProfileChange,
  PublicAuthConfig,
  SessionState,
  SignInLocked,
  TokenAnswer,
  Username,
  UsernameTaken,
} from "#schema/auth.ts"
import { LicenseRestricted } from "#schema/license.ts"
import { VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, ifMatch, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

/** Anything that may be a password; judged by comparing only. */
const givenPassword = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(1024)).pipe(
  Schema.RedactedFromValue,
)
const newPassword = NewPassword.pipe(Schema.RedactedFromValue)

const LoginBody = Schema.Struct({
  username: line(256).check(Schema.isMinLength(1)),
  password: givenPassword,
  /** Browsers: keep the refresh token in an `HttpOnly; SameSite=Strict` cookie instead of the answer. */
  cookie: Schema.optionalKey(Schema.Boolean),
  /** Code of the second factor, where one is active; or else `recoveryCode`. */
  otp: Schema.optionalKey(OneTimeCode),
  recoveryCode: Schema.optionalKey(RecoveryCode),
})

/** Without `refreshToken` the cookie is taken. */
const RefreshBody = Schema.Struct({
  refreshToken: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(128)).pipe(Schema.RedactedFromValue)),
})

/** Answers that carry tokens must not rest in a cache (RFC 6749, section 5.1). */
const tokenAnswer = HttpApiSchema.WithHeaders(TokenAnswer, {
  "cache-control": Schema.Literal("no-store"),
  "set-cookie": Schema.optionalKey(Schema.String),
})

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

const session = [
  HttpApiEndpoint.post("login", "/auth/api/v1/auth/login", {
    payload: LoginBody,
    success: tokenAnswer,
    error: problems(
      InvalidCredentials,
      SecondFactorRequired,
      InvalidSecondFactor,
      SignInLocked,
      SessionLimitReached,
      LicenseRestricted,
    ),
  }).annotateMerge(access("public")).annotateMerge(audited("signIn")).annotateMerge(
    doc(
      "Log in",
      "Failures make the account and the address wait for a growing time; the answer is then 429 with Retry-After. A user " +
        "with `mustChangePassword` can change the password and nothing else (403 `password_change_required`); a refresh " +
        "after the change frees the session. 409 `session_limit_reached` where the security settings refuse more sessions.",
    ),
  ),
  HttpApiEndpoint.post("refresh", "/auth/api/v1/auth/refresh", {
    payload: RefreshBody,
    success: tokenAnswer,
    error: problems(InvalidRefreshToken),
  }).annotateMerge(access("public")).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Refresh token",
      "The refresh token is used up and a new one given. One that comes a second time ends the session.",
    ),
  ),
  // A browser hides `Set-Cookie` from scripts, so to a client the header may be missing.
  HttpApiEndpoint.post("logout", "/auth/api/v1/auth/logout", {
    success: HttpApiSchema.WithHeaders(HttpApiSchema.NoContent, { "set-cookie": Schema.optionalKey(Schema.String) }),
  }).annotateMerge(access("signedIn", { beforePasswordChange: true })).annotateMerge(audited("signOut")).annotateMerge(
    doc("Log out", "Ends the session: its tokens are refused from now on."),
  ),
  HttpApiEndpoint.post("heartbeat", "/auth/api/v1/auth/heartbeat", { success: SessionState })
    .annotateMerge(access("signedIn", { beforePasswordChange: true })).annotateMerge(audited("none")).annotateMerge(
      doc("Session heartbeat", "Begins the session's idle time anew; it never lives beyond its longest life."),
    ),
] as const

const account = [
  HttpApiEndpoint.get("profile", "/auth/api/v1/auth/profile", { success: versioned(Profile) })
    .annotateMerge(access("signedIn", { beforePasswordChange: true })).annotateMerge(doc("Get own profile")),
  HttpApiEndpoint.patch("updateProfile", "/auth/api/v1/auth/profile", {
    headers: ifMatch,
    payload: ProfileChange,
    success: versioned(Profile),
    error: problems(VersionConflict),
  }).annotateMerge(access("signedIn")).annotateMerge(doc("Update own profile")),
  HttpApiEndpoint.post("username", "/auth/api/v1/auth/username", {
    payload: Schema.Struct({ username: Username, password: givenPassword }),
    success: versioned(Profile),
    error: problems(InvalidCredentials, SignInLocked, UsernameTaken),
  }).annotateMerge(access("signedIn")).annotateMerge(doc("Change account name", "Needs the password again.")),
  HttpApiEndpoint.post("password", "/auth/api/v1/auth/password", {
    payload: Schema.Struct({ currentPassword: givenPassword, newPassword }),
    success: HttpApiSchema.NoContent,
    error: problems(InvalidCredentials, SignInLocked, PasswordRefused),
  }).annotateMerge(access("signedIn", { beforePasswordChange: true })).annotateMerge(
    doc(
      "Change password",
      "Ends every other session of the user. 422 `password_refused` names the rules that it breaks.",
    ),
  ),
] as const

export class AuthGroup extends HttpApiGroup.make("auth")
  .add(...session)
  .add(...account)
  .add(
    HttpApiEndpoint.get("config", "/auth/api/v1/auth/config", { success: PublicAuthConfig })
      .annotateMerge(access("public")).annotateMerge(doc("Get public configuration")),
    HttpApiEndpoint.get("jwks", "/.well-known/jwks.json", {
      success: HttpApiSchema.WithHeaders(JwkSet, { "cache-control": Schema.String }),
    }).annotateMerge(access("public")).annotateMerge(doc("Fetch the JSON Web Key Set", "RFC 7517; keys of all nodes.")),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Auth", description: "Who is there: sign-in, sessions, the own profile." }),
  )
{}
