/**
 * Who may call what: each endpoint says which permission it needs, and one that says nothing is denied.
 *
 * Invariants
 * 1. An endpoint without an {@link Access} annotation answers 403 to everyone (403 even to an administrator).
 * 2. `public` is said out loud; every other endpoint needs a valid access token (or a peer token with a proof of its key, where
 *    the endpoint is open to other nodes), except `capability`: there the path itself holds an unguessable credential, which
 *    the handler checks.
 * 3. Handlers learn who calls from {@link CurrentPrincipal}, never from headers.
 * 4. Where resource groups narrow the permission, the endpoint says what it is about ({@link Concern}); one that does not
 *    say it does not compile.
 */
import { AuditUnavailable } from "#schema/auth-audit.ts"
import { UseDpopNonce } from "#schema/auth-federation.ts"
import { PasswordChangeRequired } from "#schema/auth-security.ts"
import type { PeerPrincipal, Permission, Principal, ScopedPermission, UserPrincipal } from "#schema/permission.ts"
import {
  BadRequest,
  DependencyUnavailable,
  Forbidden,
  IdempotencyConflict,
  PayloadTooLarge,
  RequestTimedOut,
  Unauthenticated,
} from "#schema/problem.ts"
import { Context, Effect } from "effect"
import { HttpApiMiddleware, HttpApiSecurity, OpenApi } from "effect/http-api"
import { problems } from "./errors.ts"

/**
 * What an endpoint asks of its caller: a permission (`camera:read`), `signedIn` (any valid access token), `peer` (another node
 * that is a member or paired, and never a user), `public` (nobody is asked) or `capability` (the path is the credential: media
 * URLs of a session).
 */
export type AccessRule = Permission | "signedIn" | "peer" | "public" | "capability"

/** Things that a path names. */
export type ConcernedKind = "camera" | "channel" | "stream" | "recording" | "recordingToken" | "replaySession"

/**
 * What a permission that resource groups narrow is decided about: the thing that a parameter of the path names; `handler`,
 * where the handler decides (lists, which it filters; bodies that name things); `everything`, for roles that are not narrowed;
 * `service`, for what concerns no thing in particular: whoever holds the permission at all.
 */
export type Concern = { readonly kind: ConcernedKind; readonly param: string } | "handler" | "everything" | "service"

export interface AccessAnnotation {
  readonly rule: AccessRule
  /** Null where the rule is not narrowed. */
  readonly on: Concern | null
  /** Also open to a peer on this machine that no proxy speaks for: for scrapers, which cannot sign in. */
  readonly orLoopback: boolean
  /** Where a permission is asked for: also open to another node, by what was granted to it. */
  readonly orPeer: boolean
  /** With the rule `peer`: also by a token that has expired, as long as its key is proven. */
  readonly expiredToo: boolean
  /** A WebSocket handshake without a token passes: browsers cannot send the header, so the handler asks in the channel. */
  readonly inChannel: boolean
  /** Also for a user who must change the password first. */
  readonly beforePasswordChange: boolean
}

/** The annotation; set it by {@link access}. */
export class Access extends Context.Service<Access, AccessAnnotation>()("nightjar/http/Access") {}

type AccessOptions = Partial<Omit<AccessAnnotation, "rule" | "on">>

/** `HttpApiEndpoint.get(…).annotateMerge(access("camera:read", { on: { kind: "camera", param: "id" } }))` */
export const access = <Rule extends AccessRule>(
  rule: Rule,
  ...[options]: Rule extends ScopedPermission ? [AccessOptions & { readonly on: Concern }] : [AccessOptions?]
): Context.Context<never> =>
  Context.make(Access, {
    rule,
    on: null,
    orLoopback: false,
    orPeer: false,
    expiredToo: false,
    inChannel: false,
    beforePasswordChange: false,
    ...options,
  }) as Context.Context<never>

/** Who calls. `anonymous` only where the endpoint is `public` or a `capability`. */
export class CurrentPrincipal
  extends Context.Service<CurrentPrincipal, Principal>()("nightjar/http/CurrentPrincipal")
{}

/** The calling user, for handlers of endpoints that are neither `public` nor `capability`. */
export const currentUser: Effect.Effect<UserPrincipal, Unauthenticated, CurrentPrincipal> = Effect.filterOrFail(
  CurrentPrincipal,
  (principal): principal is UserPrincipal => principal.kind === "user",
  () => new Unauthenticated({ message: "This needs a signed-in user" }),
)

/** The calling node, for handlers of endpoints with the rule `peer`. */
export const currentPeer: Effect.Effect<PeerPrincipal, Unauthenticated, CurrentPrincipal> = Effect.filterOrFail(
  CurrentPrincipal,
  (principal): principal is PeerPrincipal => principal.kind === "peer",
  () => new Unauthenticated({ message: "This is asked by other nodes only" }),
)

/** Name of the dashboard's refresh cookie: `HttpOnly; SameSite=Strict; Path=/auth/api/v1/auth`, `Secure` under https. */
export const refreshCookie = "nightjar_refresh"
export const refreshCookiePath = "/auth/api/v1/auth"

const bearer = HttpApiSecurity.bearer.pipe(HttpApiSecurity.annotate(OpenApi.Format, "JWT"))

/** Checks the bearer token, the endpoint's permission, and that what it changes can be audited. Every group carries it, outermost. */
export class AccessControl
  extends HttpApiMiddleware.Service<AccessControl, { provides: CurrentPrincipal }>()("nightjar/http/AccessControl", {
    requiredForClient: true,
    security: { bearer },
    error: problems(
      Unauthenticated,
      UseDpopNonce,
      Forbidden,
      PasswordChangeRequired,
      DependencyUnavailable,
      AuditUnavailable,
    ),
  })
{}

/**
 * What holds for every operation: bad input becomes a 400 problem with pointers, a request has a time limit, a repeated
 * `Idempotency-Key` gets its first answer again. Every group carries it, inside of {@link AccessControl}.
 */
export class Conventions
  extends HttpApiMiddleware.Service<Conventions, { requires: CurrentPrincipal }>()("nightjar/http/Conventions", {
    error: problems(BadRequest, PayloadTooLarge, IdempotencyConflict, DependencyUnavailable, RequestTimedOut),
  })
{}
