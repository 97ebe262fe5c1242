/**
 * How nodes tell each other that what they trust has changed: a channel of PostgreSQL (`LISTEN`, `NOTIFY`), and who holds
 * which role.
 *
 * Invariants
 * 1. A notice says who sent it and nothing else; what changed is read from the tables.
 * 2. PostgreSQL delivers a notice after the commit of its transaction, so whoever hears it sees the change.
 */
import { PgClient } from "@effect/sql-pg"
import { Effect, Queue, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"

const channel = "nightjar_trust"

/** Users whose roles are kept in memory: some MiB. Beyond it the roles that their tokens name count, for ten minutes at most. */
const mostUsers = 10_000

export const AuthTrustStore = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const pg = yield* PgClient.PgClient
  return {
    notify: (sender: string) => pg.notify(channel, sender),
    /** Calls `told` for the notices of others, many that came together once, until the connection breaks. */
    listen: <E>(
      sender: string,
      told: Effect.Effect<void, E>,
    ): Effect.Effect<never, SqlError.SqlError | E, Scope.Scope> =>
      Effect.flatMap(
        pg.listen(channel),
        (notices) =>
          Effect.forever(Effect.flatMap(Queue.takeAll(notices), (all) =>
            all.some((notice) => notice.payload !== sender) ?
              told :
              Effect.void)),
      ),
    /** Everything inside is read from one moment. */
    oneMoment: <A, E, R>(read: Effect.Effect<A, E, R>): Effect.Effect<A, E | SqlError.SqlError, R> =>
      sql.withTransaction(Effect.andThen(sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY`, read)),
    /** Roles of the users that may sign in. */
    users: Effect.map(
      sql<{ readonly id: string; readonly roles: ReadonlyArray<string> }>`
        SELECT u.id, coalesce(array_agg(r.role ORDER BY r.role) FILTER (WHERE r.role IS NOT NULL), '{}') AS roles
        FROM (SELECT id FROM auth_user WHERE enabled ORDER BY id LIMIT ${mostUsers + 1}) u
        LEFT JOIN auth_user_role r ON r.user_id = u.id
        GROUP BY u.id`,
      (rows) => ({
        roles: new Map(rows.slice(0, mostUsers).map(({ id, roles }) => [id, roles])),
        complete: rows.length <= mostUsers,
      }),
    ),
  }
})
