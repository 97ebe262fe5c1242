/**
 * Nodes as processes in network namespaces on a bridge of their own, and what may befall them, so that a test reads as a sentence.
 *
 * Invariants
 * 1. Nothing of the machine's own network is touched: the bridge stands in a namespace too.
 * 2. What is cut falls silent, without a refusal, as a pulled cable does; a test still talks to each node through a door of its own.
 * 3. At the end everything goes that was made here, by the names and process ids it was made with; nothing else.
 */
import { type ChildProcess, execFileSync, spawn } from "node:child_process"
import { randomBytes } from "node:crypto"
import { closeSync, mkdirSync, mkdtempSync, openSync, readdirSync, readFileSync, rmSync, writeSync } from "node:fs"
import { request } from "node:http"
import { createConnection } from "node:net"
import { tmpdir } from "node:os"
import * as path from "node:path"
import { createInterface } from "node:readline"
import { connect as connectTls } from "node:tls"
import { type Answer, postmasters, Refused, sleep } from "./node-process.ts"
import { embeddedUrl } from "./rows.ts"

const root = path.join(import.meta.dirname, "..", "..")
const harness = import.meta.dirname
export const administrator = "correct horse battery"
const startLimitMs = 180_000
const httpPort = 8443
const databasePort = 5432
const databaseHost = "10.77.0.250"
/** A frame to it reaches nobody: locally administered, and no interface has it. */
const nowhere = "02:00:00:00:de:ad"

const ip = (...words: ReadonlyArray<string>) => execFileSync("ip", words, { stdio: "pipe" }).toString()

/** Why namespaces cannot be made here, `null` where they can. */
export const noNamespaces = (): string | null => {
  if (process.platform !== "linux") return "network namespaces are Linux's"
  const name = `nj-try-${randomBytes(4).toString("hex")}`
  try {
    ip("netns", "add", name)
  } catch (error) {
    return `no network namespace can be made: ${
      error instanceof Error ? error.message.split("\n").at(-2) ?? error.message : String(error)
    }`
  }
  try {
    ip("-n", name, "link", "add", "br0", "type", "bridge")
    ip("-n", name, "link", "add", "try0", "type", "veth", "peer", "name", "try1")
    return null
  } catch {
    return "no bridge or veth can be made in a network namespace"
  } finally {
    ip("netns", "delete", name)
  }
}

const descendants = (pid: number): ReadonlyArray<number> => {
  try {
    const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ").filter((one) =>
      one !== ""
    )
    return [pid, ...children.flatMap((one) => descendants(Number(one)))]
  } catch {
    // It ended.
    return []
  }
}

const gone = (child: ChildProcess): Promise<void> =>
  child.exitCode !== null || child.signalCode !== null ?
    Promise.resolve() :
    new Promise((resolve) => child.once("exit", () => resolve()))

/** A helper's first line. */
const firstLine = async (child: ChildProcess, what: string): Promise<string> => {
  const line = await createInterface({ input: child.stdout! })[Symbol.asyncIterator]().next()
  if (line.done === true) throw new Error(`${what} did not start`)
  return line.value
}

/** A machine on the bridge with one node on it. */
export class Machine {
  readonly name: string
  readonly address: string
  /** `NIGHTJAR_DATA_DIR`. */
  readonly data: string
  readonly log: string
  readonly #net: Net
  readonly #namespace: string
  readonly #port: string
  #settings: Readonly<Record<string, string>>
  #skewMs = 0
  #child: ChildProcess | null = null
  #token = ""

  constructor(net: Net, name: string, number: number, settings: Readonly<Record<string, string>>) {
    this.#net = net
    this.name = name
    this.address = `10.77.0.${number}`
    this.#namespace = `${net.id}-${number}`
    this.#port = `p${number}`
    this.data = path.join(net.folder, name, "data")
    this.log = path.join(net.folder, name, "node.log")
    mkdirSync(this.data, { recursive: true })
    net.join(this.#namespace, this.#port, this.address)
    const inherited = Object.entries(process.env).filter(([key]) => !key.startsWith("NIGHTJAR_"))
    this.#settings = {
      ...Object.fromEntries(inherited) as Record<string, string>,
      NIGHTJAR_DATA_DIR: this.data,
      NIGHTJAR_NODE_NAME: name,
      NIGHTJAR_HTTP_HOST: this.address,
      NIGHTJAR_HTTP_PORT: String(httpPort),
      NIGHTJAR_RTSP_PORT: "0",
      NIGHTJAR_CLUSTER_HOST: this.address,
      NIGHTJAR_ADMIN_PASSWORD: administrator,
      NIGHTJAR_STORAGE: `main=${this.#net.disk(name)}:0.01`,
      ...settings,
    }
  }

