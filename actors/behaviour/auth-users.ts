/**
 * {@link Users}: making, changing and deleting users, their roles, their preferences.
 *
 * Invariants
 * 1. Whoever manages users is measured against what the user to be changed holds, in the transaction of the change.
 * 2. What makes a password or an account void ends its sessions in the same transaction.
 * 3. Nobody changes the own password here: that asks for the old one (`Auth.changePassword`).
 */
import { Trust } from "#actors/protocol/auth-trust.ts"
import { Users, type VersionedPreferences } from "#actors/protocol/auth-users.ts"
import type { AccessTokens } from "#actors/protocol/auth.ts"
import type { Events } from "#actors/protocol/event.ts"
import { LicenseGate } from "#actors/protocol/license.ts"
import type { SecuritySettings } from "#schema/auth-security.ts"
import {
  preferenceLimits,
  type Preferences,
  RoleNotFound,
  type User,
  UserNotFound,
  type UserUpdate,
} from "#schema/auth-users.ts"
import { UsernameTaken } from "#schema/auth.ts"
import { type EpochMs, UserId } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { depthOf, mergePatch } from "#schema/merge-patch.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { Forbidden, InvalidInput, Unauthenticated, VersionConflict } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Redacted, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"
import { AuthSecurityStore } from "../store/auth-security.ts"
import { AuthSessionsStore } from "../store/auth-sessions.ts"
import { accountSubject, AuthThrottleStore } from "../store/auth-throttle.ts"
import { AuthUsersStore, type ManagedRow, type UserSet } from "../store/auth-users.ts"
import { mustHold } from "./auth-guard.ts"
import { Passwords, randomPassword } from "./auth-passwords.ts"
import { checkNewPassword, mustChange, passwordExpiry } from "./auth-policy.ts"
import { type EndedSessions, makeEndSessions, type SessionEnd } from "./auth-sessions.ts"

const cursor = cursorOf("users", Schema.String.check(Schema.isPattern(/^\P{Cc}*$/u)))
const holdsMore = "This user holds more than you do"
const givesMore = "You cannot give a role that grants more than you hold yourself"
const ownPassword = "Your own password is changed at auth/password, with the old one"

const userOf = (
  row: ManagedRow,
  lockedUntil: ReadonlyMap<string, EpochMs>,
  settings: SecuritySettings,
  nowMs: EpochMs,
): User => ({
  id: UserId.make(row.id),
  username: row.username,
  displayName: row.displayName,
  email: row.email,
  locale: row.locale,
  timeZone: row.timeZone,
  roles: row.roles,
  enabled: row.enabled,
  mustChangePassword: mustChange(row, settings, nowMs),
  createdAt: row.createdAt.getTime(),
  passwordChangedAt: row.passwordChangedAt.getTime(),
  passwordExpiresAt: passwordExpiry(row.passwordChangedAt.getTime(), settings),
  lastSignInAt: row.lastSignInAt?.getTime() ?? null,
  lockedUntil: lockedUntil.get(accountSubject(row.username)) ?? null,
  activeSessions: row.activeSessions,
  version: row.version,
})

const stores = Effect.all({
  users: AuthUsersStore,
  roles: AuthRolesStore,
  sessions: AuthSessionsStore,
  security: AuthSecurityStore,
  throttle: AuthThrottleStore,
})
type Stores = Effect.Success<typeof stores>

const taken = (username: string) => <A, E, R>(work: Effect.Effect<A, E | SqlError.SqlError, R>) =>
  Effect.catchIf(
    work as Effect.Effect<A, SqlError.SqlError, R>,
    (error) => error._tag === "SqlError" && error.reason._tag === "UniqueViolation",
    () => Effect.fail(new UsernameTaken({ username })),
  ) as Effect.Effect<A, E | SqlError.SqlError | UsernameTaken, R>

const makeReads = ({ roles, security, throttle, users }: Stores) => {
  const shown = Effect.fnUntraced(function*(rows: ReadonlyArray<ManagedRow>, nowMs: EpochMs) {
    const settings = yield* security.read
    const locked = yield* throttle.locked(rows.map(({ username }) => accountSubject(username)), nowMs)
    return rows.map((row) => userOf(row, locked, settings, nowMs))
  })
  const row = Effect.fnUntraced(function*(userId: UserId) {
    const nowMs = yield* Clock.currentTimeMillis
    return (yield* users.get(userId, nowMs)) ?? (yield* new UserNotFound({ userId }))
  })
  const get = Effect.fnUntraced(function*(userId: UserId) {
    const [user] = yield* shown([yield* row(userId)], yield* Clock.currentTimeMillis)
    return user!
  })
  /** The roles of these names; the first that there is not fails. */
  const named = Effect.fnUntraced(function*(names: ReadonlyArray<string>) {
    const found = yield* roles.named(names)
    const missing = names.find((name) => !found.some((role) => role.name === name))
    if (missing !== undefined) return yield* new RoleNotFound({ role: missing })
    return found
  })
  return { shown, row, get, named }
}
type Reads = ReturnType<typeof makeReads>

