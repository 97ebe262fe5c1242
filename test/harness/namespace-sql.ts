/** Carries out a statement in a PostgreSQL of the network namespace it is started in: `node namespace-sql.ts <url> <statement>`. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"

const [url = "", statement = ""] = process.argv.slice(2)
await Effect.flatMap(PgClient.PgClient, (sql) => sql.unsafe(statement)).pipe(
  Effect.provide(PgClient.layer({ url: Redacted.make(url), maxConnections: 1 })),
  Effect.scoped,
  Effect.runPromise,
)
