/**
 * The store of replay sessions and of the replay configuration.
 *
 * Invariants
 * 1. A session is written under the epoch of its slot (`fenced`); a stale owner writes nothing.
 * 2. A session that was revoked stays so; expiry is a matter of the clock, not of a write.
 */
import type { EpochMs, NodeId, RecordingId, RecordingToken, UserId } from "#schema/common.ts"
import type { Slot, StaleEpoch } from "#schema/ownership.ts"
import { type DependencyUnavailable, VersionConflict } from "#schema/problem.ts"
import { defaultReplayConfig, type ReplayConfig, type ReplayConfigUpdate } from "#schema/replay.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { answered } from "./answer.ts"
import { fenced } from "./fence.ts"

/** One session as it is kept; times are epoch milliseconds. */
export interface ReplaySessionRow {
  readonly digest: string
  readonly slot: Slot
  readonly nodeId: NodeId
  readonly recordingId: RecordingId
  readonly recordingToken: RecordingToken
  readonly userId: UserId
  readonly loginSessionId: string
  readonly start: EpochMs
  readonly end: EpochMs | null
  readonly speed: number
  readonly createdAt: EpochMs
  readonly expiresAt: EpochMs
  readonly revokedAt: EpochMs | null
}

interface Writer {
  readonly slot: Slot
  readonly epoch: number
}

type Read<A> = Effect.Effect<A, DependencyUnavailable>
type Write = Effect.Effect<void, StaleEpoch | DependencyUnavailable>

export class ReplayStore extends Context.Service<ReplayStore, {
  /** Adds a session and revokes those of its user that are older than the newest `keep`. */
  readonly insert: (writer: Writer, row: ReplaySessionRow, keep: number) => Write
  readonly revoke: (writer: Writer, digest: string, nowMs: EpochMs) => Write
  readonly get: (digest: string) => Read<ReplaySessionRow | null>
  /** Sessions of a user that have not ended. */
  readonly ofUser: (userId: UserId, nowMs: EpochMs) => Read<ReadonlyArray<Pick<ReplaySessionRow, "digest" | "slot">>>
  /** Forgets sessions that expired before a moment. */
  readonly prune: (beforeMs: EpochMs) => Read<void>
  readonly config: () => Read<ReplayConfig>
  readonly saveConfig: (
    update: ReplayConfigUpdate,
    ifMatch: number | null,
  ) => Effect.Effect<ReplayConfig, VersionConflict | DependencyUnavailable>
}>()("nightjar/actors/ReplayStore") {
  static readonly layer = Layer.effect(
    ReplayStore,
    Effect.map(SqlClient.SqlClient, (sql) => ReplayStore.of({ ...sessions(sql), ...config(sql) })),
  )
}

interface SqlRow extends Omit<ReplaySessionRow, "start" | "end" | "createdAt" | "expiresAt" | "revokedAt"> {
  readonly start: Date
  readonly end: Date | null
  readonly createdAt: Date
  readonly expiresAt: Date
  readonly revokedAt: Date | null
}

const rowOf = (row: SqlRow): ReplaySessionRow => ({
  ...row,
  start: row.start.getTime(),
  end: row.end?.getTime() ?? null,
  createdAt: row.createdAt.getTime(),
  expiresAt: row.expiresAt.getTime(),
  revokedAt: row.revokedAt?.getTime() ?? null,
})

