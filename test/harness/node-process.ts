/**
 * A Nightjar node as a process of its own, driven only by its REST API; it can be killed and started again on the same data.
 *
 * Invariants
 * 1. It sees none of the environment's own `NIGHTJAR_` settings.
 * 2. `stop` ends the node by its id with SIGTERM and answers when it and its PostgreSQL have gone.
 * 3. Address and password stay the same over all its lives.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { closeSync, globSync, mkdirSync, openSync, readFileSync, readlinkSync, realpathSync } from "node:fs"
import { createServer } from "node:net"
import * as path from "node:path"
import { seedDatabase } from "./seed.ts"

const root = path.join(import.meta.dirname, "..", "..")
const startLimitMs = 60_000

export const freePort = (): Promise<number> =>
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

export const sleep = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

/** Whether the process runs in the folder: ids are given out again within minutes, so an id alone may be a stranger's. */
const runsIn = (pid: number, folder: string): boolean => {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === realpathSync(folder)
  } catch {
    return false
  }
}

/** Servers that run on the databases below a folder; `postmaster.pid` holds the process id in its first line. */
export const postmasters = (dataDir: string): ReadonlyArray<number> =>
  globSync(path.join(dataDir, "**", "postmaster.pid")).flatMap((file) => {
    let pid: number
    try {
      pid = Number(readFileSync(file, "utf8").split("\n")[0])
    } catch {
      // It ended meanwhile, and took its file along.
      return []
    }
    return runsIn(pid, path.dirname(file)) ? [pid] : []
  })

/** An answer as it came. */
export interface Answer {
  readonly status: number
  readonly body: unknown
}

/** A request that was answered with another status than 2xx. */
export class Refused extends Error {
  readonly status: number
  constructor(what: string, { body, status }: Answer) {
    super(`${what}: ${status} ${JSON.stringify(body)}`)
    this.status = status
  }
}

export class NodeProcess {
  readonly url: string
  readonly log: string
  /** `NIGHTJAR_DATA_DIR`. */
  readonly data: string
  readonly #folder: string
  readonly #password: string
  #environment: Readonly<Record<string, string>>
  #child: ChildProcess | null = null
  #token = ""
  #untilMs = 0

