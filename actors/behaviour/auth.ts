/**
 * Identity: sign-in with throttling, sessions with rotating refresh tokens, the own profile, the first user.
 *
 * Invariants
 * 1. A refresh token that comes a second time ends its session: one of the two who hold it stole it (RFC 9700, section 4.14).
 * 2. Every password check, also those of a signed-in user, counts against the throttle (`auth-authenticate.ts`).
 * 3. A session that ends is refused on this node before the call answers, on the others within moments (`Trust`).
 * 4. Rules of passwords, locks and sessions are read from the security settings for each call.
 */
import { Trust } from "#actors/protocol/auth-trust.ts"
import { AccessTokens, Auth, type SignedIn, type TokenTrust } from "#actors/protocol/auth.ts"
import type { Events } from "#actors/protocol/event.ts"
import { RoleReach } from "#actors/protocol/permission.ts"
import { type SecuritySettings, SessionLimitReached } from "#schema/auth-security.ts"
import { InvalidCredentials, InvalidRefreshToken, type Profile, type PublicJwk, UsernameTaken } from "#schema/auth.ts"
import { type EpochMs, UserId } from "#schema/common.ts"
import { builtInRoles, type UserPrincipal } from "#schema/permission.ts"
import { Unauthenticated, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { ownVault, Vault } from "#schema/vault.ts"
import type { PgClient } from "@effect/sql-pg"
import { Clock, Effect, Layer, Redacted, Schedule } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"
import { answered } from "../store/answer.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"
import { AuthSecurityStore } from "../store/auth-security.ts"
import { AuthSessionsStore } from "../store/auth-sessions.ts"
import { AuthTrustStore } from "../store/auth-trust.ts"
import { AuthUsersStore, type UserRow } from "../store/auth-users.ts"
import { AuthStore } from "../store/auth.ts"
import { makeAuthenticate } from "./auth-authenticate.ts"
import { makeKeyRing, signAccessToken } from "./auth-keys.ts"
import { makeLicensed } from "./auth-license.ts"
import { Passwords, randomPassword } from "./auth-passwords.ts"
import { checkNewPassword, mustChange, passwordExpiry } from "./auth-policy.ts"
import { makeEndSessions, sessionRules } from "./auth-sessions.ts"
import { endingsMatterMs } from "./auth-tokens.ts"
import { chore } from "./chore.ts"

export interface AuthOptions {
  /** Password of the user `admin` at the first start; `null` for a random one. */
  readonly adminPassword: Redacted.Redacted | null
  /** Called once in the life of a cluster, when `admin` was made. `password` is `null` where the operator gave it. */
  readonly onFirstStart: (
    first: { readonly username: string; readonly password: Redacted.Redacted | null },
  ) => Effect.Effect<void>
}

const pruneEvery = "1 hour"
/** Well below the time that the next signing key is published before it signs. */
const maintainKeysEvery = "10 minutes"

const randomSecret = () => Redacted.make(randomBytes(32).toString("base64url"))
const hashOf = (token: Redacted.Redacted) => createHash("sha256").update(Redacted.value(token)).digest()

const profileOf = (user: UserRow, settings: SecuritySettings, nowMs: EpochMs): Profile => ({
  id: UserId.make(user.id),
  username: user.username,
  displayName: user.displayName,
  email: user.email,
  locale: user.locale,
  timeZone: user.timeZone,
  roles: user.roles,
  createdAt: user.createdAt.getTime(),
  passwordChangedAt: user.passwordChangedAt.getTime(),
  passwordExpiresAt: passwordExpiry(user.passwordChangedAt.getTime(), settings),
  mustChangePassword: mustChange(user, settings, nowMs),
  version: user.version,
})

const gone = new Unauthenticated({ message: "The session has ended; sign in again" })

const makeStores = Effect.all({
  auth: AuthStore,
  users: AuthUsersStore,
  roles: AuthRolesStore,
  sessions: AuthSessionsStore,
  security: AuthSecurityStore,
  trusted: AuthTrustStore,
})
type Stores = Effect.Success<typeof makeStores>

const publicKey = (kid: string, x: string): PublicJwk => ({
  kty: "OKP",
  crv: "Ed25519",
  x,
  kid,
  alg: "EdDSA",
  use: "sig",
})

/** What access tokens are judged by, and the key to sign them with. */
const makeSigning = Effect.fnUntraced(function*(stores: Stores) {
  const tokens = yield* AccessTokens
  const trust = yield* Trust
  const reach = yield* RoleReach
  // Each node signs with keys of its own.
  const vault = yield* ownVault
  let known: TokenTrust | null = null

  const readTrust = Effect.gen(function*() {
    const nowMs = yield* Clock.currentTimeMillis
    const keys = yield* stores.auth.keys.list(nowMs)
    const narrowed = yield* reach.read
    known = {
      keys: keys.map((row) => ({ jwk: publicKey(row.kid, row.publicX), expiresAtMs: row.expiresAt.getTime() })),
      roles: (yield* stores.roles.permissions()).map((one) => ({
        ...one,
        resources: narrowed.get(one.role) ?? "all",
      })),
      users: yield* stores.trusted.users,
      endedSessions: new Set(yield* stores.sessions.over(nowMs - endingsMatterMs, nowMs)),
      security: yield* stores.security.read,
    }
    yield* tokens.trust(known)
  }).pipe(stores.trusted.oneMoment)

  // What a key signs must verify from the first token on.
  const ring = makeKeyRing(stores.auth.keys, trust.changed)
  const sign = Effect.fnUntraced(function*(session: Parameters<typeof signAccessToken>[1]) {
    const signed = yield* signAccessToken(yield* Effect.provideService(ring.current, Vault, vault), session)
    // Made or enabled on another node a moment ago: the token must be good at once.
    if (known?.users.complete === true && !known.users.roles.has(session.user.id)) yield* trust.fresh
    return signed
  })
  return { readTrust, sign, maintainKeys: Effect.provideService(ring.maintain, Vault, vault) }
})

const makeFirstStart = Effect.fnUntraced(
  function*(stores: Stores, passwords: Passwords["Service"], options: AuthOptions) {
    yield* stores.roles.seed(Object.entries(builtInRoles).map(([name, role]) => ({ name, ...role })))
    const password = options.adminPassword ?? randomPassword(0)
    const added = yield* stores.users.addFirst({
      id: yield* uuid7,
      username: "admin",
      passwordHash: yield* Effect.orDie(passwords.hash(password)),
      displayName: "",
      email: null,
      locale: null,
      timeZone: null,
      enabled: true,
      mustChangePassword: false,
      roles: ["admin"],
      nowMs: yield* Clock.currentTimeMillis,
    }).pipe(Effect.catchTag("RoleNotFound", Effect.die))
    if (added) {
      yield* options.onFirstStart({ username: "admin", password: options.adminPassword === null ? password : null })
    }
  },
)

const make = Effect.fnUntraced(function*(options: AuthOptions) {
  const stores = yield* makeStores
  const passwords = yield* Passwords
  const signing = yield* makeSigning(stores)
  const endSessions = yield* makeEndSessions
  const licensed = yield* makeLicensed
  const authenticate = yield* makeAuthenticate
  const { security, sessions, users } = stores

  const issue = Effect.fnUntraced(
    function*(
      user: UserRow,
      session: { readonly id: string; readonly refreshToken: Redacted.Redacted; readonly endsAtMs: EpochMs },
      settings: SecuritySettings,
    ) {
      const nowMs = yield* Clock.currentTimeMillis
      const { endsAtMs, id, refreshToken } = session
      const onlyPassword = mustChange(user, settings, nowMs)
      const { expiresIn, token } = yield* signing.sign({ user, sessionId: id, endsAtMs, onlyPassword })
      return {
        accessToken: token,
        refreshToken,
        expiresIn,
        refreshExpiresIn: Math.max(1, Math.floor((endsAtMs - nowMs) / 1000)),
        user: profileOf(user, settings, nowMs),
      } satisfies SignedIn
    },
  )

  const self = (who: UserPrincipal) =>
    Effect.filterOrFail(
      stores.auth.users.byId(who.userId),
      (user): user is UserRow => user !== null && user.enabled,
      () => gone,
    )
  const ownProfile = Effect.fnUntraced(function*(who: UserPrincipal) {
    return profileOf(yield* self(who), yield* security.read, yield* Clock.currentTimeMillis)
  })

  const service = Auth.of({
    login: Effect.fnUntraced(function*(credentials, caller) {
      const settings = yield* security.read
      const user = yield* authenticate.whole(credentials, caller, settings)
      yield* licensed(user)
      const id = yield* uuid7
      const refreshToken = randomSecret()
      const session = { id, userId: user.id, nowMs: yield* Clock.currentTimeMillis, tokenHash: hashOf(refreshToken) }
      const opened = yield* sessions.open({ ...session, ...caller }, sessionRules(settings))
      if (opened.kind === "refused") return yield* new InvalidCredentials()
      if (opened.kind === "limit") return yield* new SessionLimitReached({ limit: settings.sessionsPerUser })
      yield* endSessions({ userId: user.id, ids: opened.ended, reason: "limit" })
      return yield* issue(user, { id, refreshToken, endsAtMs: opened.expiresAtMs }, settings)
    }, answered),
    refresh: Effect.fnUntraced(function*(token) {
      const nowMs = yield* Clock.currentTimeMillis
      const next = randomSecret()
      const settings = yield* security.read
      const presented = { hash: hashOf(token), next: hashOf(next), nowMs }
      const rotation = yield* sessions.rotate(presented, sessionRules(settings))
      if (rotation.kind === "replayed") {
        yield* Effect.logWarning(`A used refresh token came again; session ${rotation.sessionId} was ended`)
        yield* sessions.end(rotation.sessionId, "replay", nowMs)
        yield* endSessions({ userId: rotation.userId, ids: [rotation.sessionId], reason: "replay" })
      }
      if (rotation.kind !== "rotated") return yield* new InvalidRefreshToken()
      const session = { id: rotation.sessionId, refreshToken: next, endsAtMs: rotation.expiresAtMs }
      return yield* issue(rotation.user, session, settings)
    }, answered),
    logout: Effect.fnUntraced(function*({ sessionId, userId }) {
      yield* sessions.end(sessionId, "logout", yield* Clock.currentTimeMillis)
      yield* endSessions({ userId, ids: [sessionId], reason: "logout" })
    }, answered),
    heartbeat: Effect.fnUntraced(function*(who) {
      const nowMs = yield* Clock.currentTimeMillis
      const expiresAt = yield* sessions.touch(who.sessionId, nowMs, sessionRules(yield* security.read))
      if (expiresAt === null) return yield* gone
      return { sessionId: who.sessionId, expiresAt, serverTime: nowMs }
    }, answered),
    profile: (who) => answered(ownProfile(who)),
    updateProfile: Effect.fnUntraced(function*(who, change, expectedVersion) {
      yield* self(who)
      const changed = yield* users.set(who.userId, change, expectedVersion)
      if (!changed) return yield* new VersionConflict({ message: "The profile was changed by somebody else" })
      return yield* ownProfile(who)
    }, answered),
    changeUsername: Effect.fnUntraced(function*(who, change, caller) {
      const user = yield* self(who)
      const credentials = { username: user.username, password: change.password }
      yield* authenticate.password(credentials, caller, yield* security.read)
      yield* users.set(user.id, { username: change.username }, null).pipe(
        Effect.catchIf((error) =>
          error.reason._tag === "UniqueViolation", () =>
          Effect.fail(new UsernameTaken({ username: change.username }))),
      )
      return yield* ownProfile(who)
    }, answered),
    changePassword: Effect.fnUntraced(function*(who, change, caller) {
      const user = yield* self(who)
      const settings = yield* security.read
      yield* authenticate.password({ username: user.username, password: change.current }, caller, settings)
      const owner = { username: user.username, before: yield* users.passwords(user.id, settings.passwordHistory) }
      yield* checkNewPassword(passwords, change.next, owner, settings)
      const hash = yield* passwords.hash(change.next)
      const nowMs = yield* Clock.currentTimeMillis
      const ended = yield* users.inTransaction(
        Effect.andThen(
          users.set(user.id, { password: { hash, nowMs }, mustChangePassword: false }, null),
          sessions.endAll(user.id, who.sessionId, "password", nowMs),
        ),
      )
      yield* endSessions({ userId: user.id, ids: ended, reason: "password" })
    }, answered),
  })

  return {
    service,
    firstStart: makeFirstStart(stores, passwords, options),
    readTrust: signing.readTrust,
    maintainKeys: signing.maintainKeys,
    prune: Effect.flatMap(Clock.currentTimeMillis, stores.auth.prune),
  }
})

/**
 * Identity over PostgreSQL. Makes the first user and a signing key before it is ready; tells {@link AccessTokens} what to
 * trust for as long as it lives.
 */
export const authLayer = (options: AuthOptions): Layer.Layer<
  Auth,
  SqlError.SqlError,
  AccessTokens | SqlClient.SqlClient | PgClient.PgClient | Vault | Trust | RoleReach | Passwords | Events
> =>
  Layer.effect(
    Auth,
    Effect.gen(function*() {
      const auth = yield* make(options)
      const trust = yield* Trust
      yield* auth.firstStart
      yield* trust.reads("what tokens are judged by", auth.readTrust)
      yield* auth.maintainKeys
      yield* Effect.forkScoped(Effect.repeat(chore("Pruning sessions", auth.prune), Schedule.spaced(pruneEvery)))
      yield* Effect.forkScoped(
        Effect.repeat(chore("Making the next signing key", auth.maintainKeys), Schedule.spaced(maintainKeysEvery)),
      )
      return auth.service
    }),
  )
