/**
 * Managing who may sign in: users, roles, sessions, the security settings, the preferences of the caller.
 *
 * Invariants
 * 1. Nobody gives away what they do not hold, and nobody changes a user who holds more than they do: `Forbidden`.
 * 2. There is always an enabled user with the role `admin`.
 * 3. What changes who may do what holds on this node before the call answers, on the others within two seconds; sessions that
 *    end are refused everywhere within that time.
 */
import type {
  PasswordRefused,
  SecuritySettings,
  SecuritySettingsChange,
  SessionNotFound,
  UserSession,
} from "#schema/auth-security.ts"
import type {
  CreatedUser,
  LastAdministrator,
  NewRole,
  NewUser,
  Preferences,
  Role,
  RoleBuiltIn,
  RoleHeld,
  RoleNameTaken,
  RoleNotFound,
  RoleUpdate,
  User,
  UserFilter,
  UserNotFound,
  UserUpdate,
} from "#schema/auth-users.ts"
import type { SignInLocked, UsernameTaken } from "#schema/auth.ts"
import type { PageOf, PageRequest, UserId } from "#schema/common.ts"
import type { LicenseRestricted } from "#schema/license.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type {
  DependencyUnavailable,
  Forbidden,
  InvalidCursor,
  InvalidInput,
  Unauthenticated,
  VersionConflict,
} from "#schema/problem.ts"
import { Context, type Effect } from "effect"

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

/** Preferences with the version that `ETag` tells; 0: nothing was ever kept. */
export interface VersionedPreferences {
  readonly document: Preferences
  readonly version: number
}

export class Users extends Context.Service<Users, {
  readonly list: (filter: UserFilter, page: PageRequest) => Answer<PageOf<User>, InvalidCursor>
  readonly get: (id: UserId) => Answer<User, UserNotFound>
  /** `SignInLocked`: too many passwords are being hashed at the moment. */
  readonly create: (user: NewUser, who: UserPrincipal) => Answer<
    CreatedUser,
    UsernameTaken | RoleNotFound | PasswordRefused | Forbidden | SignInLocked | LicenseRestricted
  >
  readonly update: (id: UserId, change: UserUpdate, who: UserPrincipal, expectedVersion: number | null) => Answer<
    User,
    | UserNotFound
    | UsernameTaken
    | RoleNotFound
    | PasswordRefused
    | LastAdministrator
    | VersionConflict
    | Forbidden
    | SignInLocked
  >
  readonly remove: (
    id: UserId,
    who: UserPrincipal,
    expectedVersion: number | null,
  ) => Answer<void, UserNotFound | LastAdministrator | VersionConflict | Forbidden>
  readonly unlock: (id: UserId) => Answer<User, UserNotFound>
  readonly roles: (id: UserId) => Answer<ReadonlyArray<Role>, UserNotFound>
  /** Granting what is held already changes nothing. */
  readonly grant: (
    id: UserId,
    role: string,
    who: UserPrincipal,
  ) => Answer<User, UserNotFound | RoleNotFound | Forbidden>
  /** `RoleNotFound` also where the user does not hold it. */
  readonly revoke: (
    id: UserId,
    role: string,
    who: UserPrincipal,
  ) => Answer<void, UserNotFound | RoleNotFound | LastAdministrator | Forbidden>
  readonly preferences: (who: UserPrincipal) => Answer<VersionedPreferences>
  /** RFC 7396. */
  readonly updatePreferences: (
    who: UserPrincipal,
    patch: Preferences,
    expectedVersion: number | null,
  ) => Answer<VersionedPreferences, InvalidInput | VersionConflict | Unauthenticated>
}>()("nightjar/actors/Users") {}

export class Roles extends Context.Service<Roles, {
  readonly list: (page: PageRequest) => Answer<PageOf<Role>, InvalidCursor>
  readonly get: (name: string) => Answer<Role, RoleNotFound>
  readonly create: (role: NewRole, who: UserPrincipal) => Answer<Role, RoleNameTaken | Forbidden>
  /** Also for the permissions alone. */
  readonly update: (
    name: string,
    change: RoleUpdate,
    who: UserPrincipal,
    expectedVersion: number | null,
  ) => Answer<Role, RoleNotFound | RoleBuiltIn | VersionConflict | Forbidden>
  readonly remove: (
    name: string,
    expectedVersion: number | null,
  ) => Answer<void, RoleNotFound | RoleBuiltIn | RoleHeld | VersionConflict>
  readonly users: (name: string, page: PageRequest) => Answer<PageOf<User>, RoleNotFound | InvalidCursor>
}>()("nightjar/actors/Roles") {}

export class Sessions extends Context.Service<Sessions, {
  /** Live ones, newest first; `userId` null: of all users. */
  readonly list: (
    userId: UserId | null,
    who: UserPrincipal,
    page: PageRequest,
  ) => Answer<PageOf<UserSession>, UserNotFound | InvalidCursor>
  /** Whether a session goes on, as the database knows it. */
  readonly isLive: (sessionId: string) => Answer<boolean>
  /** Ends every session of a user; answers how many there were. */
  readonly terminate: (userId: UserId) => Answer<number, UserNotFound>
  /** Ends a session of the caller. */
  readonly endOwn: (who: UserPrincipal, sessionId: string) => Answer<void, SessionNotFound>
  readonly settings: () => Answer<SecuritySettings>
  readonly updateSettings: (
    change: SecuritySettingsChange,
    expectedVersion: number | null,
  ) => Answer<SecuritySettings, InvalidInput | VersionConflict>
}>()("nightjar/actors/Sessions") {}
