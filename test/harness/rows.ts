/** What stands in the node's PostgreSQL, read past the node, with a connection of its own. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { readFileSync } from "node:fs"
import * as path from "node:path"

export interface FileRow {
  readonly id: string
  readonly recordingId: string
  readonly startMs: number
  readonly endMs: number
  readonly bytes: number
  readonly fragments: number
  readonly frames: number
  readonly sealed: boolean
}

export interface GapRow {
  readonly recordingId: string
  readonly startMs: number
  readonly endMs: number | null
  readonly cause: string
}

export interface Rows {
  readonly files: ReadonlyArray<FileRow>
  /** Without those of no length, by start. */
  readonly gaps: ReadonlyArray<GapRow>
}

/** Of the embedded server in a node's data folder. */
export const embeddedUrl = (data: string): string => {
  const read = (name: string) => readFileSync(path.join(data, "postgres", name), "utf8").trim()
  return `postgres://nightjar:${read("password")}@127.0.0.1:${read("port")}/nightjar`
}

export const readRows = (url: string): Promise<Rows> =>
  Effect.gen(function*() {
    const sql = yield* PgClient.PgClient
    const found = yield* sql<{ readonly rows: Rows }>`
      SELECT json_build_object(
        'files', (SELECT coalesce(json_agg(json_build_object(
          'id', id, 'recordingId', recording_id,
          'startMs', (extract(epoch FROM start_at) * 1000)::bigint, 'endMs', (extract(epoch FROM end_at) * 1000)::bigint,
          'bytes', bytes, 'fragments', fragments, 'frames', frames, 'sealed', sealed)), '[]') FROM segment_file),
        'gaps', (SELECT coalesce(json_agg(json_build_object(
          'recordingId', recording_id, 'startMs', (extract(epoch FROM start_at) * 1000)::bigint,
          'endMs', (extract(epoch FROM end_at) * 1000)::bigint, 'cause', cause) ORDER BY start_at), '[]')
          FROM recording_gap WHERE end_at IS NULL OR end_at > start_at)) AS rows`
    return found[0]!.rows
  }).pipe(
    Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })),
    Effect.scoped,
    Effect.runPromise,
  )
