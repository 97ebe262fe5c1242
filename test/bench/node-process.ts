/**
 * A Nightjar node as a process of its own, driven only by its REST API.
 *
 * Invariants
 * 1. It sees none of the environment's own `NIGHTJAR_` settings.
 * 2. `stop` ends the node by its id with SIGTERM and answers when it and its PostgreSQL have gone.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { existsSync, globSync, openSync, readFileSync } from "node:fs"
import { createServer } from "node:net"
import * as path from "node:path"

const root = path.join(import.meta.dirname, "..", "..")
const START_LIMIT_MS = 60_000

export interface NodeProcess {
  readonly pid: number
  readonly url: string
  readonly log: string
  /** Processes whose trees make up the node: itself, and its PostgreSQL where that is embedded. */
  readonly roots: () => { readonly node: ReadonlyArray<number>; readonly postgres: ReadonlyArray<number> }
  /** Answers the parsed body; rejects with the problem document where the status is not 2xx. */
  readonly call: (method: string, path: string, body?: unknown) => Promise<unknown>
  readonly stop: () => Promise<void>
}

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once("error", reject)
    server.listen(0, "127.0.0.1", () => {
      const address = server.address()
      server.close(() =>
        typeof address === "object" && address !== null ? resolve(address.port) : reject(new Error("no port"))
      )
    })
  })

const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

const alive = (pid: number): boolean => existsSync(`/proc/${pid}`)

/** `postmaster.pid` holds the process id of an embedded PostgreSQL in its first line. */
const postmasters = (dataDir: string): ReadonlyArray<number> =>
  globSync(path.join(dataDir, "**", "postmaster.pid"))
    .map((file) => Number(readFileSync(file, "utf8").split("\n")[0]))
    .filter(alive)

const healthy = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(`${url}/health`, { signal: AbortSignal.timeout(2_000) })).ok
  } catch {
    return false
  }
}

/** Starts a node in a folder and waits until it is healthy and signed in; rejects with the end of its log where it never is. */
export const startNode = async (
  dataDir: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<NodeProcess> => {
  const password = randomBytes(12).toString("base64url")
  const url = `http://127.0.0.1:${await freePort()}`
  const log = path.join(dataDir, "node.log")
  const output = openSync(log, "a")
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("NIGHTJAR_"))
  const child = spawn(process.execPath, [path.join(root, "ops", "main.ts"), "start"], {
    cwd: root,
    stdio: ["ignore", output, output],
    env: {
      ...Object.fromEntries(inherited),
      NIGHTJAR_DATA_DIR: path.join(dataDir, "data"),
      NIGHTJAR_HTTP_PORT: new URL(url).port,
      NIGHTJAR_RTSP_PORT: "0",
      NIGHTJAR_ADMIN_PASSWORD: password,
      ...settings,
    },
  })
  const begun = performance.now()
  while (!(await healthy(url))) {
    if (child.exitCode !== null || performance.now() - begun > START_LIMIT_MS) {
      const tail = readFileSync(log, "utf8").slice(-4_000)
      await stopNode(child, dataDir)
      throw new Error(`the node did not become healthy; the end of its log:\n${tail}`)
    }
    await sleep(100)
  }
  const session = new Session(url, password)
  return {
    pid: child.pid!,
    url,
    log,
    roots: () => {
      const postgres = postmasters(dataDir)
      return { node: [child.pid!], postgres }
    },
    call: (method, where, body) => session.call(method, where, body),
    stop: () => stopNode(child, dataDir),
  }
}

const stopNode = async (child: ChildProcess, dataDir: string): Promise<void> => {
  const databases = postmasters(dataDir)
  if (child.exitCode === null && child.signalCode === null) {
    const gone = new Promise((resolve) => child.once("exit", resolve))
    child.kill("SIGTERM")
    const killer = setTimeout(() => child.kill("SIGKILL"), 30_000)
    await gone
    clearTimeout(killer)
  }
  for (const pid of databases) {
    // A node that was killed leaves its database running.
    if (alive(pid)) process.kill(pid, "SIGINT")
    while (alive(pid)) await sleep(50)
  }
}

/** Calls with an access token that is fetched again before it ends. */
class Session {
  readonly #url: string
  readonly #password: string
  #token = ""
  #untilMs = 0

  constructor(url: string, password: string) {
    this.#url = url
    this.#password = password
  }

  async call(method: string, where: string, body?: unknown): Promise<unknown> {
    if (performance.now() >= this.#untilMs) await this.#signIn()
    return await this.#send(method, where, body)
  }

  async #signIn(): Promise<void> {
    const given = await this.#send("POST", "/auth/api/v1/auth/login", { username: "admin", password: this.#password })
    const { accessToken, expiresIn } = given as { accessToken: string; expiresIn: number }
    this.#token = accessToken
    this.#untilMs = performance.now() + expiresIn * 500
  }

  async #send(method: string, where: string, body: unknown): Promise<unknown> {
    const response = await fetch(`${this.#url}${where}`, {
      method,
      headers: {
        "content-type": "application/json",
        ...(this.#token === "" ? {} : { authorization: `Bearer ${this.#token}` }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${where}: ${response.status} ${text}`)
    return text === "" ? null : JSON.parse(text)
  }
}
