/**
 * Words of identity: users, sessions, tokens, and what can go wrong when somebody signs in.
 *
 * Invariants
 * 1. A password, a refresh token and a signing key never stand in a type that is sent to a client, but for the tokens in the
 *    answer to a sign-in.
 * 2. Which of name and password was wrong is never told.
 */
import { Schema } from "effect"
import { Instant, UserId, Uuid7 } from "./common.ts"

/** No control characters: PostgreSQL takes no NUL, and no list shows the others. */
export const line = (maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\P{Cc}*$/u), Schema.isMaxLength(maximum))

export const DisplayName = line(128)
export const EmailAddress = Schema.String.check(Schema.isPattern(/^[^\s@\p{Cc}]{1,64}@[^\s@\p{Cc}]{1,255}$/u))
/** BCP 47. */
export const Locale = Schema.String.check(Schema.isPattern(/^[A-Za-z]{2,8}(-[A-Za-z0-9]{1,8}){0,8}$/))
/** IANA name. */
export const TimeZoneName = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_+-]{1,32}(\/[A-Za-z0-9_+-]{1,32}){0,3}$/))

/** Trimmed text of a name that people sign in with; compared without regard to case. */
export const Username = Schema.String.check(Schema.isPattern(/^[\p{L}\p{N}][\p{L}\p{N}._@+-]{1,63}$/u))

/** Characters as typed, normalised to NFKC before hashing; what is asked of them stands in the security settings. */
export const passwordMaxLength = 256
export const NewPassword = Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(passwordMaxLength))

/** Lifetimes, in seconds; those of sessions stand in the security settings. */
export const lifetimes = {
  /** An access token. It is checked without asking the database. */
  accessToken: 600,
} as const

export const Profile = Schema.Struct({
  id: UserId,
  username: Schema.String,
  displayName: Schema.String,
  email: Schema.NullOr(Schema.String),
  /** BCP 47, for mails to the user. `null`: English. */
  locale: Schema.NullOr(Schema.String),
  /** IANA name, for mails to the user. `null`: UTC. */
  timeZone: Schema.NullOr(Schema.String),
  roles: Schema.Array(Schema.String),
  createdAt: Instant,
  passwordChangedAt: Instant,
  /** `null` while passwords do not age. */
  passwordExpiresAt: Schema.NullOr(Instant),
  /** Nothing is allowed but a change of the password (403 `password_change_required`); a refresh afterwards frees the session. */
  mustChangePassword: Schema.Boolean,
  version: Schema.Int,
}).annotate({ identifier: "Profile" })
export type Profile = typeof Profile.Type

/** A merge patch (RFC 7396): what is left out stays. */
export const ProfileChange = Schema.Struct({
  displayName: Schema.optionalKey(DisplayName),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)),
  locale: Schema.optionalKey(Schema.NullOr(Locale)),
  timeZone: Schema.optionalKey(Schema.NullOr(TimeZoneName)),
})
export type ProfileChange = typeof ProfileChange.Type

/** The answer to a sign-in and to a refresh. */
export const TokenAnswer = Schema.Struct({
  accessToken: Schema.String,
  /** Left out where the browser keeps it in a cookie. */
  refreshToken: Schema.optionalKey(Schema.String),
  tokenType: Schema.Literal("Bearer"),
  /** Seconds that the access token lives. */
  expiresIn: Schema.Int,
  user: Profile,
}).annotate({ identifier: "TokenAnswer" })
export type TokenAnswer = typeof TokenAnswer.Type

export const SessionId = Uuid7
/** A session as its own heartbeat sees it. */
export const SessionState = Schema.Struct({
  sessionId: SessionId,
  /** When it ends if nobody refreshes it. */
  expiresAt: Instant,
  serverTime: Instant,
}).annotate({ identifier: "SessionState" })
export type SessionState = typeof SessionState.Type

/** What anybody may know before signing in. */
export const PublicAuthConfig = Schema.Struct({
  passwordMinLength: Schema.Int,
  passwordMaxLength: Schema.Int,
  accessTokenSeconds: Schema.Int,
  sessionIdleSeconds: Schema.Int,
  sessionSeconds: Schema.Int,
  /** Name of the cookie that holds a browser's refresh token. */
  refreshCookie: Schema.String,
  /** SHA-256 of the certificate that this node serves HTTPS with; `null` where it serves clear text. */
  tlsFingerprint: Schema.NullOr(Schema.String),
}).annotate({ identifier: "PublicAuthConfig" })
export type PublicAuthConfig = typeof PublicAuthConfig.Type

/** A public key (RFC 7517; RFC 8037 for Ed25519). */
export const PublicJwk = Schema.Struct({
  kty: Schema.Literal("OKP"),
  crv: Schema.Literal("Ed25519"),
  x: Schema.String,
  kid: Schema.String,
  alg: Schema.Literal("EdDSA"),
  use: Schema.Literal("sig"),
})
export type PublicJwk = typeof PublicJwk.Type
export const JwkSet = Schema.Struct({ keys: Schema.Array(PublicJwk) }).annotate({ identifier: "JwkSet" })
export type JwkSet = typeof JwkSet.Type

/** Name or password is wrong. */
export class InvalidCredentials extends Schema.TaggedError<InvalidCredentials>()("InvalidCredentials", {}, {
  httpApiStatus: 401,
}) {
  override get message(): string {
    return "The name or the password is wrong"
  }
}

/** The refresh token is unknown, expired, used before, or its session was ended. */
export class InvalidRefreshToken extends Schema.TaggedError<InvalidRefreshToken>()("InvalidRefreshToken", {}, {
  httpApiStatus: 401,
}) {
  override get message(): string {
    return "The session has ended; sign in again"
  }
}

/** Too many failures for this account or from this address. */
export class SignInLocked extends Schema.TaggedError<SignInLocked>()("SignInLocked", {
  retryAfterSeconds: Schema.Int,
}, { httpApiStatus: 429 }) {
  override get message(): string {
    return `Too many failed attempts; try again in ${this.retryAfterSeconds} s`
  }
}

export class UsernameTaken extends Schema.TaggedError<UsernameTaken>()("UsernameTaken", {
  username: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The name ${this.username} is taken`
  }
}
