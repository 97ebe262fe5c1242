/**
 * SQL of the log of events.
 *
 * Invariants
 * 1. Positions become visible in their order (`event_keep`): whoever has read up to n misses nothing below n.
 * 2. An event whose id is there already is not kept twice, as long as the first is kept.
 * 3. What was pruned is remembered as the position it reached, so that a reader who stands below is told.
 */
import type { EpochMs } from "#schema/common.ts"
import type { EventEnvelope, StoredEvent } from "#schema/event.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { answered } from "./answer.ts"
import { type EventRow, storedOf } from "./event-rows.ts"

/** An event on its way to the table; its position is given there. */
export interface NewEvent {
  readonly event: EventEnvelope
  /** `camera:<id>`. */
  readonly resource: ReadonlyArray<string>
  readonly audience: ReadonlyArray<string> | null
  readonly notify: boolean
}

/** What is to be kept at most. */
export interface EventRetention {
  readonly days: number
  readonly count: number
}

export interface EventPage {
  readonly events: ReadonlyArray<StoredEvent>
  readonly prunedTo: number
}

type Read<A> = Effect.Effect<A, DependencyUnavailable>

/** Rows that one statement deletes: some tens of milliseconds. */
const pruneRows = 5_000

export class EventStore extends Context.Service<EventStore, {
  /** Answers how many of them were new. */
  readonly keep: (events: ReadonlyArray<NewEvent>, nowMs: EpochMs) => Read<number>
  /** At most `limit` behind a position, oldest first. */
  readonly after: (position: number, limit: number) => Read<ReadonlyArray<StoredEvent>>
  /** The same, with the position up to which events were pruned: what lies between is lost to the reader. */
  readonly page: (position: number, limit: number) => Read<EventPage>
  /** The newest, newest first. */
  readonly newest: (limit: number) => Read<ReadonlyArray<StoredEvent>>
  readonly find: (id: string) => Read<StoredEvent | null>
  /** Id of the event at this position (null: there is none) and the position up to which events were pruned. */
  readonly standing: (position: number) => Read<{ readonly id: string | null; readonly prunedTo: number }>
  /** Deletes what is too much, a bounded piece of it; answers whether there may be more. */
  readonly prune: (retention: EventRetention, nowMs: EpochMs) => Read<boolean>
  /** Waits for notices and calls `told` for those that came together once, until the connection breaks. */
  readonly listen: (told: Effect.Effect<void>) => Read<void>
}>()("nightjar/actors/EventStore") {
  static readonly layer = Layer.effect(
    EventStore,
    Effect.gen(function*() {
      const sql = yield* SqlClient.SqlClient
      const pg = yield* PgClient.PgClient
      return EventStore.of({ ...reading(sql), ...writing(sql), listen: listening(pg) })
    }),
  )
}

const behind = (sql: SqlClient.SqlClient, position: number, limit: number) =>
  Effect.map(
    sql<EventRow>`SELECT * FROM event WHERE position > ${position} ORDER BY position LIMIT ${limit}`,
    (rows) => rows.map(storedOf),
  )

const reading = (sql: SqlClient.SqlClient) => ({
  after: (position: number, limit: number) => answered(behind(sql, position, limit)),
  page: (position: number, limit: number) =>
    answered(Effect.gen(function*() {
      const events = yield* behind(sql, position, limit)
      // Asked afterwards: what was pruned before the events were read is among it.
      const [row] = yield* sql<{ readonly up_to: bigint }>`SELECT up_to FROM event_pruned`
      return { events, prunedTo: Number(row?.up_to ?? 0) }
    })),
  newest: (limit: number) =>
    answered(
      Effect.map(
        sql<EventRow>`SELECT * FROM event ORDER BY position DESC LIMIT ${limit}`,
        (rows) => rows.map(storedOf),
      ),
    ),
  find: (id: string) =>
    answered(
      Effect.map(
        sql<EventRow>`SELECT * FROM event WHERE id = ${id}`,
        ([row]) => row === undefined ? null : storedOf(row),
      ),
    ),
  standing: (position: number) =>
    answered(Effect.map(
      sql<{ readonly id: string | null; readonly up_to: bigint }>`
        SELECT (SELECT id FROM event WHERE position = ${position}) AS id, up_to FROM event_pruned`,
      ([row]) => ({ id: row?.id ?? null, prunedTo: Number(row?.up_to ?? 0) }),
    )),
})

const writing = (sql: SqlClient.SqlClient) => ({
  keep: (events: ReadonlyArray<NewEvent>, nowMs: EpochMs) => {
    const entries = JSON.stringify(
      events.map(({ event, ...rest }) => ({ ...event, time: new Date(event.time).toISOString(), ...rest })),
    )
    return answered(
      Effect.map(
        sql<{ readonly added: bigint }>`SELECT event_keep(${entries}::text::jsonb, ${new Date(nowMs)}) AS added`,
        ([row]) => Number(row?.added ?? 0),
      ),
    )
  },
  prune: (retention: EventRetention, nowMs: EpochMs) => {
    const before = new Date(nowMs - retention.days * 86_400_000)
    return answered(sql.withTransaction(Effect.gen(function*() {
      const [gone] = yield* sql<{ readonly pruned: bigint | null; readonly count: bigint }>`
        WITH gone AS (
          DELETE FROM event WHERE position IN (
            SELECT position FROM (SELECT position, kept_at FROM event ORDER BY position LIMIT ${pruneRows}) AS oldest
            WHERE kept_at < ${before}
              OR position <= (SELECT position FROM event ORDER BY position DESC OFFSET ${retention.count} LIMIT 1)
          ) RETURNING position
        ) SELECT max(position) AS pruned, count(*) AS count FROM gone`
      if (gone === undefined || gone.pruned === null) return false
      yield* sql`UPDATE event_pruned SET up_to = greatest(up_to, ${gone.pruned})`
      return Number(gone.count) >= pruneRows
    })))
  },
})

const listening = (pg: PgClient.PgClient) => (told: Effect.Effect<void>): Read<void> =>
  answered(
    Effect.scoped(Effect.flatMap(pg.listen("nightjar_event"), (notices) =>
      Effect.forever(Effect.andThen(Queue.takeAll(notices), told)))),
  )
