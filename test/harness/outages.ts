/**
 * PostgreSQL taken away from a node, and given back.
 *
 * Invariants
 * 1. Nothing of the node is asked or told: its server is a data folder and processes, which anybody may stop.
 * 2. What was begun can be ended, twice as well.
 */
import { type ChildProcess, spawn } from "node:child_process"
import { closeSync, existsSync, openSync, readFileSync, renameSync, statSync } from "node:fs"
import * as path from "node:path"
import { postmasters, sleep } from "./node-process.ts"

export interface Outage {
  readonly name: string
  readonly begin: () => Promise<void>
  readonly end: () => Promise<void>
}

const alive = (pid: number): boolean => existsSync(`/proc/${pid}`)

/** Of its postmaster; null where none runs. */
const postmasterOf = (cluster: string): number | null => postmasters(cluster)[0] ?? null

const running = (cluster: string): number => {
  const pid = postmasterOf(cluster)
  if (pid === null) throw new Error(`no PostgreSQL runs in ${cluster}`)
  return pid
}

const childrenOf = (pid: number): ReadonlyArray<number> => {
  try {
    return readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").split(" ").filter((one) => one !== "").map(Number)
  } catch {
    return []
  }
}

const signal = (pid: number, name: NodeJS.Signals): void => {
  try {
    process.kill(pid, name)
  } catch {
    // It has ended in the meantime.
  }
}

/** Where a node keeps its embedded server. */
export const clusterOf = (data: string): string => path.join(data, "postgres", "data")

/** It hangs: connections stay open and nothing answers. */
export const frozen = (cluster: string): Outage => {
  let stopped: ReadonlyArray<number> = []
  return {
    name: "frozen",
    begin: async () => {
      const pid = running(cluster)
      // The postmaster first, so that it makes no more children.
      signal(pid, "SIGSTOP")
      stopped = [pid, ...childrenOf(pid)]
      for (const one of stopped) signal(one, "SIGSTOP")
    },
    end: async () => {
      for (const one of stopped.toReversed()) signal(one, "SIGCONT")
      stopped = []
    },
  }
}

/** kill -9, and whoever starts it again fails, as a file that it needs is away. */
export const broken = (cluster: string): Outage => {
  const control = path.join(cluster, "global", "pg_control")
  const away = `${control}.away`
  return {
    name: "killed, cannot start",
    begin: async () => {
      renameSync(control, away)
      const pid = postmasterOf(cluster)
      if (pid === null) return
      const children = childrenOf(pid)
      signal(pid, "SIGKILL")
      while ([pid, ...children].some(alive)) await sleep(20)
    },
    end: async () => {
      if (existsSync(away)) renameSync(away, control)
    },
  }
}

/**
 * The server of a node that has ended, run by hand as an operator's own: with the command line it was last started with
 * (`postmaster.opts`), under the account that owns it.
 */
export class OutsideServer {
  readonly #cluster: string
  #child: ChildProcess | null = null

  constructor(cluster: string) {
    this.#cluster = cluster
  }

  async start(): Promise<void> {
    // The program, then each argument in double quotes.
    const line = readFileSync(path.join(this.#cluster, "postmaster.opts"), "utf8").trim()
    const program = line.slice(0, line.indexOf(" \""))
    const args = Array.from(line.matchAll(/"([^"]*)"/g), ([, argument]) => argument!)
    const { gid, uid } = statSync(this.#cluster)
    const folder = openSync(this.#cluster, "r")
    const child = spawn(program, args, {
      ...(process.getuid?.() === 0 ? { uid, gid } : {}),
      cwd: "/",
      env: { LC_ALL: "C", TZ: "UTC" },
      // It may have been told its folder as descriptor 3.
      stdio: ["ignore", "ignore", "ignore", folder],
    })
    this.#child = child
    closeSync(folder)
    const file = path.join(this.#cluster, "postmaster.pid")
    while (!existsSync(file) || readFileSync(file, "utf8").split("\n")[7]?.trim() !== "ready") {
      if (child.exitCode !== null) throw new Error(`PostgreSQL ended with ${child.exitCode}`)
      await sleep(20)
    }
  }

  /** In order, as an operator does it: connections are cut, nothing listens. */
  async stop(): Promise<void> {
    const child = this.#child
    this.#child = null
    if (child === null || child.exitCode !== null || child.signalCode !== null) return
    const gone = new Promise((resolve) => child.once("exit", resolve))
    child.kill("SIGINT")
    await gone
  }

  outage(): Outage {
    return { name: "stopped by its operator", begin: () => this.stop(), end: () => this.start() }
  }
}
