/** A process that makes the database of `seed.ts` in a folder: `node test/harness/seed-maker.ts <data folder>`. */
import { layer } from "#ops/database.ts"
import { EmbeddedPostgres, layer as postgresLayer } from "#ops/host/postgres.ts"
import { Context, Effect, Layer } from "effect"
import { appendFileSync } from "node:fs"
import { join } from "node:path"

const dataFolder = process.argv[2]!

await Effect.runPromise(Effect.scoped(Effect.gen(function*() {
  const postgres = yield* Layer.build(postgresLayer({ dataFolder }))
  const url = yield* Context.get(postgres, EmbeddedPostgres).url
  yield* Effect.scoped(Layer.build(layer({ url, applicationName: "seed" })))
})))

// Nothing here outlives the machine: what a killed process has written the kernel has, and writes when it likes.
appendFileSync(join(dataFolder, "postgres", "data", "postgresql.conf"), "fsync = off\nfull_page_writes = off\n")
