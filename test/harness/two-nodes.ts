/** Two nodes of one cluster on one PostgreSQL, for all tests of a file: real processes that share a signing key and a database. */
import { EmbeddedPostgres } from "#ops/host/postgres.ts"
import { Context, Effect, Exit, Layer, Logger, Redacted, Scope } from "effect"
import { randomBytes } from "node:crypto"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { afterAll, beforeAll } from "vitest"
import { freePort, makeNode, type NodeProcess } from "./node-process.ts"
import { postgresLayer } from "./postgres.ts"

export const administratorPassword = "correct horse battery"

/** There from the first test on. */
export interface TwoNodes {
  readonly here: NodeProcess
  readonly there: NodeProcess
  /** They talk over the bus as well: where loopback has an address for each of them. */
  readonly withBus: boolean
  /** Of their database. */
  readonly url: Redacted.Redacted
}

/** Starts them before the file's tests, and ends everything after them. */
export const startTwoNodes = (): TwoNodes => {
  const folder = mkdtempSync(join(tmpdir(), "nightjar-two-nodes-"))
  const scope = Effect.runSync(Scope.make())
  const withBus = process.platform === "linux"
  const cluster: { here?: NodeProcess; there?: NodeProcess; url?: Redacted.Redacted; withBus: boolean } = { withBus }

  beforeAll(async () => {
    const data = join(folder, "postgres")
    const postgres = await Effect.runPromise(
      Layer.buildWithScope(postgresLayer({ dataFolder: data, copies: join(folder, "copies") }), scope).pipe(
        Effect.provide(Logger.layer([])),
      ),
    )
    cluster.url = await Effect.runPromise(Context.get(postgres, EmbeddedPostgres).url)
    const settings = {
      NIGHTJAR_DATABASE_URL: Redacted.value(cluster.url),
      NIGHTJAR_ADMIN_PASSWORD: administratorPassword,
      NIGHTJAR_CLUSTER_SECRET: randomBytes(32).toString("base64"),
    }
    const busPort = String(withBus ? await freePort() : 0)
    const at = (host: string) => withBus ? { NIGHTJAR_CLUSTER_HOST: host, NIGHTJAR_BUS_PORT: busPort } : {}
    cluster.here = await makeNode(join(folder, "here"), { ...settings, ...at("127.0.0.2") })
    cluster.there = await makeNode(join(folder, "there"), { ...settings, ...at("127.0.0.3") })
    await cluster.here.start()
    await cluster.there.start()
    // On a busy machine one would stand in for the other now and then; that has tests of its own.
    await cluster.here.call("PUT", "/federation/api/v1/federation/failover/settings", { guardMembers: false })
  }, 120_000)

  afterAll(async () => {
    await Promise.all([cluster.here?.stop(), cluster.there?.stop()])
    await Effect.runPromise(Scope.close(scope, Exit.void))
    rmSync(folder, { recursive: true, force: true })
  }, 60_000)

  return cluster as TwoNodes
}
