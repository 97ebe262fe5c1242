/**
 * Tampering with the audit log directly in PostgreSQL, and which entry must be told as the first bad one. Shares no code with the
 * product: the hash is computed from what the interface's reference says of it.
 */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { createHash, randomBytes } from "node:crypto"

/** RFC 8785 for what JSON can hold, written from its text: members by UTF-16 units, numbers and texts as ECMAScript has them. */
export const canonicalJson = (value: unknown): string => {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(",")}]`
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const members = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0))
  return `{${members.map(([name, one]) => `${JSON.stringify(name)}:${canonicalJson(one)}`).join(",")}}`
}

interface Row {
  readonly sequence: number
  readonly id: string
  readonly time_ms: number
  readonly node_id: string
  readonly action: string
  readonly outcome: string
  readonly actor_kind: string
  readonly actor_id: string | null
  readonly actor_name: string | null
  readonly session_id: string | null
  readonly address: string
  readonly user_agent: string
  readonly resource_kind: string | null
  readonly resource_id: string | null
  readonly status: number | null
  readonly trace_id: string | null
  readonly origin: string
  readonly detail: string
  readonly previous_hash: string
  readonly hash: string
}

/** As the interface answers it, without `hash`. */
const hashOf = (row: Row): string =>
  createHash("sha256").update(canonicalJson({
    id: row.id,
    sequence: row.sequence,
    time: new Date(row.time_ms).toISOString(),
    nodeId: row.node_id,
    action: row.action,
    outcome: row.outcome,
    actor: { kind: row.actor_kind, id: row.actor_id, name: row.actor_name, sessionId: row.session_id },
    address: row.address,
    userAgent: row.user_agent,
    resource: row.resource_kind === null ? null : { kind: row.resource_kind, id: row.resource_id },
    status: row.status,
    traceId: row.trace_id,
    origin: row.origin,
    detail: JSON.parse(row.detail) as unknown,
    previousHash: row.previous_hash,
  })).digest("hex")

const rowsFrom = (sql: SqlClient.SqlClient, from: number, to: number) =>
  sql<Row>`
    SELECT sequence::float8 AS sequence, id, time_ms::float8 AS time_ms, node_id, action, outcome, actor_kind, actor_id,
      actor_name, session_id, address, user_agent, resource_kind, resource_id, status, trace_id, origin, detail,
      encode(previous_hash, 'hex') AS previous_hash, encode(hash, 'hex') AS hash
    FROM auth_audit WHERE sequence BETWEEN ${from} AND ${to} ORDER BY auth_audit.sequence`

/** Makes the hashes from `from` on fit again, the head's too, as somebody can who knows how they are made. */
const rehash = (sql: SqlClient.SqlClient, from: number, to: number) =>
  Effect.gen(function*() {
    let [before] = (yield* rowsFrom(sql, from - 1, from - 1)).map((row) => row.hash)
    const links: Array<{ readonly sequence: number; readonly previous: string; readonly hash: string }> = []
    for (const row of yield* rowsFrom(sql, from, to)) {
      const previous = before ?? row.previous_hash
      const hash = hashOf({ ...row, previous_hash: previous })
      links.push({ sequence: row.sequence, previous, hash })
      before = hash
    }
    yield* sql`
      UPDATE auth_audit SET previous_hash = decode(l.previous, 'hex'), hash = decode(l.hash, 'hex')
      FROM json_to_recordset(${JSON.stringify(links)}::text::json) AS l (sequence bigint, previous text, hash text)
      WHERE auth_audit.sequence = l.sequence`
    return links
  })

const setHead = (sql: SqlClient.SqlClient) =>
  sql`
    UPDATE auth_audit_head SET (sequence, hash) =
      (SELECT sequence, hash FROM auth_audit ORDER BY auth_audit.sequence DESC LIMIT 1)`

/** Keeps what is right, to come back to. */
export const keepOriginal = (sql: SqlClient.SqlClient) =>
  Effect.gen(function*() {
    yield* sql`CREATE TABLE original AS TABLE auth_audit`
    yield* sql`CREATE UNIQUE INDEX original_sequence ON original (sequence)`
    yield* sql`CREATE TABLE original_head AS TABLE auth_audit_head`
  })

/** Rows of the range as they were, and none behind the last. */
const restore = (sql: SqlClient.SqlClient, from: number, to: number) =>
  sql.withTransaction(Effect.gen(function*() {
    yield* sql`DELETE FROM auth_audit WHERE sequence BETWEEN ${from} AND ${to}`
    yield* sql`DELETE FROM auth_audit WHERE sequence > (SELECT sequence FROM original_head)`
    yield* sql`INSERT INTO auth_audit SELECT * FROM original WHERE sequence BETWEEN ${from} AND ${to}`
    yield* sql`UPDATE auth_audit_head SET (sequence, hash) = (SELECT sequence, hash FROM original_head)`
    yield* sql`DELETE FROM auth_audit_anchor`
  }))

const columns = [
  ["id", "gen_random_uuid()"],
  ["time_ms", "time_ms + 1"],
  ["node_id", "gen_random_uuid()"],
  ["action", "action || ' '"],
  ["outcome", "CASE outcome WHEN 'success' THEN 'refused' ELSE 'success' END"],
  ["actor_kind", "CASE actor_kind WHEN 'user' THEN 'system' ELSE 'user' END"],
  ["actor_id", "coalesce(actor_id || 'x', '')"],
  ["actor_name", "coalesce(upper(actor_name), 'somebody')"],
  ["session_id", "CASE WHEN session_id IS NULL THEN '' ELSE NULL END"],
  ["address", "address || '0'"],
  ["user_agent", "CASE user_agent WHEN '' THEN ' ' ELSE '' END"],
  ["status", "CASE WHEN status IS NULL THEN 0 ELSE status + 1 END"],
  ["trace_id", "reverse(trace_id)"],
  ["origin", "CASE origin WHEN 'server' THEN 'claim' ELSE 'server' END"],
  ["detail", "'{\"forged\":true}'"],
  // The same JSON in another spelling is not what was written.
  ["detail", "detail || ' '"],
  ["previous_hash", "sha256(previous_hash)"],
  ["hash", "sha256(hash)"],
  ["mac", "sha256(mac)"],
] as const

type Apply = (
  sql: SqlClient.SqlClient,
  at: { readonly k: number; readonly last: number; readonly some: number },
) => Effect.Effect<number, unknown>

const remove: Apply = (sql, { k }) => Effect.as(sql`DELETE FROM auth_audit WHERE sequence = ${k}`, k)

/** Ways to tamper near the entry `k` of a log that ends with `last`; each answers the first bad entry. */
const ways: Record<string, Apply> = {
  "edit of a column": (sql, { k, some }) => {
    const [column, value] = columns[some % columns.length]!
    return Effect.as(sql`UPDATE auth_audit SET ${sql.literal(column)} = ${sql.literal(value)} WHERE sequence = ${k}`, k)
  },
  "deletion": remove,
  "deletion of several": (sql, { k, last, some }) =>
    Effect.as(sql`DELETE FROM auth_audit WHERE sequence BETWEEN ${k} AND ${Math.min(last, k + (some % 50))}`, k),
  "deletion with the rest moved up": (sql, { k, last }) =>
    Effect.gen(function*() {
      yield* sql`DELETE FROM auth_audit WHERE sequence = ${k}`
      yield* sql`UPDATE auth_audit SET sequence = sequence + 1000000000 WHERE sequence > ${k}`
      yield* sql`UPDATE auth_audit SET sequence = sequence - 1000000001 WHERE sequence > ${k}`
      yield* rehash(sql, k, last)
      yield* setHead(sql)
      return k
    }),
  "insertion in between": (sql, { k, last }) =>
    Effect.gen(function*() {
      yield* sql`UPDATE auth_audit SET sequence = sequence + 1000000000 WHERE sequence >= ${k}`
      yield* sql`UPDATE auth_audit SET sequence = sequence - 999999999 WHERE sequence >= ${k}`
      yield* sql`INSERT INTO auth_audit SELECT ${k}, gen_random_uuid(), ${
        sql.literal(
          "time_ms, node_id, action, outcome, actor_kind, actor_id, actor_name, session_id, address, " +
            "user_agent, resource_kind, resource_id, status, trace_id, origin, detail, previous_hash, hash, mac",
        )
      } FROM auth_audit WHERE sequence = ${k - 1}`
      yield* rehash(sql, k, last + 1)
      yield* setHead(sql)
      return k
    }),
  "insertion at the end": (sql, { last, some }) =>
    Effect.gen(function*() {
      yield* sql`INSERT INTO auth_audit SELECT ${last + 1}, gen_random_uuid(), ${
        sql.literal(
          "time_ms, node_id, action, outcome, actor_kind, actor_id, actor_name, session_id, address, " +
            "user_agent, resource_kind, resource_id, status, trace_id, origin, detail, previous_hash, hash, mac",
        )
      } FROM auth_audit WHERE sequence = ${last}`
      yield* rehash(sql, last + 1, last + 1)
      if (some % 2 === 0) yield* setHead(sql)
      return last + 1
    }),
  "truncation": (sql, { k, some }) =>
    Effect.gen(function*() {
      yield* sql`DELETE FROM auth_audit WHERE sequence > ${k}`
      if (some % 2 === 0) yield* setHead(sql)
      return k + 1
    }),
  "swap of two": (sql, { k, last, some }) => {
    const other = Math.min(last, k + 1 + (some % 20))
    return Effect.as(
      Effect.gen(function*() {
        yield* sql`UPDATE auth_audit SET sequence = 1000000000 WHERE sequence = ${k}`
        yield* sql`UPDATE auth_audit SET sequence = ${k} WHERE sequence = ${other}`
        yield* sql`UPDATE auth_audit SET sequence = ${other} WHERE sequence = 1000000000`
      }),
      k,
    )
  },
  "another hash for one entry": (sql, { k }) =>
    Effect.gen(function*() {
      yield* sql`UPDATE auth_audit SET action = 'forged.action' WHERE sequence = ${k}`
      yield* rehash(sql, k, k)
      return k
    }),
  "another hash for all that follow": (sql, { k, last }) =>
    Effect.gen(function*() {
      yield* sql`UPDATE auth_audit SET actor_name = 'somebody else' WHERE sequence = ${k}`
      yield* rehash(sql, k, last)
      yield* setHead(sql)
      return k
    }),
  "a mark of retention that never was": (sql, { k }) =>
    Effect.gen(function*() {
      yield* sql`
        INSERT INTO auth_audit_anchor (sequence, hash, node_id, mac)
        SELECT sequence, hash, node_id, decode(${
        randomBytes(32).toString("hex")
      }, 'hex') FROM auth_audit WHERE sequence = ${k}`
      yield* sql`DELETE FROM auth_audit WHERE sequence <= ${k} AND sequence > ${k - 5}`
      return k + 1
    }),
  "a mark of the end that is wrong": (sql, { last, some }) =>
    Effect.as(
      some % 2 === 0 ?
        sql`UPDATE auth_audit_head SET hash = sha256(hash)` :
        sql`UPDATE auth_audit_head SET sequence = ${last - 1}`,
      last,
    ),
}

export const tamperings = Object.keys(ways)

/** Ways whose first bad entry may lie before any entry to begin a walk with. */
export const needsWhole = (way: string): boolean => way === "a mark of retention that never was"
/** Ways that touch, or are found behind, all entries that follow theirs: cheap near the end only. */
export const touchesRest = (way: string): boolean => /rest|in between|truncation|follow|the end/.test(way)

/** Tampers, lets `check` look, and undoes it. `check` is told the first bad entry. */
export const tampered = <A, E>(
  sql: SqlClient.SqlClient,
  way: string,
  at: { readonly k: number; readonly last: number; readonly some: number },
  check: (firstBad: number) => Effect.Effect<A, E>,
) =>
  Effect.gen(function*() {
    const firstBad = yield* sql.withTransaction(ways[way]!(sql, at))
    const to = touchesRest(way) ? Number.MAX_SAFE_INTEGER : at.k + 60
    return yield* Effect.ensuring(check(firstBad), Effect.orDie(restore(sql, at.k - 5, to)))
  })
