/**
 * Identity: signing in, sessions, the own profile, and the check of access tokens.
 *
 * Invariants
 * 1. {@link AccessTokens} lives as long as HTTP and asks no database: once it was told the keys, a valid unexpired token
 *    verifies while PostgreSQL is away. {@link Auth} needs PostgreSQL and comes late.
 * 2. A session that is ended on this node is refused at once, one that is ended on another node within seconds.
 */
import type { InvalidSecondFactor, SecondFactorRequired } from "#schema/auth-factor.ts"
import type { PasswordRefused, SecuritySettings, SessionLimitReached } from "#schema/auth-security.ts"
import type {
  InvalidCredentials,
  InvalidRefreshToken,
  JwkSet,
  Profile,
  ProfileChange,
  PublicJwk,
  SessionState,
  SignInLocked,
  UsernameTaken,
} from "#schema/auth.ts"
import type { EpochMs, UserId } from "#schema/common.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import type { Grant, UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, Unauthenticated, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect, type Redacted, type Stream } from "effect"

/** What the verification of tokens needs to know; whole, it replaces what was known before. */
export interface TokenTrust {
  readonly keys: ReadonlyArray<{ readonly jwk: PublicJwk; readonly expiresAtMs: EpochMs }>
  readonly roles: ReadonlyArray<Grant>
  /**
   * Names of the roles of every user who may sign in, by id. Not `complete` where there are more than are kept: of a user who
   * is not among them the token's own word counts.
   */
  readonly users: { readonly roles: ReadonlyMap<string, ReadonlyArray<string>>; readonly complete: boolean }
  /** Sessions that ended, or ran out, less than the longest life of an access token ago. */
  readonly endedSessions: ReadonlySet<string>
  readonly security: SecuritySettings
}

export class AccessTokens extends Context.Service<AccessTokens, {
  /** The user that a token speaks for. `DependencyUnavailable` before the first {@link TokenTrust}. */
  readonly verify: (token: Redacted.Redacted) => Effect.Effect<UserPrincipal, Unauthenticated | DependencyUnavailable>
  /**
   * What a user holds now, without a token: for what was opened in his name and goes on. Nothing for one who may not sign in;
   * null for one who is not among those that are kept ({@link TokenTrust}).
   */
  readonly grantsOf: (userId: UserId) => Effect.Effect<ReadonlyArray<Grant> | null, DependencyUnavailable>
  readonly jwks: Effect.Effect<JwkSet, DependencyUnavailable>
  readonly trust: (known: TokenTrust) => Effect.Effect<void>
  /** Refuses the access tokens of a session from now on, until {@link TokenTrust} carries it or the tokens are expired. */
  readonly endSession: (sessionId: string) => Effect.Effect<void>
  /** Whether a session ended here, or elsewhere as far as was heard; of the last ten minutes. */
  readonly hasEnded: (sessionId: string) => Effect.Effect<boolean>
  /** Returns when the session has ended, on whatever node: what was opened in its name closes then. */
  readonly untilEnded: (sessionId: string) => Effect.Effect<void>
  /** Ids of sessions as they end. A reader that is thousands behind misses the oldest. */
  readonly ended: Stream.Stream<string>
  /** As they were last read; the defaults before that. */
  readonly settings: Effect.Effect<SecuritySettings>
}>()("nightjar/actors/AccessTokens") {}

/** Where a call comes from. */
export interface Caller {
  /** Address of the peer; empty when unknown. */
  readonly address: string
  readonly userAgent: string
}

/** What a sign-in or a refresh gives. */
export interface SignedIn {
  readonly accessToken: Redacted.Redacted
  readonly refreshToken: Redacted.Redacted
  /** Seconds. */
  readonly expiresIn: number
  /** Seconds until the refresh token expires. */
  readonly refreshExpiresIn: number
  readonly user: Profile
}

export class Auth extends Context.Service<Auth, {
  readonly login: (credentials: {
    readonly username: string
    readonly password: Redacted.Redacted
    /** Code of the second factor. */
    readonly otp?: Redacted.Redacted
    readonly recoveryCode?: Redacted.Redacted
  }, caller: Caller) => Effect.Effect<
    SignedIn,
    | InvalidCredentials
    | SecondFactorRequired
    | InvalidSecondFactor
    | SignInLocked
    | SessionLimitReached
    | LicenseRestricted
    | DependencyUnavailable
  >
  /** Rotates: the given token is used up. One that was used before ends its session. */
  readonly refresh: (
    token: Redacted.Redacted,
    caller: Caller,
  ) => Effect.Effect<SignedIn, InvalidRefreshToken | DependencyUnavailable>
  readonly logout: (who: UserPrincipal) => Effect.Effect<void, DependencyUnavailable>
  /** Keeps the session alive: it ends its idle time from now on, but not beyond its longest life. */
  readonly heartbeat: (who: UserPrincipal) => Effect.Effect<SessionState, Unauthenticated | DependencyUnavailable>
  readonly profile: (who: UserPrincipal) => Effect.Effect<Profile, Unauthenticated | DependencyUnavailable>
  readonly updateProfile: (
    who: UserPrincipal,
    change: ProfileChange,
    expectedVersion: number | null,
  ) => Effect.Effect<Profile, Unauthenticated | VersionConflict | DependencyUnavailable>
  readonly changeUsername: (
    who: UserPrincipal,
    change: { readonly username: string; readonly password: Redacted.Redacted },
    caller: Caller,
  ) => Effect.Effect<
    Profile,
    Unauthenticated | InvalidCredentials | SignInLocked | UsernameTaken | DependencyUnavailable
  >
  /** Ends every other session of the user. A session that could do nothing else can after its next refresh. */
  readonly changePassword: (
    who: UserPrincipal,
    change: { readonly current: Redacted.Redacted; readonly next: Redacted.Redacted },
    caller: Caller,
  ) => Effect.Effect<
    void,
    Unauthenticated | InvalidCredentials | SignInLocked | PasswordRefused | DependencyUnavailable
  >
}>()("nightjar/actors/Auth") {}