  get #door(): string {
    return path.join(this.#net.folder, `${this.name}.sock`)
  }

  /** As the other machines reach it. */
  get url(): string {
    return `https://${this.address}:${httpPort}`
  }

  /** Its disk of footage. */
  get footage(): string {
    return this.#net.disk(this.name)
  }

  async start(): Promise<void> {
    if (this.running) throw new Error(`${this.name} runs already`)
    const output = openSync(this.log, "a")
    const skewed = this.#skewMs === 0 ? [] : ["--import", path.join(harness, "skewed-clock.ts")]
    const program = [process.execPath, ...skewed, path.join(root, "ops", "main.ts"), "start"]
    const child = spawn("ip", ["netns", "exec", this.#namespace, ...program], {
      cwd: root,
      stdio: ["ignore", output, output],
      env: { ...this.#settings, TEST_CLOCK_SKEW_MS: String(this.#skewMs) },
    })
    closeSync(output)
    this.#child = child
    this.#token = ""
    await this.#net.door(this.#namespace, this.#door, `${this.address}:${httpPort}`)
    const begun = performance.now()
    for (;;) {
      const health = await this.ask("GET", "/health").catch(() => null)
      if (health?.status === 200) return
      if (child.exitCode !== null || performance.now() - begun > startLimitMs) {
        const told = JSON.stringify(health?.body)
        throw new Error(
          `${this.name} did not become healthy: ${told}; the end of its log:\n${this.said().slice(-4_000)}`,
        )
      }
      await sleep(100)
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null) return
    const killer = setTimeout(() => child.kill("SIGKILL"), 30_000)
    child.kill(signal)
    await gone(child)
    clearTimeout(killer)
  }

  async stop(): Promise<void> {
    this.thaw()
    await this.#end("SIGTERM")
    // A node that was killed leaves its database running.
    for (const pid of postmasters(this.data)) process.kill(pid, "SIGINT")
    while (postmasters(this.data).length > 0) await sleep(50)
  }

  kill(): Promise<void> {
    return this.#end("SIGKILL")
  }

  get running(): boolean {
    return this.#child !== null && this.#child.exitCode === null && this.#child.signalCode === null
  }

  #signal(signal: NodeJS.Signals): void {
    if (this.#child?.pid === undefined) return
    for (const pid of descendants(this.#child.pid)) {
      try {
        process.kill(pid, signal)
      } catch {
        // A child that ended since.
      }
    }
  }

  /** It neither runs nor refuses. */
  freeze(): void {
    this.#signal("SIGSTOP")
  }

  thaw(): void {
    this.#signal("SIGCONT")
  }

  /** What it sends to `other` is lost; with no `other`, its cable is pulled. */
  cutTowards(other: { readonly address: string } | null): void {
    if (other === null) this.#net.port(this.#port, "down")
    else {ip(
        "-n",
        this.#namespace,
        "neigh",
        "replace",
        other.address,
        "lladdr",
        nowhere,
        "nud",
        "permanent",
        "dev",
        "eth0",
      )}
  }

  healTowards(other: { readonly address: string } | null): void {
    if (other === null) this.#net.port(this.#port, "up")
    else ip("-n", this.#namespace, "neigh", "del", other.address, "dev", "eth0")
  }

  /** Its lives to come run with a wall clock that is wrong by this. */
  skewClock(ms: number): void {
    this.#skewMs = ms
  }

  /** Its disk of footage has no byte left; {@link emptyDisk} gives them back. */
  fillDisk(): void {
    const file = openSync(path.join(this.#net.disk(this.name), "filler"), "w")
    const block = Buffer.alloc(1 << 20)
    try {
      while (writeSync(file, block) > 0);
    } catch {
      // ENOSPC: it is full.
    } finally {
      closeSync(file)
    }
  }

  emptyDisk(): void {
    rmSync(path.join(this.#net.disk(this.name), "filler"), { force: true })
  }

  /** Behind the node's back, in its embedded database. */
  sql(statement: string): void {
    const program = [process.execPath, path.join(harness, "namespace-sql.ts"), embeddedUrl(this.data), statement]
    execFileSync("ip", ["netns", "exec", this.#namespace, ...program], { stdio: "pipe" })
  }

  /** New hardware: nothing is on its disks, and that of footage has a new name, as it must. Only while it does not run. */
  replaceDisks(): void {
    this.#settings = { ...this.#settings, NIGHTJAR_STORAGE: `next=${this.footage}:0.01` }
    for (const folder of [this.data, this.footage]) {
      for (const name of readdirSync(folder)) rmSync(path.join(folder, name), { recursive: true })
    }
  }

  callSoon(method: string, where: string, body?: unknown): Promise<unknown> {
    return this.call(method, where, body)
  }

  said(): string {
    return readFileSync(this.log, "utf8")
  }

  /** Whatever the status; rejects where no answer comes within 30 s. */
  ask(method: string, where: string, body?: unknown): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const asked = request({
        method,
        path: where,
        // Never dialled: the door is.
        host: "localhost",
        headers: {
          "content-type": "application/json",
          ...(this.#token === "" ? {} : { authorization: `Bearer ${this.#token}` }),
        },
        timeout: 30_000,
        createConnection: () =>
          connectTls({ socket: createConnection({ path: this.#door }), rejectUnauthorized: false, servername: "" }),
      }, (response) => {
        let text = ""
        response.on("data", (bytes: Buffer) => text += bytes.toString())
        response.on("error", reject)
        response.on("end", () => {
          const json = response.headers["content-type"]?.includes("json") ?? false
          const answer = text === "" ? null : json ? JSON.parse(text) as unknown : text
          resolve({ status: response.statusCode ?? 0, body: answer })
        })
      })
      asked.on("timeout", () => asked.destroy(new Error(`${this.name} does not answer`)))
      asked.on("error", reject)
      asked.end(body === undefined ? undefined : JSON.stringify(body))
    })
  }

  /** Signs in where it must, and waits while the answer is 503. */
  async call(method: string, where: string, body?: unknown, limitMs = 60_000): Promise<unknown> {
    const begun = performance.now()
    while (true) {
      if (this.#token === "") {
        const answer = await this.ask("POST", "/auth/api/v1/auth/login", { username: "admin", password: administrator })
        if (answer.status === 200) this.#token = (answer.body as { readonly accessToken: string }).accessToken
      }
      const answer = await this.ask(method, where, body)
      if (answer.status >= 200 && answer.status < 300) return answer.body
      const later = answer.status === 503 || answer.status === 401
      if (!later || performance.now() - begun > limitMs) throw new Refused(`${method} ${where}`, answer)
      await sleep(200)
    }
  }
}

/** A bridge, the machines on it, and a PostgreSQL for those that share one. */
export class Net {
  readonly id = `nj${randomBytes(3).toString("hex")}`
  readonly folder = mkdtempSync(path.join(tmpdir(), "nightjar-net-"))
  readonly #namespaces: Array<string> = []
  readonly #helpers: Array<ChildProcess> = []
  readonly #disks = new Map<string, string>()
  readonly #machines: Array<Machine> = []

  constructor() {
    this.#namespace(`${this.id}-sw`)
    ip("-n", `${this.id}-sw`, "link", "add", "br0", "type", "bridge")
    ip("-n", `${this.id}-sw`, "link", "set", "br0", "up")
  }

  #namespace(name: string): void {
    ip("netns", "add", name)
    this.#namespaces.push(name)
    ip("-n", name, "link", "set", "lo", "up")
  }

  /** Makes a namespace with one cable to the bridge. */
  join(namespace: string, port: string, address: string): void {
    const bridge = `${this.id}-sw`
    this.#namespace(namespace)
    ip("-n", bridge, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", namespace)
    ip("-n", bridge, "link", "set", port, "master", "br0")
    ip("-n", bridge, "link", "set", port, "up")
    ip("-n", namespace, "address", "add", `${address}/24`, "dev", "eth0")
    ip("-n", namespace, "link", "set", "eth0", "up")
  }

  port(port: string, state: "up" | "down"): void {
    ip("-n", `${this.id}-sw`, "link", "set", port, state)
  }

  /** A disk of 256 MiB for a machine's footage. */
  disk(name: string): string {
    const known = this.#disks.get(name)
    if (known !== undefined) return known
    const folder = path.join(this.folder, name, "disk")
    mkdirSync(folder, { recursive: true })
    execFileSync("mount", ["-t", "tmpfs", "-o", "size=256m", "tmpfs", folder])
    this.#disks.set(name, folder)
    return folder
  }

  async #helper(namespace: string, file: string, ...words: ReadonlyArray<string>): Promise<string> {
    const program = [process.execPath, path.join(harness, file), ...words]
    const child = spawn("ip", ["netns", "exec", namespace, ...program], {
      cwd: root,
      stdio: ["pipe", "pipe", "inherit"],
    })
    this.#helpers.push(child)
    return await firstLine(child, file)
  }

  /** A way in that no cut closes. */
  async door(namespace: string, socket: string, target: string): Promise<void> {
    rmSync(socket, { force: true })
    await this.#helper(namespace, "namespace-door.ts", socket, target)
  }

  /** Announces a node of this name on the bridge; answers the name and the address of the first other one that it hears. */
  discovery(name: string, number: number): Promise<string> {
    const namespace = `${this.id}-d${number}`
    const address = `10.77.0.${200 + number}`
    this.join(namespace, `d${number}`, address)
    const id = `01890000-0000-7000-8000-00000000000${number}`
    return this.#helper(namespace, "namespace-discovery.ts", id, name, address)
  }

  machine(name: string, settings: Readonly<Record<string, string>> = {}): Machine {
    const made = new Machine(this, name, this.#machines.length + 1, settings)
    this.#machines.push(made)
    return made
  }

  /** Starts a PostgreSQL on a machine of its own; answers what `NIGHTJAR_DATABASE_URL` is for the others. */
  async database(): Promise<{ readonly address: string; readonly url: string }> {
    const namespace = `${this.id}-db`
    this.join(namespace, "pdb", databaseHost)
    const folder = path.join(this.folder, "postgres")
    mkdirSync(folder)
    const url = new URL(await this.#helper(namespace, "namespace-postgres.ts", folder))
    const here = `${databaseHost}:${databasePort}`
    await this.#helper(namespace, "namespace-door.ts", here, `127.0.0.1:${url.port}`)
    url.host = here
    return { address: databaseHost, url: url.href }
  }

  /** Simulated cameras on a machine of their own: the addresses of their main streams. */
  async cameras(count: number): Promise<ReadonlyArray<string>> {
    const [namespace, address] = [`${this.id}-cam`, "10.77.0.240"]
    this.join(namespace, "pcam", address)
    const program = path.join("..", "camera-simulator", "main.ts")
    const words = ["--with-parent", "--host", address, "--cameras", String(count), "--auth", "none"]
    const told = JSON.parse(await this.#helper(namespace, program, ...words)) as {
      readonly cameras: ReadonlyArray<{ readonly streams: ReadonlyArray<{ readonly url: string }> }>
    }
    return told.cameras.map(({ streams }) => streams[0]!.url)
  }

  /** Neither hears the other; everybody else hears both. */
  cut(one: Machine, other: Machine): void {
    one.cutTowards(other)
    other.cutTowards(one)
  }

  heal(one: Machine, other: Machine): void {
    one.healTowards(other)
    other.healTowards(one)
  }

  async end(): Promise<void> {
    await Promise.all(this.#machines.map((machine) => machine.stop()))
    for (const child of this.#helpers) child.stdin?.end()
    await Promise.all(this.#helpers.map(gone))
    for (const name of this.#namespaces.toReversed()) ip("netns", "delete", name)
    for (const folder of this.#disks.values()) execFileSync("umount", [folder])
    rmSync(this.folder, { recursive: true, force: true })
  }
}
