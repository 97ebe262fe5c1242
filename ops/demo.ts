/**
 * `npm run demo`: a node on embedded PostgreSQL with two simulated cameras that are recorded at once. It keeps its data in
 * `.nightjar/demo`, so the next run goes on where this one stopped.
 *
 * Invariants
 * 1. What it starts ends with it: the cameras and the node are its children and stop on Ctrl-C, the node first.
 * 2. Running it again changes nothing that a person did: cameras that exist are only told their new addresses.
 */
import { type Client, makeClient } from "#http/contract/client.ts"
import { Effect, Redacted, Schedule } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { mkdir, readFile, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { childEnvironment, localUrl, readSettings } from "./config.ts"
import { trustNode } from "./trust.ts"

const root = new URL("..", import.meta.url).pathname
const dataDir = join(root, ".nightjar", "demo")

interface SimulatedCamera {
  readonly name: string
  readonly username: string
  readonly password: string
  readonly streams: ReadonlyArray<{ readonly role: "main" | "sub"; readonly url: string }>
}

/** Starts one of the product's programs with this terminal's output. */
const child = (
  script: string,
  args: ReadonlyArray<string>,
  environment: Record<string, string>,
  quiet: boolean,
): ChildProcess =>
  spawn(process.execPath, [join(root, script), ...args], {
    // The simulator ends when its standard input does, so that not even a kill -9 of the demo leaves it behind.
    stdio: ["pipe", quiet ? "pipe" : "inherit", "inherit"],
    env: childEnvironment(environment),
    // Ctrl-C goes to the demo alone, which stops its children in order.
    detached: true,
  })

const startCameras = (): Promise<
  { readonly process: ChildProcess; readonly cameras: ReadonlyArray<SimulatedCamera> }
> =>
  new Promise((resolve, reject) => {
    const simulator = child(
      "test/camera-simulator/main.ts",
      ["--cameras", "2", "--port", "0", "--with-parent"],
      {},
      true,
    )
    simulator.once("error", reject)
    simulator.once("exit", (code) => reject(new Error(`the simulated cameras ended (${code})`)))
    let text = ""
    simulator.stdout?.on("data", (chunk: Buffer) => {
      text += chunk.toString()
      if (!text.includes("\n")) return
      simulator.removeAllListeners("exit")
      resolve({
        process: simulator,
        cameras: (JSON.parse(text) as { readonly cameras: ReadonlyArray<SimulatedCamera> }).cameras,
      })
    })
  })

/** The demo's password, made once: the operator's own setting wins. */
const passwordOf = async (given: Redacted.Redacted | null): Promise<string> => {
  if (given !== null) return Redacted.value(given)
  const file = join(dataDir, "demo-password")
  const known = await readFile(file, "utf8").catch(() => null)
  if (known !== null) return known
  const made = randomBytes(9).toString("base64url")
  await writeFile(file, made, { mode: 0o600 })
  return made
}

const isFree = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, host, () => server.close(() => resolve(true)))
  })

/** The wished port, or the next free one of twenty. */
const freePort = async (host: string, wished: number): Promise<number> => {
  for (let port = wished; port < wished + 20; port++) if (await isFree(host, port)) return port
  throw new Error(`no free port from ${wished} to ${wished + 19}`)
}

const record = (client: Client, simulated: ReadonlyArray<SimulatedCamera>) =>
  Effect.gen(function*() {
    const known = yield* client.camera.cameras({ query: { limit: 500 } })
    for (const one of simulated) {
      const name = one.name.replace(/^camera (\d+)$/, (_, number: string) => `Demo camera ${Number(number) + 1}`)
      const camera = known.items.find((existing) => existing.name === name)
      const streams = one.streams.map((stream) => ({ role: stream.role, sourceUrl: stream.url }))
      if (camera === undefined) {
        const { username } = one
        const payload = { name, driver: "rtsp" as const, username, password: Redacted.make(one.password), streams }
        const { body } = yield* client.camera.addCamera({ headers: {}, payload })
        const channelId = body.channels[0]!.id
        yield* client.record.createRecording({
          headers: {},
          payload: { channelId, mode: "continuous", enabled: true, retentionDays: 3 },
        })
        continue
      }
      for (const stream of camera.channels.flatMap((channel) => channel.streams)) {
        const sourceUrl = streams.find((wanted) => wanted.role === stream.role)?.sourceUrl
        if (sourceUrl === undefined || sourceUrl === stream.sourceUrl) continue
        yield* client.camera.updateStream({
          params: { stream_id: stream.id },
          headers: {},
          payload: { sourceUrl, transport: stream.transport, enabled: stream.enabled },
        })
      }
    }
  })

const stop = (running: ChildProcess, signal: NodeJS.Signals): Promise<void> =>
  new Promise((resolve) => {
    if (running.exitCode !== null || running.signalCode !== null) return resolve()
    running.once("exit", () => resolve())
    running.kill(signal)
  })

const demo = Effect.gen(function*() {
  const settings = yield* readSettings()
  yield* Effect.promise(() => mkdir(dataDir, { recursive: true, mode: 0o700 }))
  const password = yield* Effect.promise(() => passwordOf(settings.adminPassword))
  const port = yield* Effect.promise(() => freePort(settings.httpHost, settings.httpPort))
  const simulator = yield* Effect.acquireRelease(
    Effect.promise(startCameras),
    ({ process: running }) => Effect.promise(() => stop(running, "SIGTERM")),
  )
  const node = yield* Effect.acquireRelease(
    Effect.sync(() =>
      child("ops/main.ts", ["start"], {
        NIGHTJAR_DATA_DIR: dataDir,
        NIGHTJAR_HTTP_PORT: String(port),
        NIGHTJAR_ADMIN_PASSWORD: password,
        NIGHTJAR_LOG_LEVEL: settings.logLevel === "info" ? "warn" : settings.logLevel,
      }, false)
    ),
    (running) => Effect.promise(() => stop(running, "SIGINT")),
  )
  const address = localUrl(settings, port)
  let token: string | null = null
  const client = yield* makeClient({ baseUrl: address, token: () => token })
  // Half a minute covers the first start: initdb, migrations and the build of the dashboard.
  const healthy = Effect.andThen(trustNode({ ...settings, dataDir }), client.health.health())
  yield* Effect.retry(healthy, { schedule: Schedule.spaced("250 millis"), times: 120 })
  const login = client.auth.login({ payload: { username: "admin", password: Redacted.make(password), cookie: false } })
  const { body } = yield* Effect.retry(login, {
    schedule: Schedule.spaced("250 millis"),
    times: 120,
    while: (error) => error._tag === "DependencyUnavailable",
  })
  token = body.accessToken
  yield* record(client, simulator.cameras)
  yield* client.auth.logout()
  console.log(
    `\n  Nightjar records two simulated cameras.\n\n    dashboard  ${address}\n    user       admin\n    password   ${password}\n\n  Ctrl-C stops it.\n`,
  )
  const code = yield* Effect.promise(() => new Promise<number | null>((resolve) => node.once("exit", resolve)))
  return yield* Effect.fail(new Error(`the node ended (${code})`))
})

const interrupted = new AbortController()
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort())
await Effect.runPromise(Effect.scoped(demo), { signal: interrupted.signal }).catch((error: unknown) => {
  if (interrupted.signal.aborted) return
  console.error(error instanceof Error ? error.message : String(error))
  process.exitCode = 1
})
