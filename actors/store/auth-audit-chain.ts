/**
 * SQL of the audit chain: its only way to grow, its pages in order, and its shortening from the old end.
 *
 * Invariants
 * 1. Whoever appends or shortens holds the row of the head: sequences have no hole, whichever node writes.
 * 2. A fact is in the chain once, however often it is brought.
 * 3. Retention takes the oldest entries only, and leaves their last hash as the anchor in the same transaction.
 */
import type { QueuedFact } from "#schema/auth-audit.ts"
import type { EpochMs } from "#schema/common.ts"
import { Effect, Option } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** An entry as it stands in its row: hashes and MAC in hexadecimal, `detail` as its text. */
export interface ChainRow {
  readonly sequence: number
  readonly id: string
  readonly timeMs: number
  readonly nodeId: string
  readonly action: string
  readonly outcome: string
  readonly actorKind: string
  readonly actorId: string | null
  readonly actorName: string | null
  readonly sessionId: string | null
  readonly address: string
  readonly userAgent: string
  readonly resourceKind: string | null
  readonly resourceId: string | null
  readonly status: number | null
  readonly traceId: string | null
  readonly origin: string
  readonly detail: string
  readonly previousHash: string
  readonly hash: string
  readonly mac: string
}

/** Where the chain is at one moment. Genesis is sequence 0 with a hash of zeros. */
export interface ChainPoint {
  readonly sequence: number
  /** Hexadecimal. */
  readonly hash: string
}

export interface ChainAnchor extends ChainPoint {
  readonly nodeId: string
  readonly mac: string
}

/** Columns of {@link ChainRow}, of the table `auth_audit`. */
export const chainColumns = `
  sequence::float8 AS sequence, id, time_ms::float8 AS "timeMs", node_id AS "nodeId", action, outcome,
  actor_kind AS "actorKind", actor_id AS "actorId", actor_name AS "actorName", session_id AS "sessionId", address,
  user_agent AS "userAgent", resource_kind AS "resourceKind", resource_id AS "resourceId", status, trace_id AS "traceId",
  origin, detail, encode(previous_hash, 'hex') AS "previousHash", encode(hash, 'hex') AS hash, encode(mac, 'hex') AS mac`

const zeros = "0".repeat(64)
export const genesis: ChainPoint = { sequence: 0, hash: zeros }

const insert = (sql: SqlClient.SqlClient, rows: ReadonlyArray<ChainRow>) =>
  sql`
    INSERT INTO auth_audit (sequence, id, time_ms, node_id, action, outcome, actor_kind, actor_id, actor_name, session_id,
      address, user_agent, resource_kind, resource_id, status, trace_id, origin, detail, previous_hash, hash, mac)
    SELECT r.sequence, r.id, r."timeMs", r."nodeId", r.action, r.outcome, r."actorKind", r."actorId", r."actorName",
      r."sessionId", r.address, r."userAgent", r."resourceKind", r."resourceId", r.status, r."traceId", r.origin, r.detail,
      decode(r."previousHash", 'hex'), decode(r.hash, 'hex'), decode(r.mac, 'hex')
    FROM json_to_recordset(${
    JSON.stringify(rows)
  }::text::json) AS r (sequence bigint, id uuid, "timeMs" bigint, "nodeId" uuid,
      action text, outcome text, "actorKind" text, "actorId" text, "actorName" text, "sessionId" text, address text,
      "userAgent" text, "resourceKind" text, "resourceId" text, status integer, "traceId" text, origin text, detail text,
      "previousHash" text, hash text, mac text)`

const headOf = (sql: SqlClient.SqlClient, lock: boolean) =>
  Effect.gen(function*() {
    const suffix = sql.literal(lock ? "FOR UPDATE" : "")
    const rows = yield* sql<ChainPoint>`
      SELECT sequence::float8 AS sequence, encode(hash, 'hex') AS hash FROM auth_audit_head ${suffix}`
    return rows[0] ?? null
  })

const anchorOf = (sql: SqlClient.SqlClient) =>
  Effect.map(
    sql<ChainAnchor>`
      SELECT sequence::float8 AS sequence, encode(hash, 'hex') AS hash, node_id AS "nodeId", encode(mac, 'hex') AS mac
      FROM auth_audit_anchor`,
    (rows) => rows[0] ?? null,
  )