const makeList = ({ users }: Stores, { shown }: Reads): Users["Service"]["list"] =>
  Effect.fnUntraced(function*(filter, page) {
    const nowMs = yield* Clock.currentTimeMillis
    const rows = yield* users.list(filter, page.limit + 1, yield* cursor.decode(page.cursor), nowMs)
    const { items, nextCursor } = pageFrom({
      rows,
      limit: page.limit,
      cursor,
      position: ({ usernameKey }) => usernameKey,
      item: (row) => row,
    })
    return { items: yield* shown(items, nowMs), nextCursor }
  }, answered)

const makeCreate = Effect.fnUntraced(function*({ security, users }: Stores, { get, named }: Reads) {
  const passwords = yield* Passwords
  const trust = yield* Trust
  const gate = yield* LicenseGate
  const create: Users["Service"]["create"] = Effect.fnUntraced(function*(user, who) {
    yield* gate.mayAdd("users")
    const settings = yield* security.read
    yield* mustHold(who, yield* named(user.roles ?? []), givesMore)
    const given = user.password
    if (given !== undefined) {
      yield* checkNewPassword(passwords, given, { username: user.username, before: [] }, settings)
    }
    const password = given ?? randomPassword(settings.passwordMinLength)
    const id = UserId.make(yield* uuid7)
    const row = {
      id,
      username: user.username,
      passwordHash: yield* passwords.hash(password),
      displayName: user.displayName ?? "",
      email: user.email ?? null,
      locale: user.locale ?? null,
      timeZone: user.timeZone ?? null,
      enabled: user.enabled ?? true,
      mustChangePassword: user.mustChangePassword ?? true,
      roles: user.roles ?? [],
      nowMs: yield* Clock.currentTimeMillis,
    }
    yield* users.inTransaction(users.insert(row)).pipe(taken(user.username))
    yield* trust.changed
    // Deleted by somebody at once: its name is free again, but this call did not leave a user.
    const made = yield* Effect.catchTag(
      get(id),
      "UserNotFound",
      () => Effect.fail(new UsernameTaken({ username: user.username })),
    )
    return given === undefined ? { ...made, initialPassword: Redacted.value(password) } : made
  }, answered)
  return create
})

/** What the transaction of a change does to sessions; `null`: nothing. */
const endingOf = (change: UserUpdate): SessionEnd | null =>
  change.enabled === false ?
    "disabled" :
    change.password !== undefined ?
    "password" :
    change.mustChangePassword === true ?
    "mustChangePassword" :
    null