  constructor(folder: string, port: number, settings: Readonly<Record<string, string>>) {
    this.#folder = folder
    this.data = path.join(folder, "data")
    this.log = path.join(folder, "node.log")
    this.url = `http://127.0.0.1:${port}`
    this.#password = settings["NIGHTJAR_ADMIN_PASSWORD"] ?? randomBytes(12).toString("base64url")
    const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith("NIGHTJAR_"))
    this.#environment = {
      ...Object.fromEntries(inherited) as Record<string, string>,
      NIGHTJAR_DATA_DIR: this.data,
      NIGHTJAR_HTTP_PORT: String(port),
      NIGHTJAR_RTSP_PORT: "0",
      NIGHTJAR_ADMIN_PASSWORD: this.#password,
      ...settings,
    }
    mkdirSync(folder, { recursive: true })
  }

  get pid(): number {
    return this.#child?.pid ?? 0
  }

  /** Of `admin`, for those who sign in by themselves. */
  get password(): string {
    return this.#password
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** Settings of the lives to come, besides those it has. */
  set(settings: Readonly<Record<string, string>>): void {
    this.#environment = { ...this.#environment, ...settings }
  }

  /** Begins a life and does not wait for anything. */
  launch(): void {
    // The session of an earlier life may be gone with its database.
    this.#untilMs = 0
    if (this.#environment["NIGHTJAR_DATABASE_URL"] === undefined) seedDatabase(this.data)
    const output = openSync(this.log, "a")
    this.#child = spawn(process.execPath, [path.join(root, "ops", "main.ts"), "start"], {
      cwd: root,
      stdio: ["ignore", output, output],
      env: this.#environment,
    })
    closeSync(output)
  }

  /** Until `/health` answers 200; rejects with the end of the log where it never does. */
  async untilHealthy(): Promise<void> {
    const begun = performance.now()
    while (!(await this.#healthy())) {
      if (!this.running || performance.now() - begun > startLimitMs) {
        await this.stop()
        throw new Error(`the node did not become healthy; ${this.#lastWords()}`)
      }
      await sleep(50)
    }
  }

  #lastWords(): string {
    return `the end of its log:\n${readFileSync(this.log, "utf8").slice(-4_000)}`
  }

  async start(): Promise<void> {
    this.launch()
    await this.untilHealthy()
  }

  /** kill -9. Answers the moment of the signal, epoch milliseconds, once the process is gone. */
  async kill(): Promise<number> {
    const child = this.#child
    if (child === null || !this.running) {
      const how = child === null ? "" : ` (it ended with ${child.exitCode ?? child.signalCode})`
      throw new Error(`there is no node to kill${how}; ${this.#lastWords()}`)
    }
    const gone = new Promise((resolve) => child.once("exit", resolve))
    const at = Date.now()
    child.kill("SIGKILL")
    await gone
    return at
  }

  async stop(): Promise<void> {
    const child = this.#child
    if (child !== null && this.running) {
      const gone = new Promise((resolve) => child.once("exit", resolve))
      child.kill("SIGTERM")
      const killer = setTimeout(() => child.kill("SIGKILL"), 30_000)
      await gone
      clearTimeout(killer)
    }
    // A node that was killed leaves its database running.
    for (const pid of postmasters(this.#folder)) process.kill(pid, "SIGINT")
    while (postmasters(this.#folder).length > 0) await sleep(50)
  }

  /** `nightjar <words>` against this node, as its user. */
  command(
    ...words: ReadonlyArray<string>
  ): Promise<{ readonly code: number; readonly out: string; readonly errors: string }> {
    return new Promise((resolve, reject) => {
      const child = spawn(process.execPath, [path.join(root, "ops", "main.ts"), ...words], {
        cwd: root,
        stdio: ["ignore", "pipe", "pipe"],
        env: this.#environment,
      })
      const [out, errors] = [[] as Array<Buffer>, [] as Array<Buffer>]
      child.stdout.on("data", (chunk: Buffer) => out.push(chunk))
      child.stderr.on("data", (chunk: Buffer) => errors.push(chunk))
      child.once("error", reject)
      child.once(
        "close",
        (code) =>
          resolve({ code: code ?? -1, out: Buffer.concat(out).toString(), errors: Buffer.concat(errors).toString() }),
      )
    })
  }

  /** Processes whose trees make up the node: itself, and its PostgreSQL where that is embedded. */
  roots(): { readonly node: ReadonlyArray<number>; readonly postgres: ReadonlyArray<number> } {
    return { node: [this.pid], postgres: postmasters(this.#folder) }
  }

  /** Answers the parsed body; rejects with the problem document where the status is not 2xx. */
  async call(method: string, where: string, body?: unknown): Promise<unknown> {
    if (performance.now() >= this.#untilMs) await this.signIn()
    const answer = await this.ask(method, where, body)
    if (answer.status < 200 || answer.status > 299) throw new Refused(`${method} ${where}`, answer)
    return answer.body
  }

  /** As `call`, again and again while nobody listens or the answer is 503. */
  async callSoon(method: string, where: string, body?: unknown, limitMs = 30_000): Promise<unknown> {
    const begun = performance.now()
    while (true) {
      try {
        return await this.call(method, where, body)
      } catch (error) {
        const away = !(error instanceof Refused) || error.status === 503
        if (!away || performance.now() - begun > limitMs) throw error
        await sleep(200)
      }
    }
  }

  /** Whatever the status; rejects only where no answer comes within 15 s. */
  async ask(method: string, where: string, body?: unknown): Promise<Answer> {
    const response = await fetch(`${this.url}${where}`, {
      method,
      headers: {
        "content-type": "application/json",
        ...(this.#token === "" ? {} : { authorization: `Bearer ${this.#token}` }),
      },
      signal: AbortSignal.timeout(15_000),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const json = response.headers.get("content-type")?.includes("json") ?? false
    return { status: response.status, body: text === "" ? null : json ? JSON.parse(text) as unknown : text }
  }

  /** `call` does it where it must; by hand, before the database goes away. */
  async signIn(): Promise<void> {
    const where = "/auth/api/v1/auth/login"
    const answer = await this.ask("POST", where, { username: "admin", password: this.#password })
    if (answer.status !== 200) throw new Refused(`POST ${where}`, answer)
    const { accessToken, expiresIn } = answer.body as { accessToken: string; expiresIn: number }
    this.#token = accessToken
    this.#untilMs = performance.now() + expiresIn * 500
  }

  async #healthy(): Promise<boolean> {
    try {
      return (await fetch(`${this.url}/health`, { signal: AbortSignal.timeout(2_000) })).ok
    } catch {
      return false
    }
  }
}

/** A node in a folder that has not been started yet. */
export const makeNode = async (folder: string, settings: Readonly<Record<string, string>> = {}): Promise<NodeProcess> =>
  new NodeProcess(folder, await freePort(), settings)

/** Starts a node in a folder and waits until it is healthy; rejects with the end of its log where it never is. */
export const startNode = async (
  folder: string,
  settings: Readonly<Record<string, string>> = {},
): Promise<NodeProcess> => {
  const node = await makeNode(folder, settings)
  await node.start()
  return node
}
