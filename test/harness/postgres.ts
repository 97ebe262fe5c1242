/** A PostgreSQL of a test's own, by the product's own way, that begins with the prepared database (`seed.ts`). */
import { layer, type PostgresOptions } from "#ops/host/postgres.ts"
import { Effect, Layer } from "effect"
import { seedDatabase } from "./seed.ts"

export const postgresLayer = (options: PostgresOptions) =>
  Layer.unwrap(Effect.sync(() => {
    seedDatabase(options.dataFolder)
    return layer(options)
  }))
