/**
 * A whole node within this process, as `nightjar start` wires it, on a PostgreSQL of its own: for tests that talk to it by HTTP and
 * look behind it.
 *
 * Invariants
 * 1. It sees none of the environment's own `NIGHTJAR_` settings, listens on loopback alone, and ends with the scope, its folder too.
 * 2. What it logs is kept, the newest {@link keptLines} lines, so that a failure can be told with its cause.
 */
import { Late } from "#actors/protocol/late.ts"
import { readSettings } from "#ops/config.ts"
import { DatabaseServer } from "#ops/control.ts"
import { layerClient } from "#ops/database.ts"
import { nodeLayer } from "#ops/start.ts"
import { Vault } from "#schema/vault.ts"
import { Cause, Context, Effect, Layer, Logger } from "effect"
import { HttpServer } from "effect/http"
import { SqlClient } from "effect/sql"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { seedDatabase } from "./seed.ts"

/** About 1 MiB. */
const keptLines = 4_000
export const adminPassword = "correct horse battery"

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-whole-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
)

const keeping = (lines: Array<string>) =>
  Logger.make((options) => {
    const { annotations, message } = Logger.formatStructured.log(options)
    const cause = options.cause.reasons.length === 0 ? "" : `\n${Cause.pretty(options.cause)}`
    lines.push(`${options.logLevel} ${JSON.stringify(message)} ${JSON.stringify(annotations)}${cause}`)
    if (lines.length > keptLines) lines.splice(0, keptLines / 2)
  })

/** Up when it answers sign-ins. */
export const wholeNode = Effect.fnUntraced(function*(settings: Readonly<Record<string, string>> = {}) {
  const data = yield* folder
  const lines: Array<string> = []
  if (settings["NIGHTJAR_DATABASE_URL"] === undefined) seedDatabase(data)
  const read = yield* readSettings({
    NIGHTJAR_DATA_DIR: data,
    NIGHTJAR_HTTP_PORT: "0",
    NIGHTJAR_RTSP_PORT: "0",
    NIGHTJAR_NODE_NAME: "whole",
    NIGHTJAR_ADMIN_PASSWORD: adminPassword,
    ...settings,
  })
  const context = yield* Layer.build(nodeLayer(read).pipe(Layer.provideMerge(Logger.layer([keeping(lines)]))))
  const { address } = Context.get(context, HttpServer.HttpServer)
  const base = `http://127.0.0.1:${"port" in address ? address.port : 0}`
  const url = yield* Context.get(context, DatabaseServer).url
  // Not about speed: what never comes up is told with the log's end instead of as a hang.
  yield* Effect.gen(function*() {
    while (!lines.some((line) => line.includes("Everything that needs the database is up"))) yield* Effect.sleep(50)
  }).pipe(Effect.timeoutOrElse({
    duration: "100 seconds",
    orElse: () => Effect.die(new Error(`The node did not come up:\n${lines.slice(-20).join("\n")}`)),
  }))
  const client = yield* Layer.build(layerClient({ url, applicationName: "test", maxConnections: 2 }))
  return {
    base,
    sql: Context.get(client, SqlClient.SqlClient),
    /** That of the database: the cluster's. */
    vault: yield* Context.get(context, Late).get(Vault),
    /** What was logged about a request. */
    told: (traceId: string) => lines.filter((line) => line.includes(traceId)).join("\n"),
    lines,
  }
})
export type WholeNode = Effect.Success<ReturnType<typeof wholeNode>>
