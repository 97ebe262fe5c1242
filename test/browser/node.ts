/**
 * A node and simulated cameras for tests in a browser, as processes of their own.
 *
 * Invariants
 * 1. What it starts ends with {@link Running.stop}, by process id; the data folder goes with it.
 * 2. Everything listens on free ports of the loopback address.
 */
import { type Client, makeClient } from "#http/contract/client.ts"
import { Effect, Redacted } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import { mkdtemp, rm } from "node:fs/promises"
import { tmpdir } from "node:os"
import { join } from "node:path"
import type { Page } from "playwright-core"
import { seedDatabase } from "../harness/seed.ts"

const root = new URL("../..", import.meta.url).pathname
export const password = "seventeen-nightjars"

export interface SimulatedCamera {
  readonly username: string
  readonly password: string
  readonly streams: ReadonlyArray<{ readonly role: "main" | "sub"; readonly url: string }>
}

interface Simulator {
  readonly process: ChildProcess
  readonly control: string
  readonly cameras: ReadonlyArray<SimulatedCamera>
}

export interface Running {
  /** `http://127.0.0.1:<port>` */
  readonly address: string
  readonly cameras: ReadonlyArray<SimulatedCamera>
  /** Tells simulated camera `index` to do something; see `test/camera-simulator/control.ts`. */
  readonly tell: (index: number, verb: string, body?: object) => Promise<void>
  /** The node's typed client, signed in as the administrator. */
  readonly client: Client
  readonly stop: () => Promise<void>
}

export interface Wanted {
  /** Arguments of the simulator. */
  readonly simulator: ReadonlyArray<string>
  /** Settings of the node besides, `NIGHTJAR_…`. */
  readonly settings?: Readonly<Record<string, string>>
}

/** The first match of a pattern in what a process prints; an error with the whole output if it ends before. */
const printed = (child: ChildProcess, pattern: RegExp): Promise<RegExpExecArray> =>
  new Promise((resolve, reject) => {
    let text = ""
    const read = (chunk: Buffer) => {
      // 64 KiB are plenty to look for one line; the rest of a long life is not kept.
      text = (text + chunk.toString()).slice(-65_536)
      const match = pattern.exec(text)
      if (match !== null) resolve(match)
    }
    child.stdout?.on("data", read)
    child.stderr?.on("data", read)
    child.once("error", reject)
    child.once("exit", (code) => reject(new Error(`ended with ${code}: ${text}`)))
  })

const startSimulator = async (args: ReadonlyArray<string>): Promise<Simulator> => {
  const script = join(root, "test/camera-simulator/main.ts")
  const child = spawn(process.execPath, [script, "--port", "0", "--with-parent", ...args], {
    stdio: ["pipe", "pipe", "pipe"],
  })
  const [line] = await printed(child, /^\{.*\}$/m)
  const { cameras, control } = JSON.parse(line) as Omit<Simulator, "process">
  return { process: child, control, cameras }
}

const stop = (child: ChildProcess, signal: NodeJS.Signals): Promise<void> =>
  new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    // A node that does not end in order must not outlive the test.
    const force = setTimeout(() => child.kill("SIGKILL"), 20_000)
    child.once("exit", () => {
      clearTimeout(force)
      resolve()
    })
    child.kill(signal)
  })

/** Asks again, four times a second, until it holds; an error that says what was waited for after `seconds`. */
export const eventually = async <A>(
  what: string,
  ask: () => Promise<A | null | undefined | false>,
  seconds = 60,
): Promise<A> => {
  let last: unknown = null
  const over = AbortSignal.timeout(seconds * 1000)
  while (!over.aborted) {
    try {
      const answer = await ask()
      if (answer !== null && answer !== undefined && answer !== false) return answer
    } catch (error) {
      last = error
    }
    await new Promise((resolve) => setTimeout(resolve, 250))
  }
  throw new Error(`waited ${seconds} s in vain: ${what}`, { cause: last })
}

const signedIn = async (address: string): Promise<Client> => {
  let token: string | null = null
  const client = await Effect.runPromise(makeClient({ baseUrl: address, token: () => token }))
  const payload = { username: "admin", password: Redacted.make(password), cookie: false }
  const { body } = await eventually("a sign-in", () => Effect.runPromise(client.auth.login({ payload })))
  token = body.accessToken
  return client
}

/** Starts simulated cameras and a node that knows none of them yet; resolves when the dashboard is served. */
export const startNode = async (wanted: Wanted): Promise<Running> => {
  const folder = await mkdtemp(join(tmpdir(), "nightjar-browser-"))
  const simulator = await startSimulator(wanted.simulator)
  seedDatabase(folder)
  const node = spawn(process.execPath, [join(root, "ops/main.ts"), "start"], {
    cwd: root,
    stdio: ["ignore", "pipe", "pipe"],
    env: {
      ...process.env,
      NIGHTJAR_DATA_DIR: folder,
      NIGHTJAR_HTTP_PORT: "0",
      NIGHTJAR_ADMIN_PASSWORD: password,
      NIGHTJAR_LOG_LEVEL: "info",
      ...wanted.settings,
    },
  })
  const end = async () => {
    await stop(node, "SIGINT")
    await stop(simulator.process, "SIGTERM")
    await rm(folder, { recursive: true, force: true })
  }
  try {
    const [, address = ""] = await printed(node, /serves (http:\/\/[\d.]+:\d+)/)
    const client = await signedIn(address)
    await eventually("the dashboard", async () => (await (await fetch(address)).text()).includes("/assets/"))
    const tell = async (index: number, verb: string, body: object = {}) => {
      const answer = await fetch(`${simulator.control}/cameras/${index}/${verb}`, {
        method: "POST",
        body: JSON.stringify(body),
      })
      if (!answer.ok) throw new Error(`${verb}: ${answer.status} ${await answer.text()}`)
    }
    return { address, cameras: simulator.cameras, tell, client, stop: end }
  } catch (error) {
    await end()
    throw error
  }
}

/** Adds a simulated camera and records it; its recording. */
export const recordCamera = (client: Client, name: string, camera: SimulatedCamera, retentionDays = 3) =>
  Effect.runPromise(Effect.gen(function*() {
    const { body } = yield* client.camera.addCamera({
      headers: {},
      payload: {
        name,
        driver: "rtsp",
        username: camera.username,
        password: Redacted.make(camera.password),
        streams: camera.streams.map(({ role, url }) => ({ role, sourceUrl: url })),
      },
    })
    const payload = { channelId: body.channels[0]!.id, mode: "continuous" as const, enabled: true, retentionDays }
    return (yield* client.record.createRecording({ headers: {}, payload })).body
  }))

/** Signs somebody in by the form, the administrator if nobody is named; ends on the page of live pictures. */
export const signIn = async (page: Page, address: string, who = { username: "admin", password }): Promise<void> => {
  await page.goto(address)
  await page.getByLabel("User name").fill(who.username)
  await page.getByLabel("Password").fill(who.password)
  await page.getByRole("button", { name: "Sign in" }).click()
  await page.getByRole("heading", { name: "Live" }).waitFor()
}
