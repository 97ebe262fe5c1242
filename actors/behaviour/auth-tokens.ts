/**
 * The check of access tokens: JWTs by EdDSA (RFC 7519, RFC 8037, profile RFC 9068), against keys that were read before.
 *
 * Invariants
 * 1. Only `alg: EdDSA` and `typ: at+jwt` with our issuer and audience pass, whatever the token's own header asks for.
 * 2. No query per token. A token of a session that ended, or of a user who may not sign in, is refused, and roles are those
 *    that the user holds now, whatever the token says: as fresh as the last `trust`. While the database is away that holds,
 *    so a valid unexpired token still verifies.
 * 3. At most {@link remembered} verified tokens are remembered to spare the signature's cost; expiry and ended sessions are
 *    looked at every time.
 * 4. Whoever waits for the end of a session is told once, without a queue: nothing can be lost or overflow.
 */
import { AccessTokens, type TokenTrust } from "#actors/protocol/auth.ts"
import { defaultSecuritySettings } from "#schema/auth-security.ts"
import { lifetimes } from "#schema/auth.ts"
import { UserId, Uuid7 } from "#schema/common.ts"
import type { Grant, UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable, Unauthenticated } from "#schema/problem.ts"
import { Clock, Effect, Layer, PubSub, Redacted, Schema, Stream } from "effect"
import { type CryptoKey, importJWK, type JWTPayload, jwtVerify } from "jose"

export const tokenIssuer = "nightjar"
export const tokenAudience = "nightjar"
/** RFC 9068, section 2.1. */
export const tokenType = "at+jwt"
/** Clocks of two nodes may differ by this many seconds. */
export const clockTolerance = 60
/** Tokens, at about 1 KiB each. */
const remembered = 4096
/** A token of ours is below 1 KiB. */
const longestToken = 4096
/** How long after its end a token of a session can be about, by any node's clock. */
export const endingsMatterMs = (lifetimes.accessToken + 2 * clockTolerance) * 1000
/** Endings that a slow reader may be behind. */
const endingsKept = 4096
const nothing: ReadonlyArray<Grant> = []

/** Members of an access token: `sid` is the session, `name` the user's name, the others are the registered ones. */
const Claims = Schema.Struct({
  sub: UserId,
  sid: Uuid7,
  name: Schema.String,
  roles: Schema.Array(Schema.String),
  iat: Schema.Int,
  exp: Schema.Int,
  /** The session may only change its password. */
  only: Schema.optionalKey(Schema.Literal("password")),
}).check(Schema.makeFilter(({ exp, iat }) => exp - iat <= lifetimes.accessToken || "lives longer than we give"))
type Claims = typeof Claims.Type
const decodeClaims = Schema.decodeUnknownOption(Claims)

const refused = new Unauthenticated({ message: "The access token is missing, expired or not valid" })

interface Trusted {
  readonly trust: TokenTrust
  /** What the roles grant; the same objects as before where nothing of them changed, so that what is computed of them stays. */
  readonly grants: ReadonlyMap<string, Grant>
  /** Grants of the holders of some roles, by their names; made when first asked for, {@link remembered} at most. */
  readonly held: Map<string, ReadonlyArray<Grant>>
  readonly keys: ReadonlyMap<string, { readonly key: CryptoKey | Uint8Array; readonly expiresAtMs: number }>
}

const importKeys = (trust: TokenTrust, before: Trusted | null) =>
  Effect.map(
    Effect.forEach(trust.keys, ({ expiresAtMs, jwk }) => {
      const known = before?.keys.get(jwk.kid)
      return known === undefined ?
        Effect.map(Effect.promise(() => importJWK(jwk, "EdDSA")), (key) => [jwk.kid, { key, expiresAtMs }] as const) :
        Effect.succeed([jwk.kid, known] as const)
    }),
    (entries): Trusted => ({ trust, keys: new Map(entries), ...grantsOf(trust, before) }),
  )

const same = (a: Grant | undefined, b: Grant): a is Grant =>
  a !== undefined && a.resources === b.resources && a.ptzPriority === b.ptzPriority &&
  a.permissions.join() === b.permissions.join()

const grantsOf = (trust: TokenTrust, before: Trusted | null): Pick<Trusted, "grants" | "held"> => {
  const grants = new Map(trust.roles.map((grant) => {
    const known = before?.grants.get(grant.role)
    return [grant.role, same(known, grant) ? known : grant]
  }))
  const unchanged = before !== null && grants.size === before.grants.size &&
    [...grants].every(([role, grant]) => before.grants.get(role) === grant)
  return { grants, held: unchanged ? before.held : new Map<string, ReadonlyArray<Grant>>() }
}

/** What the holder of these roles holds. */
const heldBy = (roles: ReadonlyArray<string>, { grants, held }: Trusted): ReadonlyArray<Grant> => {
  const name = roles.join("\n")
  const known = held.get(name)
  if (known !== undefined) return known
  const made = roles.flatMap((role) => grants.get(role) ?? [])
  if (held.size >= remembered) held.delete(held.keys().next().value!)
  held.set(name, made)
  return made
}

/** Sessions that somebody waits for the end of. */
const makeWaiting = () => {
  const waiting = new Map<string, Set<() => void>>()
  return {
    tell: (sessionId: string) => {
      const told = waiting.get(sessionId)
      waiting.delete(sessionId)
      for (const resume of told ?? []) resume()
    },
    ids: (): ReadonlyArray<string> => [...waiting.keys()],
    add: (sessionId: string, resume: () => void) => {
      const known = waiting.get(sessionId)
      if (known === undefined) waiting.set(sessionId, new Set([resume]))
      else known.add(resume)
    },
    drop: (sessionId: string, resume: () => void) => {
      const known = waiting.get(sessionId)
      known?.delete(resume)
      if (known?.size === 0) waiting.delete(sessionId)
    },
  }
}

