/**
 * SQL of what users did with their notifications, which are events whose type notifies.
 *
 * Invariants
 * 1. What a user may see is a condition of the query ({@link Sight}), never a filter behind its limit.
 * 2. State is sparse: a mark (`read_to`) for all that was read at once, a row only for what differs from it.
 * 3. Counting looks at no more than {@link mostLooked} notifications and tells no number above its limit.
 */
import type { EpochMs, UserId } from "#schema/common.ts"
import type { Severity, StoredEvent } from "#schema/event.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"
import { type EventRow, storedOf } from "./event-rows.ts"

/** What a user may see of the log. */
export interface Sight {
  readonly userId: UserId
  /** Nothing that became known before he was there. */
  readonly sinceMs: EpochMs
  /** Of these types, those that happened to one of these resources; `null`: all. */
  readonly reaches: ReadonlyArray<
    { readonly types: ReadonlyArray<string>; readonly keys: ReadonlyArray<string> | null }
  >
}

export interface NotificationQuery {
  readonly limit: number
  /** Newest first: behind this position; `null` from the newest on. */
  readonly before: number | null
  readonly unread: boolean
  readonly severities: ReadonlyArray<Severity>
  /** Positions `(from, to]`. */
  readonly within: { readonly from: number; readonly to: number } | null
}

export interface NotificationRow {
  readonly stored: StoredEvent
  readonly read: boolean
}

/** How far a user has seen: `present`, he is following right now. */
export interface Reader {
  readonly seenTo: number
  readonly seenAtMs: EpochMs | null
  readonly missedFrom: number
  readonly missedTo: number
}

/** A bound on the work of a count: some ten milliseconds. */
const mostLooked = 20_000

type Read<A> = Effect.Effect<A, DependencyUnavailable>

export class EventReaderStore extends Context.Service<EventReaderStore, {
  readonly list: (sight: Sight, query: NotificationQuery) => Read<ReadonlyArray<NotificationRow>>
  readonly one: (sight: Sight, id: string) => Read<NotificationRow | null>
  /** Unread ones, at most `limit`. */
  readonly unread: (sight: Sight, limit: number) => Read<number>
  readonly mark: (
    userId: UserId,
    position: number,
    what: { readonly read: boolean; readonly deleted: boolean },
  ) => Read<void>
  /** Everything up to the newest event is read. */
  readonly readAll: (userId: UserId) => Read<void>
  readonly reader: (userId: UserId) => Read<Reader>
  /**
   * These users follow live and have been given what lies before these positions. Somebody who was not there for `awayMs` has
   * missed what came meanwhile.
   */
  readonly present: (
    seen: ReadonlyArray<{ readonly userId: UserId; readonly position: number }>,
    nowMs: EpochMs,
    awayMs: number,
  ) => Read<void>
}>()("nightjar/actors/EventReaderStore") {
  static readonly layer = Layer.effect(
    EventReaderStore,
    Effect.map(SqlClient.SqlClient, (sql) => EventReaderStore.of({ ...reading(sql), ...writing(sql) })),
  )
}

/** Text arrays travel as JSON: one parameter each. */
const texts = (sql: SqlClient.SqlClient, values: ReadonlyArray<string>) =>
  sql`ARRAY(SELECT jsonb_array_elements_text(${JSON.stringify(values)}::text::jsonb))`

const seenBy = (sql: SqlClient.SqlClient, { reaches, sinceMs, userId }: Sight) =>
  sql.and([
    sql`e.notify`,
    sql`e.kept_at >= ${new Date(sinceMs)}`,
    sql`(e.audience IS NULL OR ${userId}::text::uuid = ANY(e.audience))`,
    sql.or([
      sql`FALSE`,
      ...reaches.map(({ keys, types }) =>
        sql.and([
          sql`e.type = ANY(${texts(sql, types)})`,
          ...keys === null ? [] : [sql`e.resource && ${texts(sql, keys)}`],
        ])
      ),
    ]),
  ])

const isRead = (sql: SqlClient.SqlClient) => sql`(e.position <= coalesce(r.read_to, 0) OR coalesce(m.read, FALSE))`

const joined = (sql: SqlClient.SqlClient, userId: UserId) =>
  sql`
    LEFT JOIN event_reader r ON r.user_id = ${userId}
    LEFT JOIN event_mark m ON m.user_id = ${userId} AND m.position = e.position`

type NotificationSqlRow = EventRow & { readonly is_read: boolean }
const rowOf = (row: NotificationSqlRow): NotificationRow => ({ stored: storedOf(row), read: row.is_read })

