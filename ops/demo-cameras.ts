/**
 * The demo's children: simulated cameras, and how a node is told to record them.
 *
 * Invariants
 * 1. The simulator ends when its standard input does, so that not even a kill -9 of the demo leaves it behind.
 * 2. Telling a node again changes nothing that a person did: cameras that exist are only told their new addresses.
 */
import type { Client } from "#http/contract/client.ts"
import { type Duration, Effect, Redacted } from "effect"
import { type ChildProcess, spawn, type StdioOptions } from "node:child_process"
import { randomBytes } from "node:crypto"
import { readFile, writeFile } from "node:fs/promises"
import { createServer } from "node:net"
import { join } from "node:path"
import { childEnvironment } from "./config.ts"

export const root = new URL("..", import.meta.url).pathname

export interface SimulatedCamera {
  readonly name: string
  readonly username: string
  readonly password: string
  readonly streams: ReadonlyArray<{ readonly role: "main" | "sub"; readonly url: string }>
}

/** Starts one of the product's programs. Ctrl-C goes to the demo alone, which stops its children in order. */
export const child = (
  [script, ...args]: readonly [string, ...ReadonlyArray<string>],
  environment: Record<string, string>,
  stdio: StdioOptions,
): ChildProcess =>
  spawn(process.execPath, [join(root, script), ...args], { stdio, env: childEnvironment(environment), detached: true })

const exited = (running: ChildProcess): Effect.Effect<void> =>
  Effect.callback((resume) => {
    if (running.exitCode !== null || running.signalCode !== null) return resume(Effect.void)
    running.once("exit", () => resume(Effect.void))
  })

/** Whoever does not stop within `patience` is killed. */
export const stop = (running: ChildProcess, signal: NodeJS.Signals, patience: Duration.Input): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (running.exitCode === null && running.signalCode === null) running.kill(signal)
    return exited(running)
  }).pipe(Effect.timeoutOrElse({
    duration: patience,
    orElse: () => Effect.andThen(Effect.sync(() => running.kill("SIGKILL")), exited(running)),
  }))

const start = (count: number): Promise<
  { readonly process: ChildProcess; readonly cameras: ReadonlyArray<SimulatedCamera> }
> =>
  new Promise((resolve, reject) => {
    const simulator = child(
      ["test/camera-simulator/main.ts", "--cameras", String(count), "--port", "0", "--with-parent"],
      {},
      ["pipe", "pipe", "inherit"],
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

/** Simulated cameras until the scope closes. */
export const simulatedCameras = (count: number) =>
  Effect.acquireRelease(
    Effect.promise(() => start(count)),
    ({ process: running }) => stop(running, "SIGTERM", "5 seconds"),
  ).pipe(Effect.map(({ cameras }) => cameras))

/** The demo's password, made once: the operator's own setting wins. */
export const passwordOf = async (folder: string, given: Redacted.Redacted | null): Promise<string> => {
  if (given !== null) return Redacted.value(given)
  const file = join(folder, "demo-password")
  const known = await readFile(file, "utf8").catch(() => null)
  if (known !== null) return known
  const made = randomBytes(9).toString("base64url")
  await writeFile(file, made, { mode: 0o600 })
  return made
}

export const isFree = (host: string, port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer()
    server.once("error", () => resolve(false))
    server.listen(port, host, () => server.close(() => resolve(true)))
  })

/** Adds these cameras and records them; `nameOf` by the number in the simulator, from 0. */
export const record = (client: Client, simulated: ReadonlyArray<SimulatedCamera>, nameOf: (number: number) => string) =>
  Effect.gen(function*() {
    const known = yield* client.camera.cameras({ query: { limit: 500 } })
    for (const one of simulated) {
      const name = one.name.replace(/^camera (\d+)$/, (_, number: string) => nameOf(Number(number)))
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
