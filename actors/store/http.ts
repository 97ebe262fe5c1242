/** SQL of kept answers (`Idempotency-Key`). */
import type { EpochMs } from "#schema/common.ts"
import type { IdempotentRequest, KeptAnswer } from "#schema/http.ts"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

/** What is known of a key. */
export type KeyState =
  | { readonly kind: "fresh" }
  | { readonly kind: "running" }
  | { readonly kind: "otherRequest" }
  | { readonly kind: "answered"; readonly answer: KeptAnswer }

interface Row {
  readonly fingerprint: Uint8Array
  readonly status: number | null
  readonly headers: Record<string, string> | null
  readonly body: Uint8Array | null
}

const same = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b) === 0

export const HttpStore = Effect.map(SqlClient.SqlClient, (sql) => ({
  /** Claims the key unless somebody holds it; a claim from before `abandonedMs` without an answer is taken over. */
  claim: (
    request: IdempotentRequest,
    nowMs: EpochMs,
    limits: { readonly keptMs: EpochMs; readonly abandonedMs: EpochMs },
  ) =>
    Effect.gen(function*(): Effect.fn.Return<KeyState, SqlError.SqlError> {
      const claimed = yield* sql`
        INSERT INTO http_idempotency AS kept (user_id, key, fingerprint, started_at)
        VALUES (${request.userId}, ${request.key}, ${request.fingerprint}, ${new Date(nowMs)})
        ON CONFLICT (user_id, key) DO UPDATE SET
          fingerprint = excluded.fingerprint, started_at = excluded.started_at, status = NULL, headers = NULL, body = NULL
        WHERE kept.started_at < ${new Date(limits.keptMs)}
          OR (kept.status IS NULL AND kept.started_at < ${new Date(
        limits.abandonedMs,
      )} AND kept.fingerprint = excluded.fingerprint)
        RETURNING 1`
      if (claimed.length === 1) return { kind: "fresh" }
      const [row] = yield* sql<Row>`
        SELECT fingerprint, status, headers, body FROM http_idempotency
        WHERE user_id = ${request.userId} AND key = ${request.key}`
      if (row === undefined) return { kind: "running" }
      if (!same(row.fingerprint, request.fingerprint)) return { kind: "otherRequest" }
      if (row.status === null) return { kind: "running" }
      const answer = { status: row.status, headers: row.headers ?? {}, body: row.body ?? new Uint8Array(0) }
      return { kind: "answered", answer }
    }),
  keep: (request: IdempotentRequest, answer: KeptAnswer) =>
    sql`
      UPDATE http_idempotency SET status = ${answer.status}, headers = ${
      JSON.stringify(answer.headers)
    }::jsonb, body = ${answer.body}
      WHERE user_id = ${request.userId} AND key = ${request.key} AND fingerprint = ${request.fingerprint}`,
  forget: (request: IdempotentRequest) =>
    sql`
      DELETE FROM http_idempotency
      WHERE user_id = ${request.userId} AND key = ${request.key} AND fingerprint = ${request.fingerprint} AND status IS NULL`,
  /** Leaves what is younger than `keptMs`, and of that the `most` newest. */
  prune: (keptMs: EpochMs, most: number) =>
    Effect.andThen(
      sql`DELETE FROM http_idempotency WHERE started_at < ${new Date(keptMs)}`,
      sql`
        DELETE FROM http_idempotency WHERE started_at <
          (SELECT started_at FROM http_idempotency ORDER BY started_at DESC OFFSET ${most} LIMIT 1)`,
    ),
}))
