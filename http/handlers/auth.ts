/**
 * Handlers of the auth group.
 *
 * Invariants
 * 1. The refresh cookie is `HttpOnly; SameSite=Strict`, sent to the auth paths only, `Secure` under https, and honoured only
 *    for requests that the browser marks as coming from our own pages.
 */
import { AccessTokens, Auth, type Caller, type SignedIn } from "#actors/protocol/auth.ts"
import type { SecuritySettings } from "#schema/auth-security.ts"
import { InvalidRefreshToken, lifetimes, passwordMaxLength } from "#schema/auth.ts"
import { Effect, Option, Redacted } from "effect"
import { Cookies, HttpServerRequest } from "effect/http"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { currentUser, refreshCookie, refreshCookiePath } from "../contract/access.ts"
import { AuthGroup } from "../contract/auth.ts"
import { expectedVersion, nightjar, withVersion } from "../contract/conventions.ts"
import { CurrentRequest } from "../contract/errors.ts"
import { fromOwnPage } from "../server-cors.ts"
import { ServedFingerprint } from "../server-tls.ts"
import { auditActor, auditDetail } from "./http-audit.ts"

const caller: Effect.Effect<Caller, never, HttpServerRequest.HttpServerRequest> = Effect.gen(function*() {
  const request = yield* HttpServerRequest.HttpServerRequest
  const info = yield* CurrentRequest
  return { address: info?.address ?? "", userAgent: request.headers["user-agent"] ?? "" }
})

const cookieHeader = (value: string, maxAgeSeconds: number) =>
  Effect.map(CurrentRequest, (info) =>
    Cookies.serializeCookie(Cookies.makeCookieUnsafe(refreshCookie, value, {
      httpOnly: true,
      sameSite: "strict",
      path: refreshCookiePath,
      secure: info?.secure ?? false,
      maxAge: maxAgeSeconds * 1000,
    })))

const answer = Effect.fnUntraced(function*(signedIn: SignedIn, cookie: boolean) {
  const refreshToken = Redacted.value(signedIn.refreshToken)
  const body = {
    accessToken: Redacted.value(signedIn.accessToken),
    tokenType: "Bearer" as const,
    expiresIn: signedIn.expiresIn,
    user: signedIn.user,
  }
  const noStore = { "cache-control": "no-store" as const }
  if (!cookie) return HttpApiSchema.withHeaders({ body: { ...body, refreshToken }, headers: noStore })
  const setCookie = yield* cookieHeader(refreshToken, signedIn.refreshExpiresIn)
  return HttpApiSchema.withHeaders({ body, headers: { ...noStore, "set-cookie": setCookie } })
})

/** The refresh token of the cookie. `SameSite=Strict` keeps other sites out; fetch metadata or the origin say it a second time. */
const cookieToken = Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
  const value = fromOwnPage(request) ? request.cookies[refreshCookie] : undefined
  return value === undefined || value === "" ?
    Effect.fail(new InvalidRefreshToken()) :
    Effect.succeed(Redacted.make(value))
})

const publicConfig = (settings: SecuritySettings, tlsFingerprint: string | null) => ({
  passwordMinLength: settings.passwordMinLength,
  passwordMaxLength,
  accessTokenSeconds: lifetimes.accessToken,
  sessionIdleSeconds: settings.sessionIdleMinutes * 60,
  sessionSeconds: settings.sessionMaxHours * 3600,
  refreshCookie,
  tlsFingerprint,
})

export const AuthHandlers = HttpApiBuilder.group(
  nightjar.add(AuthGroup),
  "auth",
  Effect.fnUntraced(function*(handlers) {
    const auth = yield* Auth
    const tokens = yield* AccessTokens
    const fingerprint = yield* ServedFingerprint
    return handlers
      .handle(
        "login",
        Effect.fnUntraced(function*({ payload }) {
          yield* auditDetail({ username: payload.username.slice(0, 64) })
          const signedIn = yield* auth.login(payload, yield* caller)
          yield* auditActor({ id: signedIn.user.id, name: signedIn.user.username, sessionId: null })
          return yield* answer(signedIn, payload.cookie ?? false)
        }),
      )
      .handle(
        "refresh",
        Effect.fnUntraced(function*({ payload }) {
          const given = Option.fromUndefinedOr(payload.refreshToken)
          const token = Option.isSome(given) ? given.value : yield* cookieToken
          return yield* answer(yield* auth.refresh(token, yield* caller), Option.isNone(given))
        }),
      )
      .handle(
        "logout",
        Effect.fnUntraced(function*() {
          yield* auth.logout(yield* currentUser)
          return HttpApiSchema.withHeaders({ body: undefined, headers: { "set-cookie": yield* cookieHeader("", 0) } })
        }),
      )
      .handle("heartbeat", () => Effect.flatMap(currentUser, auth.heartbeat))
      .handle("profile", () => Effect.map(Effect.flatMap(currentUser, auth.profile), withVersion))
      .handle(
        "updateProfile",
        Effect.fnUntraced(function*({ headers, payload }) {
          const expected = yield* expectedVersion(headers)
          return withVersion(yield* auth.updateProfile(yield* currentUser, payload, expected))
        }),
      )
      .handle(
        "username",
        Effect.fnUntraced(function*({ payload }) {
          return withVersion(yield* auth.changeUsername(yield* currentUser, payload, yield* caller))
        }),
      )
      .handle(
        "password",
        Effect.fnUntraced(function*({ payload }) {
          const change = { current: payload.currentPassword, next: payload.newPassword }
          yield* auth.changePassword(yield* currentUser, change, yield* caller)
        }),
      )
      .handle("config", () => Effect.zipWith(tokens.settings, fingerprint, publicConfig))
      .handle("jwks", () =>
        Effect.map(tokens.jwks, (body) =>
          HttpApiSchema.withHeaders({ body, headers: { "cache-control": "public, max-age=60" } })))
  }),
)
