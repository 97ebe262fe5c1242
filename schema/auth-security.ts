/**
 * Words of the security settings: what passwords must be, when sign-ins are locked, how long and how many sessions live.
 *
 * Invariants
 * 1. Every rule has a default; a cluster that never changed one runs by {@link defaultSecuritySettings}.
 * 2. A change holds from the next sign-in, refresh or password change on. Passwords and sessions of before are not touched,
 *    but a session never outlives the limits at its next refresh.
 */
import { Schema } from "effect"
import { Instant, UserId, Uuid7 } from "./common.ts"

const whole = (minimum: number, maximum: number) => Schema.Int.check(Schema.isBetween({ minimum, maximum }))

const settings = {
  /** Characters. NIST SP 800-63B asks for 8 at least. */
  passwordMinLength: whole(8, 64),
  /** The newest n passwords of a user, the current one included, cannot be taken again; 0 forbids none. */
  passwordHistory: whole(0, 24),
  /** Days after which a password must be changed; 0: never. */
  passwordMaxAgeDays: whole(0, 3650),
  /** A password must not contain the name of its user. */
  passwordForbidUsername: Schema.Boolean,
  /** A password must not be one of the most common ones. */
  passwordForbidCommon: Schema.Boolean,
  /** Failed sign-ins of an account until it is locked for the first time. */
  lockoutAccountFailures: whole(1, 100),
  /** Failed sign-ins from an address until it is locked for the first time. An office may share one. */
  lockoutAddressFailures: whole(1, 10_000),
  /** Length of the first lock; each further failure doubles it. */
  lockoutFirstSeconds: whole(1, 3600),
  /** Length of the longest lock. */
  lockoutMaxSeconds: whole(1, 86_400),
  /** A session that neither refreshes nor sends a heartbeat ends after this. */
  sessionIdleMinutes: whole(5, 525_600),
  /** A session ends after this, whatever it does. */
  sessionMaxHours: whole(1, 8_760),
  /** Sessions that a user may have at the same time; 0: no limit. */
  sessionsPerUser: whole(0, 1000),
  /** What becomes of a sign-in beyond that; a session that was not seen for 15 minutes makes room where it is refused. */
  sessionLimitAction: Schema.Literals(["refuse", "endOldest"]),
} as const

export const SecuritySettings = Schema.Struct({ ...settings, version: Schema.Int })
  .annotate({ identifier: "SecuritySettings" })
export type SecuritySettings = typeof SecuritySettings.Type

/** What is left out stays. */
export const SecuritySettingsChange = Schema.Struct({
  passwordMinLength: Schema.optionalKey(settings.passwordMinLength),
  passwordHistory: Schema.optionalKey(settings.passwordHistory),
  passwordMaxAgeDays: Schema.optionalKey(settings.passwordMaxAgeDays),
  passwordForbidUsername: Schema.optionalKey(settings.passwordForbidUsername),
  passwordForbidCommon: Schema.optionalKey(settings.passwordForbidCommon),
  lockoutAccountFailures: Schema.optionalKey(settings.lockoutAccountFailures),
  lockoutAddressFailures: Schema.optionalKey(settings.lockoutAddressFailures),
  lockoutFirstSeconds: Schema.optionalKey(settings.lockoutFirstSeconds),
  lockoutMaxSeconds: Schema.optionalKey(settings.lockoutMaxSeconds),
  sessionIdleMinutes: Schema.optionalKey(settings.sessionIdleMinutes),
  sessionMaxHours: Schema.optionalKey(settings.sessionMaxHours),
  sessionsPerUser: Schema.optionalKey(settings.sessionsPerUser),
  sessionLimitAction: Schema.optionalKey(settings.sessionLimitAction),
})
export type SecuritySettingsChange = typeof SecuritySettingsChange.Type

export const defaultSecuritySettings: SecuritySettings = {
  passwordMinLength: 10,
  passwordHistory: 3,
  passwordMaxAgeDays: 0,
  passwordForbidUsername: true,
  passwordForbidCommon: true,
  lockoutAccountFailures: 5,
  lockoutAddressFailures: 20,
  lockoutFirstSeconds: 1,
  lockoutMaxSeconds: 900,
  sessionIdleMinutes: 7 * 1440,
  sessionMaxHours: 30 * 24,
  sessionsPerUser: 0,
  sessionLimitAction: "endOldest",
  version: 1,
}

/** A sign-in that has not ended. */
export const UserSession = Schema.Struct({
  id: Uuid7,
  userId: UserId,
  username: Schema.String,
  createdAt: Instant,
  /** Its last refresh or heartbeat. */
  lastSeenAt: Instant,
  expiresAt: Instant,
  address: Schema.String,
  userAgent: Schema.String,
  /** The session of the one who asks. */
  current: Schema.Boolean,
}).annotate({ identifier: "UserSession" })
export type UserSession = typeof UserSession.Type

export const SessionsEnded = Schema.Struct({ ended: Schema.Int }).annotate({ identifier: "SessionsEnded" })

/** There is no such session, or it has ended, or it is somebody else's. */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>()("SessionNotFound", {
  sessionId: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no session ${this.sessionId}`
  }
}

/** The user has as many sessions as are allowed, and the settings say `refuse`. */
export class SessionLimitReached extends Schema.TaggedError<SessionLimitReached>()("SessionLimitReached", {
  limit: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `This user is signed in ${this.limit} times already, which is the limit`
  }
}

/** The password is to be changed first: it is a given one, or too old. */
export class PasswordChangeRequired extends Schema.TaggedError<PasswordChangeRequired>()("PasswordChangeRequired", {}, {
  httpApiStatus: 403,
}) {
  override get message(): string {
    return "The password must be changed before anything else"
  }
}

/** A rule that a new password broke. */
export const PasswordRule = Schema.Literals(["tooShort", "containsUsername", "usedBefore", "common"])
export type PasswordRule = typeof PasswordRule.Type

const ruleText: Record<PasswordRule, string> = {
  tooShort: "it is too short",
  containsUsername: "it contains the name of its user",
  usedBefore: "it was used before",
  common: "it is one of the most common passwords",
}

/** A new password breaks rules of the security settings. */
export class PasswordRefused extends Schema.TaggedError<PasswordRefused>()("PasswordRefused", {
  rules: Schema.Array(PasswordRule),
  minLength: Schema.Int,
}, { httpApiStatus: 422 }) {
  override get message(): string {
    return `The new password cannot be taken: ${this.rules.map((rule) => ruleText[rule]).join(", ")}`
  }
}
