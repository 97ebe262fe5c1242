/**
 * SQL of sessions and their refresh tokens.
 *
 * Invariants
 * 1. A refresh token is used up by exactly one transaction; whoever brings it again is told so.
 * 2. A refresh token is kept as its SHA-256 only: 256 random bits need no slow hash.
 * 3. Sign-ins of one user wait for each other and for a change of that user: a limit is never passed, and nobody who was
 *    disabled a moment ago gets in.
 * 4. What has ended stays for a week, also when its user is gone.
 */
import type { EpochMs } from "#schema/common.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { userColumns, type UserRow } from "./auth-users.ts"

/** What became of a refresh token that was presented. */
export type Rotation =
  | { readonly kind: "rotated"; readonly sessionId: string; readonly expiresAtMs: EpochMs; readonly user: UserRow }
  | { readonly kind: "replayed"; readonly sessionId: string; readonly userId: string }
  | { readonly kind: "refused" }

/** What became of a sign-in. */
export type Opening =
  | { readonly kind: "opened"; readonly expiresAtMs: EpochMs; readonly ended: ReadonlyArray<string> }
  | { readonly kind: "limit" }
  | { readonly kind: "refused" }

/** How long sessions live and how many there may be. */
export interface SessionRules {
  readonly idleSeconds: number
  readonly maxSeconds: number
  /** 0: no limit. */
  readonly perUser: number
  /** `refuse`: but one that was not seen for `awaySeconds` makes room, or a closed browser would keep its user out for days. */
  readonly beyond: "refuse" | "endOldest"
  readonly awaySeconds: number
}

export interface SessionRow {
  readonly id: string
  readonly userId: string
  readonly username: string
  readonly createdAt: Date
  readonly lastSeenAt: Date
  readonly expiresAt: Date
  readonly address: string
  readonly userAgent: string
}

interface NewSession {
  readonly id: string
  readonly userId: string
  readonly nowMs: EpochMs
  readonly tokenHash: Uint8Array
  readonly address: string
  readonly userAgent: string
}

interface Presented {
  readonly hash: Uint8Array
  readonly next: Uint8Array
  readonly nowMs: EpochMs
}

/** Ends as many sessions of the user as must go for one more; `null` where none may. */
const making = (sql: SqlClient.SqlClient) =>
  Effect.fnUntraced(function*({ nowMs, userId }: NewSession, { awaySeconds, beyond, perUser }: SessionRules) {
    const now = new Date(nowMs)
    const live = yield* sql<{ readonly id: string; readonly lastSeenAt: Date }>`
      SELECT id, last_seen_at AS "lastSeenAt" FROM auth_session
      WHERE user_id = ${userId} AND ended_at IS NULL AND expires_at > ${now} ORDER BY id`
    const surplus = Math.max(0, live.length + 1 - perUser)
    const awaySince = nowMs - awaySeconds * 1000
    const may = beyond === "endOldest" ?
      live :
      live.filter((one) => one.lastSeenAt.getTime() <= awaySince)
        .toSorted((a, b) => a.lastSeenAt.getTime() - b.lastSeenAt.getTime())
    if (may.length < surplus) return null
    const ended = may.slice(0, surplus).map(({ id }) => id)
    if (ended.length > 0) {
      yield* sql`UPDATE auth_session SET ended_at = ${now}, end_reason = 'limit' WHERE id IN ${sql.in(ended)}`
    }
    return ended
  })

