/**
 * {@link Sessions}: who is signed in, ending sessions, and the security settings by which they live.
 *
 * Invariants
 * 1. A session that is ended here is refused on this node before the call answers; the other nodes are told at once.
 */
import { presentForMs } from "#actors/protocol/auth-presence.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import { Sessions } from "#actors/protocol/auth-users.ts"
import { AccessTokens } from "#actors/protocol/auth.ts"
import { Events } from "#actors/protocol/event.ts"
import { type SecuritySettings, SessionNotFound, type UserSession } from "#schema/auth-security.ts"
import { UserNotFound } from "#schema/auth-users.ts"
import { UserId } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import { InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Clock, Effect, Layer, Schema } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthSecurityStore } from "../store/auth-security.ts"
import { AuthSessionsStore, type SessionRow, type SessionRules } from "../store/auth-sessions.ts"
import { AuthUsersStore } from "../store/auth-users.ts"

/** The settings as the store of sessions takes them. */
export const sessionRules = (settings: SecuritySettings): SessionRules => ({
  idleSeconds: settings.sessionIdleMinutes * 60,
  maxSeconds: settings.sessionMaxHours * 3600,
  perUser: settings.sessionsPerUser,
  beyond: settings.sessionLimitAction,
  awaySeconds: presentForMs / 1000,
})

/** Sessions of one user, which the database has as ended. */
export interface EndedSessions {
  readonly userId: string
  readonly ids: ReadonlyArray<string>
  /** A word of the event `session.terminated`; `logout`, which everybody does, is no event. */
  readonly reason: SessionEnd
}
export type SessionEnd =
  | "logout"
  | "replay"
  | "limit"
  | "terminated"
  | "ended"
  | "password"
  | "disabled"
  | "deleted"
  | "mustChangePassword"

/** Makes it known that sessions are over: refused here at once, told to the other nodes, closed wherever they are open. */
export const makeEndSessions = Effect.gen(function*() {
  const tokens = yield* AccessTokens
  const trust = yield* Trust
  const events = yield* Events
  return Effect.fnUntraced(function*({ ids, reason, userId }: EndedSessions) {
    if (ids.length === 0) return
    yield* Effect.forEach(ids, tokens.endSession, { discard: true })
    yield* trust.changed
    if (reason === "logout") return
    for (const sessionId of ids) {
      const data = { userId, sessionId, reason }
      yield* events.publish({ type: "session.terminated", subject: userId, data, resource: [] })
    }
  })
})

const cursor = cursorOf("sessions", Schema.String.check(Schema.isUUID(7)))

const sessionOf = (who: UserPrincipal) => (row: SessionRow): UserSession => ({
  id: row.id,
  userId: UserId.make(row.userId),
  username: row.username,
  createdAt: row.createdAt.getTime(),
  lastSeenAt: row.lastSeenAt.getTime(),
  expiresAt: row.expiresAt.getTime(),
  address: row.address,
  userAgent: row.userAgent,
  current: row.id === who.sessionId,
})

const make = Effect.gen(function*() {
  const store = yield* AuthSessionsStore
  const users = yield* AuthUsersStore
  const security = yield* AuthSecurityStore
  const trust = yield* Trust
  const endSessions = yield* makeEndSessions

  const known = Effect.fnUntraced(function*(userId: UserId) {
    const nowMs = yield* Clock.currentTimeMillis
    if ((yield* users.get(userId, nowMs)) === null) return yield* new UserNotFound({ userId })
    return nowMs
  })

  return Sessions.of({
    list: Effect.fnUntraced(function*(userId, who, page) {
      const after = yield* cursor.decode(page.cursor)
      const nowMs = userId === null ? yield* Clock.currentTimeMillis : yield* known(userId)
      const rows = yield* store.live(userId, page.limit + 1, after, nowMs)
      return pageFrom({ rows, limit: page.limit, cursor, position: ({ id }) => id, item: sessionOf(who) })
    }, answered),
    isLive: (id) => answered(Effect.flatMap(Clock.currentTimeMillis, (nowMs) => store.isLive(id, nowMs))),
    terminate: Effect.fnUntraced(function*(userId) {
      const nowMs = yield* known(userId)
      const ended = yield* store.endAll(userId, null, "terminated", nowMs)
      yield* endSessions({ userId, ids: ended, reason: "terminated" })
      return ended.length
    }, answered),
    endOwn: Effect.fnUntraced(function*(who, sessionId) {
      const nowMs = yield* Clock.currentTimeMillis
      const ended = yield* store.endOne(sessionId, who.userId, "ended", nowMs)
      if (!ended) return yield* new SessionNotFound({ sessionId })
      yield* endSessions({ userId: who.userId, ids: [sessionId], reason: "ended" })
    }, answered),
    settings: () => answered(security.read),
    updateSettings: Effect.fnUntraced(function*(change, expectedVersion) {
      const changed = yield* security.change(Effect.fnUntraced(function*(now) {
        if (expectedVersion !== null && expectedVersion !== now.version) {
          const message = `The security settings are at version ${now.version}, not ${expectedVersion}`
          return yield* new VersionConflict({ message })
        }
        const next = { ...now, ...change }
        if (next.lockoutMaxSeconds < next.lockoutFirstSeconds) {
          return yield* InvalidInput.at("/payload/lockoutMaxSeconds", "must not be less than lockoutFirstSeconds")
        }
        if (next.sessionMaxHours * 60 < next.sessionIdleMinutes) {
          return yield* InvalidInput.at("/payload/sessionIdleMinutes", "must not be more than sessionMaxHours")
        }
        return next
      }))
      yield* trust.changed
      return changed
    }, answered),
  })
})

export const layer: Layer.Layer<Sessions, never, SqlClient.SqlClient | AccessTokens | Trust | Events> = Layer.effect(
  Sessions,
  make,
)