const reading = (sql: SqlClient.SqlClient) => ({
  list: (sight: Sight, { before, limit, severities, unread, within }: NotificationQuery) =>
    answered(Effect.map(
      sql<NotificationSqlRow>`
        SELECT e.*, ${isRead(sql)} AS is_read FROM event e ${joined(sql, sight.userId)}
        WHERE ${
        sql.and([
          seenBy(sql, sight),
          sql`NOT coalesce(m.deleted, FALSE)`,
          sql`e.severity = ANY(${texts(sql, severities)})`,
          ...before === null ? [] : [sql`e.position < ${before}`],
          ...unread ? [sql`NOT ${isRead(sql)}`] : [],
          ...within === null ? [] : [sql`e.position > ${within.from}`, sql`e.position <= ${within.to}`],
        ])
      } ORDER BY e.position DESC LIMIT ${limit}`,
      (rows) => rows.map(rowOf),
    )),
  one: (sight: Sight, id: string) =>
    answered(Effect.map(
      sql<NotificationSqlRow>`
        SELECT e.*, ${isRead(sql)} AS is_read FROM event e ${joined(sql, sight.userId)}
        WHERE ${sql.and([sql`e.id = ${id}`, seenBy(sql, sight), sql`NOT coalesce(m.deleted, FALSE)`])}`,
      ([row]) => row === undefined ? null : rowOf(row),
    )),
  unread: (sight: Sight, limit: number) =>
    answered(Effect.map(
      sql<{ readonly count: bigint }>`
        SELECT count(*) AS count FROM (
          SELECT 1 FROM (
            SELECT * FROM event WHERE notify AND position > coalesce(
              (SELECT read_to FROM event_reader WHERE user_id = ${sight.userId}), 0)
            ORDER BY position DESC LIMIT ${mostLooked}
          ) e LEFT JOIN event_mark m ON m.user_id = ${sight.userId} AND m.position = e.position
          WHERE ${sql.and([seenBy(sql, sight), sql`NOT coalesce(m.read OR m.deleted, FALSE)`])}
          LIMIT ${limit}
        ) AS found`,
      ([row]) => Number(row?.count ?? 0),
    )),
  reader: (userId: UserId) =>
    answered(Effect.map(
      sql<{
        readonly seen_to: bigint
        readonly seen_at: Date | null
        readonly missed_from: bigint
        readonly missed_to: bigint
      }>`SELECT * FROM event_reader WHERE user_id = ${userId}`,
      ([row]): Reader => ({
        seenTo: Number(row?.seen_to ?? 0),
        seenAtMs: row?.seen_at?.getTime() ?? null,
        missedFrom: Number(row?.missed_from ?? 0),
        missedTo: Number(row?.missed_to ?? 0),
      }),
    )),
})

const writing = (sql: SqlClient.SqlClient) => ({
  mark: (userId: UserId, position: number, { deleted, read }: { readonly read: boolean; readonly deleted: boolean }) =>
    answered(Effect.asVoid(sql`
      INSERT INTO event_mark (user_id, position, read, deleted)
      SELECT ${userId}, position, ${read}, ${deleted} FROM event WHERE position = ${position}
      ON CONFLICT (user_id, position) DO UPDATE SET read = event_mark.read OR excluded.read,
        deleted = event_mark.deleted OR excluded.deleted`)),
  readAll: (userId: UserId) =>
    answered(sql.withTransaction(Effect.gen(function*() {
      yield* sql`
        INSERT INTO event_reader (user_id, read_to)
        SELECT ${userId}, coalesce(max(position), 0) FROM event
        ON CONFLICT (user_id) DO UPDATE SET read_to = greatest(event_reader.read_to, excluded.read_to)`
      yield* sql`
        DELETE FROM event_mark USING event_reader r
        WHERE r.user_id = ${userId} AND event_mark.user_id = ${userId} AND NOT event_mark.deleted
          AND event_mark.position <= r.read_to`
    }))),
  present: (
    seen: ReadonlyArray<{ readonly userId: UserId; readonly position: number }>,
    nowMs: EpochMs,
    awayMs: number,
  ) => {
    const gone = new Date(nowMs - awayMs)
    return answered(Effect.asVoid(sql`
      INSERT INTO event_reader AS r (user_id, seen_to, seen_at, missed_to)
      SELECT s."userId", s.position, ${new Date(nowMs)}, s.position
      FROM jsonb_to_recordset(${JSON.stringify(seen)}::text::jsonb) AS s ("userId" uuid, position bigint)
      ON CONFLICT (user_id) DO UPDATE SET
        missed_from = CASE WHEN coalesce(r.seen_at < ${gone}, TRUE) THEN r.seen_to ELSE r.missed_from END,
        missed_to = CASE WHEN coalesce(r.seen_at < ${gone}, TRUE) THEN excluded.seen_to ELSE r.missed_to END,
        seen_to = greatest(r.seen_to, excluded.seen_to), seen_at = greatest(r.seen_at, excluded.seen_at)`))
  },
})
