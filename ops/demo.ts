/**
 * `npm run demo`: a node on embedded PostgreSQL with two simulated cameras that are recorded at once. It keeps its data in
 * `.nightjar/demo`, so the next run goes on where this one stopped. With `-- --nodes 3` several nodes that stand in for each
 * other (`demo-nodes.ts`).
 *
 * Invariants
 * 1. What it starts ends with it: the cameras and the nodes are its children and stop on Ctrl-C, the nodes first.
 * 2. Running it again changes nothing that a person did.
 */
import { makeClient } from "#http/contract/client.ts"
import { Effect, Redacted, Schedule } from "effect"
import { mkdir } from "node:fs/promises"
import { isAbsolute, join } from "node:path"
import { parseArgs } from "node:util"
import { localUrl, readSettings } from "./config.ts"
import { child, isFree, passwordOf, record, root, simulatedCameras, stop } from "./demo-cameras.ts"
import { mostNodes, severalNodes } from "./demo-nodes.ts"
import { trustNode } from "./trust.ts"

/** The wished port, or the next free one of twenty. */
const freePort = async (host: string, wished: number): Promise<number> => {
  for (let port = wished; port < wished + 20; port++) if (await isFree(host, port)) return port
  throw new Error(`no free port from ${wished} to ${wished + 19}`)
}

const oneNode = (dataDir: string) =>
  Effect.gen(function*() {
    const settings = yield* readSettings()
    yield* Effect.promise(() => mkdir(dataDir, { recursive: true, mode: 0o700 }))
    const password = yield* Effect.promise(() => passwordOf(dataDir, settings.adminPassword))
    const port = yield* Effect.promise(() => freePort(settings.httpHost, settings.httpPort))
    const cameras = yield* simulatedCameras(2)
    const node = yield* Effect.acquireRelease(
      Effect.sync(() =>
        child(["ops/main.ts", "start"], {
          NIGHTJAR_DATA_DIR: dataDir,
          NIGHTJAR_HTTP_PORT: String(port),
          NIGHTJAR_ADMIN_PASSWORD: password,
          NIGHTJAR_LOG_LEVEL: settings.logLevel === "info" ? "warn" : settings.logLevel,
        }, ["pipe", "inherit", "inherit"])
      ),
      (running) => stop(running, "SIGINT", "30 seconds"),
    )
    const address = localUrl(settings, port)
    let token: string | null = null
    const client = yield* makeClient({ baseUrl: address, token: () => token })
    // Half a minute covers the first start: initdb, migrations and the build of the dashboard.
    const healthy = Effect.andThen(trustNode({ ...settings, dataDir }), client.health.health())
    yield* Effect.retry(healthy, { schedule: Schedule.spaced("250 millis"), times: 120 })
    const login = client.auth.login({
      payload: { username: "admin", password: Redacted.make(password), cookie: false },
    })
    const { body } = yield* Effect.retry(login, {
      schedule: Schedule.spaced("250 millis"),
      times: 120,
      while: (error) => error._tag === "DependencyUnavailable",
    })
    token = body.accessToken
    yield* record(client, cameras, (number) => `Demo camera ${number + 1}`)
    yield* client.auth.logout()
    console.log(
      `\n  Nightjar records two simulated cameras.\n\n    dashboard  ${address}\n    user       admin\n    password   ${password}\n\n  Ctrl-C stops it.\n`,
    )
    const code = yield* Effect.promise(() => new Promise<number | null>((resolve) => node.once("exit", resolve)))
    return yield* Effect.fail(new Error(`the node ended (${code})`))
  })

const { values } = parseArgs({ options: { nodes: { type: "string", default: "1" }, data: { type: "string" } } })
const count = Number(values.nodes)
if (!Number.isInteger(count) || count < 1 || count > mostNodes) {
  console.error(`--nodes: expected a whole number from 1 to ${mostNodes}`)
  process.exit(2)
}
const kept = join(".nightjar", count === 1 ? "demo" : `demo-${count}`)
const folder = values.data === undefined ?
  join(root, kept) :
  isAbsolute(values.data) ?
  values.data :
  join(process.cwd(), values.data)

const interrupted = new AbortController()
// A second Ctrl-C changes nothing: what was started is being ended.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.on(signal, () => interrupted.abort())
await Effect.runPromise(Effect.scoped(count === 1 ? oneNode(folder) : severalNodes(folder, count)), {
  signal: interrupted.signal,
}).catch((error: unknown) => {
  if (interrupted.signal.aborted) return
  console.error(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
})