const opening = (sql: SqlClient.SqlClient, makeRoom: ReturnType<typeof making>) => ({
  open: (session: NewSession, rules: SessionRules) =>
    sql.withTransaction(Effect.gen(function*(): Effect.fn.Return<Opening, SqlError.SqlError> {
      const now = new Date(session.nowMs)
      const expiresAtMs = session.nowMs + Math.min(rules.idleSeconds, rules.maxSeconds) * 1000
      const signedIn = yield* sql`
        UPDATE auth_user SET last_sign_in_at = ${now} WHERE id = ${session.userId} AND enabled RETURNING id`
      if (signedIn.length === 0) return { kind: "refused" }
      const ended = rules.perUser === 0 ? [] : yield* makeRoom(session, rules)
      if (ended === null) return { kind: "limit" }
      yield* sql`
        INSERT INTO auth_session (id, user_id, created_at, last_seen_at, expires_at, address, user_agent)
        VALUES (${session.id}, ${session.userId}, ${now}, ${now}, ${new Date(expiresAtMs)}, ${session.address},
          ${session.userAgent.slice(0, 256)})`
      yield* sql`
        INSERT INTO auth_refresh_token (hash, session_id, created_at) VALUES (${session.tokenHash}, ${session.id}, ${now})`
      return { kind: "opened", expiresAtMs, ended }
    })),

  /** Uses up one refresh token for the next. The session ends at `idleSeconds` from now, `maxSeconds` from its start at most. */
  rotate: (presented: Presented, rules: SessionRules) =>
    sql.withTransaction(Effect.gen(function*(): Effect.fn.Return<Rotation, SqlError.SqlError> {
      const now = new Date(presented.nowMs)
      const rows = yield* sql<
        { readonly sessionId: string; readonly userId: string; readonly used: boolean; readonly over: boolean }
      >`
        SELECT t.session_id AS "sessionId", s.user_id AS "userId", t.used_at IS NOT NULL AS used,
          s.ended_at IS NOT NULL OR s.expires_at <= ${now}
            OR s.created_at + make_interval(secs => ${rules.maxSeconds}) <= ${now} AS over
        FROM auth_refresh_token t JOIN auth_session s ON s.id = t.session_id
        WHERE t.hash = ${presented.hash} FOR UPDATE`
      const found = rows[0]
      if (found === undefined) return { kind: "refused" }
      if (found.used) return { kind: "replayed", sessionId: found.sessionId, userId: found.userId }
      const [user] = yield* sql<UserRow>`
        SELECT ${sql.literal(userColumns)} FROM auth_user u WHERE u.id = ${found.userId}`
      if (found.over || user === undefined || !user.enabled) return { kind: "refused" }
      yield* sql`UPDATE auth_refresh_token SET used_at = ${now} WHERE hash = ${presented.hash}`
      yield* sql`
        INSERT INTO auth_refresh_token (hash, session_id, created_at)
        VALUES (${presented.next}, ${found.sessionId}, ${now})`
      const [{ expiresAt }] = (yield* sql`
        UPDATE auth_session SET last_seen_at = ${now},
          expires_at = least(${now}::timestamptz + make_interval(secs => ${rules.idleSeconds}),
            created_at + make_interval(secs => ${rules.maxSeconds}))
        WHERE id = ${found.sessionId} RETURNING expires_at AS "expiresAt"`) as unknown as [{ expiresAt: Date }]
      return { kind: "rotated", sessionId: found.sessionId, expiresAtMs: expiresAt.getTime(), user }
    })),

  /** When the session ends, now that it was seen; `null` where it is over. */
  touch: (id: string, nowMs: EpochMs, rules: SessionRules) =>
    Effect.map(
      sql<{ readonly expiresAt: Date }>`
        UPDATE auth_session SET last_seen_at = ${new Date(nowMs)},
          expires_at = least(${new Date(nowMs)}::timestamptz + make_interval(secs => ${rules.idleSeconds}),
            created_at + make_interval(secs => ${rules.maxSeconds}))
        WHERE id = ${id} AND ended_at IS NULL AND expires_at > ${new Date(nowMs)} RETURNING expires_at AS "expiresAt"`,
      (rows) => rows[0]?.expiresAt.getTime() ?? null,
    ),
})

const ids = Effect.map((rows: ReadonlyArray<{ readonly id: string }>) => rows.map(({ id }) => id))

const ending = (sql: SqlClient.SqlClient) => ({
  end: (id: string, reason: string, nowMs: EpochMs) =>
    sql`
      UPDATE auth_session SET ended_at = ${new Date(nowMs)}, end_reason = ${reason}
      WHERE id = ${id} AND ended_at IS NULL`,
  /** Whether it was live and that user's. */
  endOne: (id: string, userId: string, reason: string, nowMs: EpochMs) =>
    Effect.map(
      sql`
        UPDATE auth_session SET ended_at = ${new Date(nowMs)}, end_reason = ${reason}
        WHERE id = ${id} AND user_id = ${userId} AND ended_at IS NULL AND expires_at > ${new Date(nowMs)} RETURNING id`,
      (rows) => rows.length === 1,
    ),
  /** Ends all sessions of a user but `except`; answers their ids. */
  endAll: (userId: string, except: string | null, reason: string, nowMs: EpochMs) =>
    ids(sql<{ readonly id: string }>`
      UPDATE auth_session SET ended_at = ${new Date(nowMs)}, end_reason = ${reason}
      WHERE user_id = ${userId} AND (${except}::text IS NULL OR id <> ${except}::text::uuid) AND ended_at IS NULL
        AND expires_at > ${new Date(nowMs)}
      RETURNING id`),
  /** Sessions that were ended, or that ran out, since a moment. */
  over: (sinceMs: EpochMs, nowMs: EpochMs) =>
    ids(sql<{ readonly id: string }>`
      SELECT id FROM auth_session WHERE ended_at > ${new Date(sinceMs)}
      UNION ALL
      SELECT id FROM auth_session
      WHERE ended_at IS NULL AND expires_at > ${new Date(sinceMs)} AND expires_at <= ${new Date(nowMs)}`),
})

const reading = (sql: SqlClient.SqlClient) => ({
  /** Live ones, newest first, of one user or of all; `after` is the id that the last page ended with. */
  live: (userId: string | null, limit: number, after: string | null, nowMs: EpochMs) =>
    sql<SessionRow>`
      SELECT s.id, s.user_id AS "userId", u.username, s.created_at AS "createdAt", s.last_seen_at AS "lastSeenAt",
        s.expires_at AS "expiresAt", s.address, s.user_agent AS "userAgent"
      FROM auth_session s JOIN auth_user u ON u.id = s.user_id
      WHERE s.ended_at IS NULL AND s.expires_at > ${new Date(nowMs)}
        AND (${userId}::text IS NULL OR s.user_id = ${userId}::text::uuid)
        AND (${after}::text IS NULL OR s.id < ${after}::text::uuid)
      ORDER BY s.id DESC LIMIT ${limit}`,
  isLive: (id: string, nowMs: EpochMs) =>
    Effect.map(
      sql`SELECT 1 FROM auth_session WHERE id = ${id} AND ended_at IS NULL AND expires_at > ${new Date(nowMs)}`,
      (rows) => rows.length === 1,
    ),
})

/** The store, over the client at hand. */
export const AuthSessionsStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...opening(sql, making(sql)),
  ...ending(sql),
  ...reading(sql),
}))
export type AuthSessionsStore = Effect.Success<typeof AuthSessionsStore>
