/**
 * Words of the management of users and roles, and of a user's own preferences.
 *
 * Invariants
 * 1. A password goes in and never comes out, but for one that the product made: it is told once, in the answer that made it.
 * 2. There is always an administrator: an enabled user with the role `admin`.
 */
import { Schema } from "effect"
import { DisplayName, EmailAddress, line, Locale, NewPassword, TimeZoneName, Username } from "./auth.ts"
import { Instant, UserId } from "./common.ts"
import { Permission, ptzPriorities } from "./permission.ts"

/** Letters, digits and `. _ -`, with spaces inside. */
export const RoleName = Schema.String.check(
  Schema.isPattern(/^[\p{L}\p{N}](?:[\p{L}\p{N} ._-]{0,62}[\p{L}\p{N}._-])?$/u),
)

/** A user as administrators see them. */
export const User = Schema.Struct({
  id: UserId,
  username: Schema.String,
  displayName: Schema.String,
  email: Schema.NullOr(Schema.String),
  locale: Schema.NullOr(Schema.String),
  timeZone: Schema.NullOr(Schema.String),
  roles: Schema.Array(Schema.String),
  enabled: Schema.Boolean,
  /** The next sign-in is good for nothing but a change of the password. */
  mustChangePassword: Schema.Boolean,
  createdAt: Instant,
  passwordChangedAt: Instant,
  /** `null` while passwords do not age. */
  passwordExpiresAt: Schema.NullOr(Instant),
  lastSignInAt: Schema.NullOr(Instant),
  /** Until when sign-ins are refused after failures; `null`: they are not. */
  lockedUntil: Schema.NullOr(Instant),
  /** Sessions that have not ended. */
  activeSessions: Schema.Int,
  version: Schema.Int,
}).annotate({ identifier: "User" })
export type User = typeof User.Type

/** `initialPassword` where none was given: shown this once. */
export const CreatedUser = Schema.Struct({ ...User.fields, initialPassword: Schema.optionalKey(Schema.String) })
  .annotate({ identifier: "CreatedUser" })
export type CreatedUser = typeof CreatedUser.Type

/** Judged by the security settings. */
const ProposedPassword = NewPassword.pipe(Schema.RedactedFromValue)

/** Roles of one user. */
const RoleNames = Schema.Array(RoleName).check(Schema.isMaxLength(50))

export const NewUser = Schema.Struct({
  username: Username,
  /** Left out: a random one is made and told once. */
  password: Schema.optionalKey(ProposedPassword),
  displayName: Schema.optionalKey(DisplayName),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)),
  locale: Schema.optionalKey(Schema.NullOr(Locale)),
  timeZone: Schema.optionalKey(Schema.NullOr(TimeZoneName)),
  roles: Schema.optionalKey(RoleNames),
  /** `true` if left out. */
  enabled: Schema.optionalKey(Schema.Boolean),
  /** `true` if left out. */
  mustChangePassword: Schema.optionalKey(Schema.Boolean),
})
export type NewUser = typeof NewUser.Type

/** What is left out stays. */
export const UserUpdate = Schema.Struct({
  username: Schema.optionalKey(Username),
  /** Ends every session of the user. */
  password: Schema.optionalKey(ProposedPassword),
  displayName: Schema.optionalKey(DisplayName),
  email: Schema.optionalKey(Schema.NullOr(EmailAddress)),
  locale: Schema.optionalKey(Schema.NullOr(Locale)),
  timeZone: Schema.optionalKey(Schema.NullOr(TimeZoneName)),
  roles: Schema.optionalKey(RoleNames),
  /** `false` ends every session of the user. */
  enabled: Schema.optionalKey(Schema.Boolean),
  /** Left out beside a password: `true`. */
  mustChangePassword: Schema.optionalKey(Schema.Boolean),
})
export type UserUpdate = typeof UserUpdate.Type

export interface UserFilter {
  /** Part of the name, the display name or the address, in any case of letters. */
  readonly text?: string
  readonly role?: string
  readonly enabled?: boolean
}

export const Role = Schema.Struct({
  name: Schema.String,
  description: Schema.String,
  /** Follows the release that runs; can be neither changed nor deleted. */
  builtIn: Schema.Boolean,
  /** Names of permissions; `*`: all, also those of later releases. */
  permissions: Schema.Array(Schema.String),
  /** Who moves a camera when two want to: the higher one. A user has the highest of his roles. */
  ptzPriority: Schema.Int,
  /** Users who hold it. */
  users: Schema.Int,
  version: Schema.Int,
}).annotate({ identifier: "Role" })
export type Role = typeof Role.Type

const RoleDescription = line(512)
const PtzPriority = Schema.Int.check(Schema.isBetween({ minimum: ptzPriorities.least, maximum: ptzPriorities.most }))
const RolePermissions = Schema.Array(Permission).check(Schema.isMaxLength(200))

export const NewRole = Schema.Struct({
  name: RoleName,
  description: Schema.optionalKey(RoleDescription),
  permissions: Schema.optionalKey(RolePermissions),
  /** 50 if left out. */
  ptzPriority: Schema.optionalKey(PtzPriority),
})
export type NewRole = typeof NewRole.Type

/** What is left out stays. */
export const RoleUpdate = Schema.Struct({
  description: Schema.optionalKey(RoleDescription),
  permissions: Schema.optionalKey(RolePermissions),
  ptzPriority: Schema.optionalKey(PtzPriority),
})
export type RoleUpdate = typeof RoleUpdate.Type

/** Bounds of a user's preferences: bytes of their JSON text, and levels of nesting. */
export const preferenceLimits = { bytes: 65_536, depth: 16 } as const

/** A document of the client's own making. */
export const Preferences = Schema.Record(Schema.String, Schema.Unknown).annotate({ identifier: "Preferences" })
export type Preferences = typeof Preferences.Type

export class UserNotFound extends Schema.TaggedError<UserNotFound>()("UserNotFound", {
  userId: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no user ${this.userId}`
  }
}

export class RoleNotFound extends Schema.TaggedError<RoleNotFound>()("RoleNotFound", {
  role: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no role ${this.role}`
  }
}

export class RoleNameTaken extends Schema.TaggedError<RoleNameTaken>()("RoleNameTaken", {
  role: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `There is a role ${this.role} already`
  }
}

/** Holders are named, 20 at most. */
export class RoleHeld extends Schema.TaggedError<RoleHeld>()("RoleHeld", {
  role: Schema.String,
  users: Schema.Array(Schema.String),
  count: Schema.Int,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    const more = this.count > this.users.length ? `, and ${this.count - this.users.length} more` : ""
    return `The role ${this.role} is held by ${this.users.join(", ")}${more}`
  }
}

export class RoleBuiltIn extends Schema.TaggedError<RoleBuiltIn>()("RoleBuiltIn", {
  role: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return `The role ${this.role} comes with the product and cannot be changed or deleted`
  }
}

/** Without this user nobody could manage the cluster any more. */
export class LastAdministrator extends Schema.TaggedError<LastAdministrator>()("LastAdministrator", {}, {
  httpApiStatus: 409,
}) {
  override get message(): string {
    return "This is the last administrator; make another one first"
  }
}