const makeChanges = Effect.fnUntraced(function*(all: Stores, { get, named, row }: Reads) {
  const { security, sessions, users } = all
  const passwords = yield* Passwords
  const trust = yield* Trust
  const endSessions = yield* makeEndSessions

  /** The user, locked until the transaction ends, if the caller holds all that the user holds. */
  const measured = Effect.fnUntraced(function*(id: UserId, who: UserPrincipal) {
    if (!(yield* users.lock(id))) return yield* new UserNotFound({ userId: id })
    const user = yield* row(id)
    yield* mustHold(who, yield* all.roles.named(user.roles), holdsMore)
    return user
  })
  const told = (ended: EndedSessions | null) =>
    ended === null || ended.ids.length === 0 ? trust.changed : endSessions(ended)
  const outdated = () => new VersionConflict({ message: "The user was changed by somebody else" })

  const hashed = Effect.fnUntraced(function*(id: UserId, change: UserUpdate, nowMs: EpochMs) {
    if (change.password === undefined) return undefined
    const settings = yield* security.read
    const { username } = yield* row(id)
    const owner = {
      username: change.username ?? username,
      before: yield* users.passwords(id, settings.passwordHistory),
    }
    yield* checkNewPassword(passwords, change.password, owner, settings)
    return { hash: yield* passwords.hash(change.password), nowMs }
  })

  const update: Users["Service"]["update"] = Effect.fnUntraced(function*(id, change, who, expectedVersion) {
    if (change.password !== undefined && id === who.userId) return yield* new Forbidden({ message: ownPassword })
    const nowMs = yield* Clock.currentTimeMillis
    const given = yield* named(change.roles ?? [])
    const password = yield* hashed(id, change, nowMs)
    const { password: _, roles, ...fields } = change
    const set: UserSet = password === undefined ? fields : { mustChangePassword: true, ...fields, password }
    const ended = yield* users.keepingAnAdministrator(Effect.gen(function*() {
      const before = yield* measured(id, who)
      yield* mustHold(who, given.filter(({ name }) => !before.roles.includes(name)), givesMore)
      if (!(yield* users.set(id, set, expectedVersion))) return yield* outdated()
      if (roles !== undefined) yield* users.setRoles(id, roles)
      const reason = endingOf(change)
      return reason === null ? null : { userId: id, reason, ids: yield* sessions.endAll(id, null, reason, nowMs) }
    })).pipe(taken(change.username ?? ""))
    yield* told(ended)
    return yield* get(id)
  }, answered)

  const remove: Users["Service"]["remove"] = Effect.fnUntraced(function*(id, who, expectedVersion) {
    const nowMs = yield* Clock.currentTimeMillis
    const ended = yield* users.keepingAnAdministrator(Effect.gen(function*() {
      yield* measured(id, who)
      const ids = yield* sessions.endAll(id, null, "deleted", nowMs)
      if (!(yield* users.remove(id, expectedVersion))) return yield* outdated()
      return { userId: id, reason: "deleted" as const, ids }
    }))
    yield* told(ended)
  }, answered)

  const grant: Users["Service"]["grant"] = Effect.fnUntraced(function*(id, role, who) {
    yield* mustHold(who, yield* named([role]), givesMore)
    yield* users.inTransaction(Effect.gen(function*() {
      if (!(yield* users.lock(id))) return yield* new UserNotFound({ userId: id })
      if (yield* users.addRole(id, role)) yield* users.raise(id)
    }))
    yield* trust.changed
    return yield* get(id)
  }, answered)

  const revoke: Users["Service"]["revoke"] = Effect.fnUntraced(function*(id, role, who) {
    yield* users.keepingAnAdministrator(Effect.gen(function*() {
      yield* measured(id, who)
      if (!(yield* users.dropRole(id, role))) return yield* new RoleNotFound({ role })
      yield* users.raise(id)
    }))
    yield* trust.changed
  }, answered)

  return { update, remove, grant, revoke }
})

const fits = (document: Preferences): Effect.Effect<Preferences, InvalidInput> => {
  const bytes = Buffer.byteLength(JSON.stringify(document))
  return bytes > preferenceLimits.bytes ?
    Effect.fail(InvalidInput.at("/payload", `the preferences would have ${bytes} of ${preferenceLimits.bytes} bytes`)) :
    Effect.succeed(document)
}

const makePreferences = ({ users }: Stores): Pick<Users["Service"], "preferences" | "updatePreferences"> => ({
  preferences: (who) => answered(users.preferences.get(who.userId)),
  updatePreferences: Effect.fnUntraced(function*(who, patch, expectedVersion) {
    const { depth } = preferenceLimits
    if (depthOf(patch, depth) > depth) return yield* InvalidInput.at("/payload", `may have ${depth} levels`)
    const next = Effect.fnUntraced(function*(now: VersionedPreferences) {
      if (expectedVersion !== null && expectedVersion !== now.version) {
        const message = `The preferences are at version ${now.version}, not ${expectedVersion}`
        return yield* new VersionConflict({ message })
      }
      return yield* fits(mergePatch(now.document, patch) as Preferences)
    })
    const changed = yield* users.preferences.change(who.userId, next)
    return changed ?? (yield* new Unauthenticated({ message: "The session has ended; sign in again" }))
  }, answered),
})

const make = Effect.gen(function*() {
  const all = yield* stores
  const reads = makeReads(all)
  const changes = yield* makeChanges(all, reads)
  const unlock = Effect.fnUntraced(function*(id: UserId) {
    const { username } = yield* reads.row(id)
    yield* all.throttle.release(accountSubject(username))
    return yield* reads.get(id)
  })
  const roles = Effect.fnUntraced(function*(id: UserId) {
    return yield* all.roles.named((yield* reads.row(id)).roles)
  })
  return Users.of({
    list: makeList(all, reads),
    get: (id) => answered(reads.get(id)),
    create: yield* makeCreate(all, reads),
    ...changes,
    unlock: (id) => answered(unlock(id)),
    roles: (id) => answered(roles(id)),
    ...makePreferences(all),
  })
})

export const layer: Layer.Layer<Users, never, SqlClient.SqlClient | AccessTokens | Trust | Passwords | Events> = Layer
  .effect(Users, make)