/** Function declarations, because the class above is evaluated first. */
function sessions(sql: SqlClient.SqlClient) {
  const write = (writer: Writer, work: Effect.Effect<unknown, SqlError.SqlError>) =>
    answered(Effect.asVoid(fenced(writer, work))).pipe(Effect.provideService(SqlClient.SqlClient, sql))
  const columns = sql.literal(`
    digest, slot, node_id AS "nodeId", recording_id AS "recordingId", recording_token AS "recordingToken", user_id AS "userId",
    login_session_id AS "loginSessionId", start_at AS "start", end_at AS "end", speed, created_at AS "createdAt",
    expires_at AS "expiresAt", revoked_at AS "revokedAt"`)

  const insert = (row: ReplaySessionRow, keep: number) =>
    Effect.gen(function*() {
      const created = new Date(row.createdAt)
      yield* sql`
        INSERT INTO replay_session (digest, slot, node_id, recording_id, recording_token, user_id, login_session_id, start_at,
          end_at, speed, created_at, expires_at)
        VALUES (${row.digest}, ${row.slot}, ${row.nodeId}, ${row.recordingId}, ${row.recordingToken}, ${row.userId},
          ${row.loginSessionId}, ${new Date(row.start)}, ${
        row.end === null ? null : new Date(row.end)
      }, ${row.speed}, ${created},
          ${new Date(row.expiresAt)})
        ON CONFLICT (digest) DO NOTHING`
      yield* sql`
        UPDATE replay_session SET revoked_at = ${created} WHERE digest IN (
          SELECT digest FROM replay_session
          WHERE user_id = ${row.userId} AND revoked_at IS NULL AND expires_at > ${created}
          ORDER BY created_at DESC, digest OFFSET ${keep})`
    })

  return {
    insert: (writer: Writer, row: ReplaySessionRow, keep: number) => write(writer, insert(row, keep)),
    revoke: (writer: Writer, digest: string, nowMs: EpochMs) =>
      write(
        writer,
        sql`UPDATE replay_session SET revoked_at = ${new Date(nowMs)} WHERE digest = ${digest} AND revoked_at IS NULL`,
      ),
    get: (digest: string) =>
      answered(
        Effect.map(sql<SqlRow>`SELECT ${columns} FROM replay_session WHERE digest = ${digest}`, (rows) =>
          rows[0] === undefined ? null : rowOf(rows[0])),
      ),
    ofUser: (userId: UserId, nowMs: EpochMs) =>
      answered(sql<{ readonly digest: string; readonly slot: Slot }>`
        SELECT digest, slot FROM replay_session
        WHERE user_id = ${userId} AND revoked_at IS NULL AND expires_at > ${new Date(nowMs)}`),
    prune: (beforeMs: EpochMs) =>
      answered(Effect.asVoid(sql`DELETE FROM replay_session WHERE expires_at < ${new Date(beforeMs)}`)),
  }
}

function config(sql: SqlClient.SqlClient) {
  const columns = sql.literal(`session_seconds AS "sessionSeconds", sessions_per_user AS "sessionsPerUser",
    max_interval_hours AS "maxIntervalHours", version`)
  const current = Effect.map(
    sql<ReplayConfig>`SELECT ${columns} FROM replay_config FOR UPDATE`,
    (rows): ReplayConfig => rows[0] ?? { ...defaultReplayConfig, version: 1 },
  )
  return {
    config: () =>
      answered(
        Effect.map(sql<ReplayConfig>`SELECT ${columns} FROM replay_config`, (rows): ReplayConfig =>
          rows[0] ?? { ...defaultReplayConfig, version: 1 }),
      ),
    saveConfig: (update: ReplayConfigUpdate, ifMatch: number | null) =>
      answered(sql.withTransaction(Effect.gen(function*() {
        // Two first writers would both find no row: the lock makes one of them wait.
        yield* sql`LOCK TABLE replay_config IN SHARE ROW EXCLUSIVE MODE`
        const { version } = yield* current
        if (ifMatch !== null && ifMatch !== version) {
          return yield* new VersionConflict({
            message: `The replay configuration is at version ${version}, not ${ifMatch}`,
          })
        }
        yield* sql`
          INSERT INTO replay_config (session_seconds, sessions_per_user, max_interval_hours, version)
          VALUES (${update.sessionSeconds}, ${update.sessionsPerUser}, ${update.maxIntervalHours}, ${version + 1})
          ON CONFLICT ("only") DO UPDATE SET session_seconds = excluded.session_seconds,
            sessions_per_user = excluded.sessions_per_user, max_interval_hours = excluded.max_interval_hours,
            version = excluded.version`
        return { ...update, version: version + 1 }
      }))),
  }
}
