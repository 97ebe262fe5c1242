/**
 * Identity: sign-in with throttling, sessions with rotating refresh tokens, the own profile, the first user.
 *
 * Invariants
 * 1. A refresh token that comes a second time ends its session: one of the two who hold it stole it (RFC 9700, section 4.14).
 * 2. Every password check, also those of a signed-in user, counts against the throttle of the account and of the address.
 * 3. A session that ends is refused on this node before the call answers, on the others within moments (`Trust`).
 */
import { Trust } from "#actors/protocol/auth-trust.ts"
import { AccessTokens, Auth, type Caller, type SignedIn, type TokenTrust } from "#actors/protocol/auth.ts"
import { RoleReach } from "#actors/protocol/permission.ts"
import {
  InvalidCredentials,
  InvalidRefreshToken,
  lifetimes,
  type Profile,
  type PublicJwk,
  SignInLocked,
  UsernameTaken,
} from "#schema/auth.ts"
import { UserId } from "#schema/common.ts"
import { builtInRoles, type UserPrincipal } from "#schema/permission.ts"
import { Unauthenticated, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import type { PgClient } from "@effect/sql-pg"
import { Clock, Effect, Layer, Redacted, Schedule } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"
import { answered } from "../store/answer.ts"
import { AuthThrottleStore } from "../store/auth-throttle.ts"
import { AuthTrustStore } from "../store/auth-trust.ts"
import { AuthStore, usernameKey, type UserRow } from "../store/auth.ts"
import { signAccessToken, type SigningKey, signingKey } from "./auth-keys.ts"
import { makePasswords } from "./auth-passwords.ts"

export interface AuthOptions {
  /** Password of the user `admin` at the first start; `null` for a random one. */
  readonly adminPassword: Redacted.Redacted | null
  /** Called once in the life of a cluster, when `admin` was made. `password` is `null` where the operator gave it. */
  readonly onFirstStart: (
    first: { readonly username: string; readonly password: Redacted.Redacted | null },
  ) => Effect.Effect<void>
}

const pruneEvery = "1 hour"
const accountFree = 5
/** Behind one address there may be a whole office. */
const addressFree = 20

const randomSecret = () => Redacted.make(randomBytes(32).toString("base64url"))
const hashOf = (token: Redacted.Redacted) => createHash("sha256").update(Redacted.value(token)).digest()

const profileOf = (user: UserRow): Profile => ({
  id: UserId.make(user.id),
  username: user.username,
  displayName: user.displayName,
  email: user.email,
  locale: user.locale,
  timeZone: user.timeZone,
  roles: user.roles,
  createdAt: user.createdAt.getTime(),
  passwordChangedAt: user.passwordChangedAt.getTime(),
  version: user.version,
})

/** 20 characters that are hard to mistake for each other: 100 bits. */
const randomPassword = (): Redacted.Redacted => {
  const alphabet = "abcdefghjkmnpqrstuvwxyz23456789A"
  return Redacted.make([...randomBytes(20)].map((byte) => alphabet[byte & 31]).join(""))
}

const gone = new Unauthenticated({ message: "The session has ended; sign in again" })

const make = Effect.fnUntraced(function*(options: AuthOptions) {
  const store = yield* AuthStore
  const throttle = yield* AuthThrottleStore
  const tokens = yield* AccessTokens
  const trust = yield* Trust
  const trusted = yield* AuthTrustStore
  const reach = yield* RoleReach
  const vault = yield* Vault
  const passwords = yield* makePasswords
  let signer: SigningKey | null = null
  let known: TokenTrust | null = null

  const readTrust = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const rows = yield* store.keys.list(nowMs)
    const jwk = (kid: string, x: string): PublicJwk => ({
      kty: "OKP",
      crv: "Ed25519",
      x,
      kid,
      alg: "EdDSA",
      use: "sig",
    })
    const narrowed = yield* reach.read
    known = {
      keys: rows.map((row) => ({ jwk: jwk(row.kid, row.publicX), expiresAtMs: row.expiresAt.getTime() })),
      roles: (yield* store.roles.permissions()).map((one) => ({
        ...one,
        resources: narrowed.get(one.role) ?? "all",
      })),
      users: yield* trusted.users,
      endedSessions: new Set(yield* store.sessions.endedSince(nowMs - (lifetimes.accessToken + 60) * 1000)),
    }
    yield* tokens.trust(known)
  }).pipe(trusted.oneMoment)

  const currentSigner = Effect.gen(function*() {
    const key = yield* signingKey(store, signer)
    if (key.kid !== signer?.kid) {
      signer = key
      // What this key signs must verify from the first token on.
      yield* trust.changed
    }
    return key
  }).pipe(Effect.provideService(Vault, vault))

  const firstStart = Effect.gen(function*() {
    yield* store.roles.seed(Object.entries(builtInRoles).map(([name, role]) => ({ name, ...role })))
    const password = options.adminPassword ?? randomPassword()
    const id = yield* uuid7
    const added = yield* store.users.addFirst({
      id,
      username: "admin",
      passwordHash: yield* Effect.orDie(passwords.hash(password)),
      nowMs: yield* Clock.currentTimeMillis,
    })
    if (added) {
      yield* options.onFirstStart({ username: "admin", password: options.adminPassword === null ? password : null })
    }
  })

  const issue = Effect.fnUntraced(
    function*(user: UserRow, sessionId: string, refreshToken: Redacted.Redacted, refreshExpiresIn: number) {
      const accessToken = yield* signAccessToken(yield* currentSigner, user, sessionId)
      // Made or enabled on another node a moment ago: the token must be good at once.
      if (known?.users.complete === true && !known.users.roles.has(user.id)) yield* trust.fresh
      return {
        accessToken,
        refreshToken,
        expiresIn: lifetimes.accessToken,
        refreshExpiresIn,
        user: profileOf(user),
      } satisfies SignedIn
    },
  )

  /** The user whose name and password these are. */
  const authenticate = Effect.fnUntraced(function*(username: string, password: Redacted.Redacted, caller: Caller) {
    const nowMs = yield* Clock.currentTimeMillis
    // A name can be long and is the client's: its hash has a bounded length.
    const account = `account:${createHash("sha256").update(usernameKey(username)).digest("base64url")}`
    const address = caller.address === "" ? null : `address:${caller.address}`
    const lockedUntil = yield* throttle.begin([
      { subject: account, free: accountFree },
      ...(address === null ? [] : [{ subject: address, free: addressFree }]),
    ], nowMs)
    if (lockedUntil !== null) {
      return yield* new SignInLocked({ retryAfterSeconds: Math.ceil((lockedUntil - nowMs) / 1000) })
    }
    const user = yield* store.users.byName(username)
    const { matches, outdated } = yield* passwords.verify(password, user?.passwordHash ?? null)
    if (!matches || user === null || !user.enabled) return yield* new InvalidCredentials()
    yield* throttle.succeed(account, address, nowMs)
    if (outdated) yield* store.users.setPassword(user.id, yield* passwords.hash(password), null)
    return user
  })

  const self = (who: UserPrincipal) =>
    Effect.filterOrFail(
      store.users.byId(who.userId),
      (user): user is UserRow => user !== null && user.enabled,
      () => gone,
    )

  const endSession = Effect.fnUntraced(function*(sessionId: string, reason: string) {
    yield* store.sessions.end(sessionId, reason, yield* Clock.currentTimeMillis)
    yield* tokens.endSession(sessionId)
  })

  const service = Auth.of({
    login: Effect.fnUntraced(function*(credentials, caller) {
      const user = yield* authenticate(credentials.username, credentials.password, caller)
      const nowMs = yield* Clock.currentTimeMillis
      const id = yield* uuid7
      const refreshToken = randomSecret()
      yield* store.sessions.open({
        id,
        userId: user.id,
        nowMs,
        expiresAtMs: nowMs + lifetimes.sessionIdle * 1000,
        tokenHash: hashOf(refreshToken),
        ...caller,
      })
      return yield* issue(user, id, refreshToken, lifetimes.sessionIdle)
    }, answered),
    refresh: Effect.fnUntraced(function*(token) {
      const nowMs = yield* Clock.currentTimeMillis
      const next = randomSecret()
      const rotation = yield* store.sessions.rotate({
        hash: hashOf(token),
        next: hashOf(next),
        nowMs,
        idleSeconds: lifetimes.sessionIdle,
        maxSeconds: lifetimes.session,
      })
      if (rotation.kind === "replayed") {
        yield* Effect.logWarning(`A used refresh token came again; session ${rotation.sessionId} was ended`)
        yield* endSession(rotation.sessionId, "replay")
      }
      if (rotation.kind !== "rotated") return yield* new InvalidRefreshToken()
      const secondsLeft = Math.max(1, Math.floor((rotation.expiresAtMs - nowMs) / 1000))
      return yield* issue(rotation.user, rotation.sessionId, next, secondsLeft)
    }, answered),
    logout: (who) => answered(endSession(who.sessionId, "logout")),
    heartbeat: Effect.fnUntraced(function*(who) {
      const nowMs = yield* Clock.currentTimeMillis
      const expiresAt = yield* store.sessions.touch(who.sessionId, nowMs)
      if (expiresAt === null) return yield* gone
      return { sessionId: who.sessionId, expiresAt, serverTime: nowMs }
    }, answered),
    profile: (who) => answered(Effect.map(self(who), profileOf)),
    updateProfile: Effect.fnUntraced(function*(who, change, expectedVersion) {
      yield* self(who)
      const changed = yield* store.users.change(who.userId, change, expectedVersion)
      if (!changed) return yield* new VersionConflict({ message: "The profile was changed by somebody else" })
      return profileOf(yield* self(who))
    }, answered),
    changeUsername: Effect.fnUntraced(function*(who, change, caller) {
      const user = yield* self(who)
      yield* authenticate(user.username, change.password, caller)
      yield* store.users.rename(user.id, change.username).pipe(
        Effect.catchIf((error) =>
          error.reason._tag === "UniqueViolation", () =>
          Effect.fail(new UsernameTaken({ username: change.username }))),
      )
      return profileOf(yield* self(who))
    }, answered),
    changePassword: Effect.fnUntraced(function*(who, change, caller) {
      const user = yield* self(who)
      yield* authenticate(user.username, change.current, caller)
      const hash = yield* passwords.hash(change.next)
      const nowMs = yield* Clock.currentTimeMillis
      const ended = yield* store.inTransaction(
        Effect.andThen(
          store.users.setPassword(user.id, hash, nowMs),
          store.sessions.endOthers(user.id, who.sessionId, "password", nowMs),
        ),
      )
      yield* Effect.forEach(ended, tokens.endSession, { discard: true })
    }, answered),
  })

  return { service, firstStart, currentSigner, readTrust, prune: Effect.flatMap(Clock.currentTimeMillis, store.prune) }
})

/**
 * Identity over PostgreSQL. Makes the first user and a signing key before it is ready; tells {@link AccessTokens} what to
 * trust for as long as it lives.
 */
export const authLayer = (options: AuthOptions): Layer.Layer<
  Auth,
  SqlError.SqlError,
  AccessTokens | SqlClient.SqlClient | PgClient.PgClient | Vault | Trust | RoleReach
> =>
  Layer.effect(
    Auth,
    Effect.gen(function*() {
      const auth = yield* make(options)
      const trust = yield* Trust
      yield* auth.firstStart
      yield* trust.reads("what tokens are judged by", auth.readTrust)
      yield* auth.currentSigner
      const quietly = <E>(work: Effect.Effect<void, E>, what: string) =>
        Effect.catchCause(work, (cause) => Effect.logDebug(`${what} must wait`, cause))
      yield* Effect.forkScoped(Effect.repeat(quietly(auth.prune, "Pruning sessions"), Schedule.spaced(pruneEvery)))
      return auth.service
    }),
  )
