/**
 * The layer with PostgreSQL in it: everything that needs the database or the cluster, built when they can be reached.
 *
 * Invariants
 * 1. It never fails the node: what cannot be built is tried again, 0.5 to 5 s apart, for as long as the node runs.
 * 2. Once built it stays. An outage of PostgreSQL later on is each service's own affair: slots are sticky, queries answer 503.
 * 3. Its services are published (`actors/protocol/late.ts`) when all of them stand, and withdrawn before the first of them ends.
 */
import type { HealthReporter } from "#actors/protocol/health.ts"
import { Late } from "#actors/protocol/late.ts"
import { Cause, Clock, Context, Duration, Effect, Layer, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as Database from "./database.ts"
import { EmbeddedPostgres, layer as layerEmbedded } from "./host/postgres.ts"

const firstWaitMs = 500
const longestWaitMs = 5_000
/** The same failure again is told at most once in this time. */
const quietMs = 30_000

/** What went wrong, with what lies beneath it: at most four levels, each once. */
const explain = (error: unknown): string => {
  const told: Array<string> = []
  for (let cause = error; cause instanceof Error && told.length < 4; cause = cause.cause) {
    if (cause.message !== "" && !told.includes(cause.message)) told.push(cause.message)
  }
  return told.length > 0 ? told.join(": ") : String(error)
}

/** Keeps trying to build `services`, then publishes them until the scope closes. Builds nothing while it is itself built. */
export const keep = <A, E, R>(services: Layer.Layer<A, E, R>): Layer.Layer<never, never, R | Late> =>
  Layer.effectDiscard(Effect.gen(function*() {
    const late = yield* Late
    let lastTold = { text: "", atMs: 0 }

    const tell = (text: string) =>
      Effect.gen(function*() {
        const atMs = yield* Clock.currentTimeMillis
        if (text === lastTold.text && atMs - lastTold.atMs < quietMs) return
        lastTold = { text, atMs }
        yield* Effect.logWarning(`Waiting for what needs the database: ${text}`)
      })

    const once = Effect.scoped(Effect.gen(function*() {
      const context = yield* Layer.build(services)
      yield* late.publish(context)
      yield* Effect.logInfo("Everything that needs the database is up")
      return yield* Effect.never
    }))

    const loop = Effect.gen(function*() {
      let wait = firstWaitMs
      while (true) {
        yield* once.pipe(
          Effect.catchCause((cause) =>
            Cause.hasInterruptsOnly(cause) ? Effect.interrupt : tell(explain(Cause.squash(cause)))
          ),
        )
        yield* Effect.sleep(wait)
        wait = Math.min(longestWaitMs, wait * 2)
      }
    })
    yield* Effect.forkScoped(loop)
  }))

/** Where the database of this node is. */
export class DatabaseServer extends Context.Service<DatabaseServer, {
  /** Waits for the first start of the embedded server. */
  readonly url: Effect.Effect<Redacted.Redacted>
  /** One line for a person on why it is away, `null` while nothing is known against it. */
  readonly trouble: Effect.Effect<string | null>
}>()("nightjar/ops/DatabaseServer") {}

/** The operator's server where `url` is given, otherwise the embedded one, which runs as long as this layer. */
export const layerServer = (options: {
  readonly url: Redacted.Redacted | null
  readonly dataFolder: string
}): Layer.Layer<DatabaseServer> =>
  options.url !== null ?
    Layer.succeed(DatabaseServer, { url: Effect.succeed(options.url), trouble: Effect.succeed(null) }) :
    Layer.effect(
      DatabaseServer,
      Effect.map(EmbeddedPostgres, ({ state, url }) => ({
        url,
        trouble: Effect.map(
          state,
          (now) => now._tag === "Running" ? null : now._tag === "Starting" ? "it is starting" : now.reason,
        ),
      })),
    ).pipe(Layer.provide(layerEmbedded({ dataFolder: options.dataFolder })))

/** Connections to it, with the schema up to date; fails while it cannot be reached. */
export const layerDatabase = (applicationName: string) =>
  Layer.unwrap(Effect.gen(function*() {
    const server = yield* DatabaseServer
    return Database.layer({ url: yield* server.url, applicationName })
  }))

/** Asks the database through the published connections; for health. Fails within a second. */
export const databaseHealth: Effect.Effect<HealthReporter, never, Late | DatabaseServer> = Effect.gen(function*() {
  const late = yield* Late
  const server = yield* DatabaseServer
  const ask = Effect.flatMap(late.get(SqlClient.SqlClient), (sql) => sql`SELECT 1`).pipe(
    Effect.timed,
    Effect.timeout("900 millis"),
  )
  return {
    name: "postgresql:responseTime",
    check: ask.pipe(
      Effect.map(([duration]) => ({
        componentType: "datastore" as const,
        status: "pass" as const,
        observedValue: Math.round(Duration.toMillis(duration)),
        observedUnit: "ms",
      })),
      Effect.catch((error) =>
        Effect.map(server.trouble, (trouble) => ({
          componentType: "datastore" as const,
          status: "fail" as const,
          output: trouble ?? (error._tag === "DependencyUnavailable" ? error.message : "it does not answer"),
        }))
      ),
    ),
  }
})