const make = Effect.gen(function*() {
  let trusted: Trusted | null = null
  /** Sessions that ended here, with the moment (epoch ms) when the last token of them is expired. */
  const endedHere = new Map<string, number>()
  const verified = new Map<string, Claims>()
  const waiting = makeWaiting()
  /** A sliding buffer: 36 bytes an id; who must not miss one waits by `untilEnded`. */
  const endings = yield* PubSub.sliding<string>(endingsKept)
  const hasEnded = (sessionId: string) =>
    endedHere.has(sessionId) || trusted?.trust.endedSessions.has(sessionId) === true

  const check = (token: string, state: Trusted, nowMs: number) =>
    Effect.tryPromise({
      try: () =>
        jwtVerify(token, ({ kid }) => {
          const known = kid === undefined ? undefined : state.keys.get(kid)
          if (known === undefined || known.expiresAtMs <= nowMs) throw new Error("unknown key")
          return known.key
        }, {
          algorithms: ["EdDSA"],
          typ: tokenType,
          issuer: tokenIssuer,
          audience: tokenAudience,
          requiredClaims: ["exp", "iat", "sub", "jti"],
          clockTolerance,
          currentDate: new Date(nowMs),
        }),
      catch: () => refused,
    }).pipe(
      Effect.flatMap(({ payload }: { readonly payload: JWTPayload }) => Effect.fromOption(decodeClaims(payload))),
      Effect.mapError(() => refused),
      Effect.tap((claims) =>
        Effect.sync(() => {
          if (verified.size >= remembered) verified.delete(verified.keys().next().value!)
          verified.set(token, claims)
        })
      ),
    )

  const principal = (claims: Claims, state: Trusted): UserPrincipal | null => {
    const { complete, roles } = state.trust.users
    const held = roles.get(claims.sub) ?? (complete ? null : claims.roles)
    if (held === null) return null
    const user = { kind: "user", userId: claims.sub, username: claims.name, sessionId: claims.sid } as const
    // Whatever the roles say: no slice has to know of this to be safe.
    return claims.only === "password" ?
      { ...user, grants: nothing, mustChangePassword: true } :
      { ...user, grants: heldBy(held, state) }
  }

  const present = Effect.suspend(() =>
    trusted === null ?
      Effect.fail(
        new DependencyUnavailable({ dependency: "database", message: "The signing keys were not read yet" }),
      ) :
      Effect.succeed(trusted)
  )

  return AccessTokens.of({
    verify: Effect.fnUntraced(function*(credential) {
      const token = Redacted.value(credential)
      // Without a token there is nothing to wait for.
      if (token === "" || token.length > longestToken) return yield* refused
      const state = yield* present
      const nowMs = yield* Clock.currentTimeMillis
      const claims = verified.get(token) ?? (yield* check(token, state, nowMs))
      const over = claims.exp * 1000 + clockTolerance * 1000 <= nowMs
      if (over || claims.iat * 1000 > nowMs + clockTolerance * 1000 || hasEnded(claims.sid)) {
        verified.delete(token)
        return yield* refused
      }
      return principal(claims, state) ?? (yield* refused)
    }),
    grantsOf: (userId) =>
      Effect.map(present, (state) => {
        const { complete, roles } = state.trust.users
        const held = roles.get(userId)
        return held === undefined ? complete ? nothing : null : heldBy(held, state)
      }),
    jwks: Effect.gen(function*() {
      const { trust } = yield* present
      const nowMs = yield* Clock.currentTimeMillis
      return { keys: trust.keys.filter((key) => key.expiresAtMs > nowMs).map((key) => key.jwk) }
    }),
    trust: Effect.fnUntraced(function*(known) {
      const nowMs = yield* Clock.currentTimeMillis
      const before = trusted
      trusted = yield* importKeys(known, before)
      const news = [...known.endedSessions].filter((id) =>
        before?.trust.endedSessions.has(id) !== true && !endedHere.has(id)
      )
      yield* PubSub.publishAll(endings, news)
      for (const id of waiting.ids()) if (hasEnded(id)) waiting.tell(id)
      for (const [id, untilMs] of endedHere) if (untilMs <= nowMs) endedHere.delete(id)
      // A key that is gone takes its tokens with it; those of the others need not be verified anew every two seconds.
      const { keys } = trusted
      if (before !== null && [...before.keys.keys()].some((kid) => !keys.has(kid))) verified.clear()
    }),
    endSession: Effect.fnUntraced(function*(sessionId) {
      const nowMs = yield* Clock.currentTimeMillis
      const news = !hasEnded(sessionId)
      endedHere.set(sessionId, nowMs + endingsMatterMs)
      waiting.tell(sessionId)
      if (news) yield* PubSub.publish(endings, sessionId)
    }),
    hasEnded: (sessionId) => Effect.sync(() => hasEnded(sessionId)),
    ended: Stream.fromPubSub(endings),
    untilEnded: (sessionId) =>
      Effect.callback((resume) => {
        if (hasEnded(sessionId)) return resume(Effect.void)
        const told = () => resume(Effect.void)
        waiting.add(sessionId, told)
        return Effect.sync(() => waiting.drop(sessionId, told))
      }),
    settings: Effect.sync(() => trusted?.trust.security ?? defaultSecuritySettings),
  })
})

export const AccessTokensLive = Layer.effect(AccessTokens, make)
