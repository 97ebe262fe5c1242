/**
 * The way to PostgreSQL, whoever runs it, and the migrations of its schema.
 *
 * Invariants
 * 1. An outside server and the embedded one are reached by the same code.
 * 2. Migrations run in the order of their numbers, all pending ones in one transaction, under a table lock: nodes that start
 *    at once wait for each other, and a failed one leaves nothing behind.
 * 3. The pool is bounded (see `maxConnections`), and so is the wait for a connection to be opened.
 */
import { PgClient } from "@effect/sql-pg"
import { type Effect, Layer, type Redacted } from "effect"
import { Migrator, type SqlClient, type SqlError } from "effect/sql"
import { migrations } from "./migrations.ts"

export interface DatabaseOptions {
  /** `postgres://user:password@host:port/database`. */
  readonly url: Redacted.Redacted
  /** Shown by `pg_stat_activity`. */
  readonly applicationName: string
  /**
   * Connections of the pool. The engine keeps one for its locks; a query holds one for some milliseconds; an embedded server
   * takes 30 in all.
   */
  readonly maxConnections?: number
}

/** A pool of connections; fails when the server cannot be reached now. */
export const layerClient = (
  options: DatabaseOptions,
): Layer.Layer<PgClient.PgClient | SqlClient.SqlClient, SqlError.SqlError> =>
  PgClient.layer({
    url: options.url,
    applicationName: options.applicationName,
    maxConnections: options.maxConnections ?? 12,
    connectTimeout: "5 seconds",
    keepAlive: "10 seconds",
  })

/** Brings the schema up to date; answers what was run. */
export const migrate: Effect.Effect<
  ReadonlyArray<readonly [id: number, name: string]>,
  Migrator.MigrationError | SqlError.SqlError,
  SqlClient.SqlClient
> = Migrator.make({})({ loader: Migrator.fromGlob(migrations), table: "schema_migration" })

/** {@link layerClient} with the schema up to date. */
export const layer = (options: DatabaseOptions) =>
  Layer.effectDiscard(migrate).pipe(Layer.provideMerge(layerClient(options)))