const growing = (sql: SqlClient.SqlClient) => ({
  /** Adds facts that are not there yet behind the head; `link` makes their rows. Answers the new head. */
  append: (
    facts: ReadonlyArray<QueuedFact>,
    link: (head: ChainPoint, fresh: ReadonlyArray<QueuedFact>) => ReadonlyArray<ChainRow>,
  ): Effect.Effect<ChainPoint, SqlError.SqlError> =>
    sql.withTransaction(Effect.gen(function*() {
      const held = yield* headOf(sql, true)
      if (held === null) {
        // Somebody took the row. The chain goes on behind what is there; that it was taken shows in what was signed.
        yield* sql`INSERT INTO auth_audit_head (sequence, hash)
          SELECT sequence, hash FROM auth_audit ORDER BY sequence DESC LIMIT 1`
      }
      const head = held ?? (yield* headOf(sql, true)) ?? genesis
      const ids = JSON.stringify(facts.map((fact) => fact.id))
      const known = new Set((yield* sql<{ readonly id: string }>`
          SELECT id FROM auth_audit WHERE id IN (SELECT value::uuid FROM json_array_elements_text(${ids}::text::json))`)
        .map((row) => row.id))
      const fresh = [...new Map(facts.map((fact) => [fact.id, fact])).values()].filter((fact) => !known.has(fact.id))
      const rows = link(head, fresh)
      const last = rows.at(-1)
      if (last === undefined) return head
      yield* insert(sql, rows)
      yield* sql`
        INSERT INTO auth_audit_head (sequence, hash) VALUES (${last.sequence}, decode(${last.hash}, 'hex'))
        ON CONFLICT ("only") DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash`
      return { sequence: last.sequence, hash: last.hash }
    })),
})

const walking = (sql: SqlClient.SqlClient) => ({
  head: Effect.map(headOf(sql, false), (head) => head ?? genesis),
  anchor: anchorOf(sql),
  /** Rows behind a position, by rising sequence; rows that share one come by id. */
  page: (after: { readonly sequence: number; readonly id: string }, upTo: number, limit: number) =>
    sql<ChainRow>`
      SELECT ${sql.literal(chainColumns)} FROM auth_audit
      WHERE (sequence, id) > (${after.sequence}, ${after.id}::uuid) AND sequence <= ${upTo}
      ORDER BY auth_audit.sequence, auth_audit.id LIMIT ${limit}`,
  /** The first entry that stands before the beginning of the chain. */
  strayBefore: (sequence: number) =>
    Effect.map(
      sql<{ readonly sequence: number; readonly id: string }>`
        SELECT sequence::float8 AS sequence, id FROM auth_audit WHERE sequence <= ${sequence}
        ORDER BY auth_audit.sequence LIMIT 1`,
      (rows) => rows[0] ?? null,
    ),
  /** All that runs inside sees the log of one moment. */
  snapshot: <A, E, R>(read: Effect.Effect<A, E, R>) =>
    sql.withTransaction(Effect.andThen(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`, read)),
})

const shortening = (sql: SqlClient.SqlClient) => ({
  /**
   * Takes entries older than `beforeMs` from the old end, at most `limit`, and sets the anchor that `seal` makes. Answers how
   * many went. An entry that is old but lies behind a younger one stays.
   */
  shorten: (
    beforeMs: EpochMs,
    limit: number,
    seal: (last: ChainPoint) => ChainAnchor,
  ): Effect.Effect<number, SqlError.SqlError> =>
    sql.withTransaction(Effect.gen(function*() {
      const head = yield* headOf(sql, true)
      if (head === null) return 0
      const [bounds] = yield* sql<{ readonly oldest: number | null; readonly young: number | null }>`
        SELECT (SELECT min(sequence) FROM auth_audit)::float8 AS oldest,
          (SELECT min(sequence) FROM auth_audit WHERE time_ms >= ${beforeMs})::float8 AS young`
      if (bounds === undefined || bounds.oldest === null) return 0
      // The newest entry stays in any case: the head points to it.
      const last = Math.min(bounds.oldest + limit - 1, (bounds.young ?? head.sequence) - 1, head.sequence - 1)
      const found = Option.fromUndefinedOr(
        (yield* sql<ChainPoint>`
          SELECT sequence::float8 AS sequence, encode(hash, 'hex') AS hash FROM auth_audit WHERE sequence = ${last}`)[
          0
        ],
      )
      if (last < bounds.oldest || Option.isNone(found)) return 0
      const anchor = seal(found.value)
      yield* sql`DELETE FROM auth_audit WHERE sequence <= ${last}`
      yield* sql`
        INSERT INTO auth_audit_anchor (sequence, hash, node_id, mac)
        VALUES (${anchor.sequence}, decode(${anchor.hash}, 'hex'), ${anchor.nodeId}, decode(${anchor.mac}, 'hex'))
        ON CONFLICT ("only") DO UPDATE SET sequence = excluded.sequence, hash = excluded.hash,
          node_id = excluded.node_id, mac = excluded.mac`
      return last - bounds.oldest + 1
    })),
})

export const AuditChainStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  ...growing(sql),
  ...walking(sql),
  ...shortening(sql),
}))
export type AuditChainStore = Effect.Success<typeof AuditChainStore>
