/**
 * The postmaster as a process: found, started, watched, stopped.
 *
 * Invariants
 * 1. A process is taken for the postmaster of our data only if it runs in that very folder (`/proc/<pid>/cwd`, where there is one;
 *    its command line elsewhere): a recycled process id is never signalled.
 * 2. It is started in a session of its own, so that a Ctrl-C at the node's terminal does not stop it before the node has finished.
 * 3. Stopping goes from fast (SIGINT: roll back, checkpoint) over immediate (SIGQUIT) to SIGKILL; each step has a bound.
 */
import { Effect, Schedule } from "effect"
import { type ChildProcess, execFile, spawn } from "node:child_process"
import { open, readFile, readlink, realpath, rm } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import type { Account } from "./postgres-account.ts"
import type { Binaries } from "./postgres-binaries.ts"
import { attempt, PostgresError } from "./postgres-error.ts"
import { dataAs, environment, type Layout } from "./postgres-files.ts"

/** What `postmaster.pid` tells (src/include/utils/pidfile.h). */
export interface PidFile {
  readonly pid: number
  readonly port: number
  readonly ready: boolean
}

/** Reads the text of a `postmaster.pid`; `null` if it is not one, or not yet written to its end. */
export const parsePidFile = (text: string): PidFile | null => {
  const lines = text.split("\n")
  const pid = Number(lines[0])
  const port = Number(lines[3])
  return Number.isSafeInteger(pid) && pid > 1 ?
    { pid, port: Number.isInteger(port) ? port : 0, ready: lines[7]?.trim() === "ready" } :
    null
}

export interface Postmaster {
  readonly pid: number
  /** Ours by birth; `null` where it was adopted. */
  readonly child: ChildProcess | null
}

export const alive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === "EPERM"
  }
}

const run = promisify(execFile)

const runsIn = async (pid: number, data: string): Promise<boolean> => {
  if (process.platform === "linux") {
    return await readlink(`/proc/${pid}/cwd`).catch(() => "") === await realpath(data)
  }
  const { stdout } = await run("ps", ["-o", "command=", "-p", String(pid)]).catch(() => ({ stdout: "" }))
  return stdout.includes("postgres") && stdout.includes(data)
}

/** The postmaster that runs on our data now, if there is one. */
export const findPostmaster = (layout: Layout): Effect.Effect<PidFile | null, PostgresError> =>
  attempt("look for a running server", async () => {
    const text = await readFile(join(layout.data, "postmaster.pid"), "utf8").catch((cause: NodeJS.ErrnoException) => {
      if (cause.code === "ENOENT") return ""
      throw cause
    })
    const found = parsePidFile(text)
    return found !== null && alive(found.pid) && await runsIn(found.pid, layout.data) ? found : null
  })

/**
 * Settings of a small server beside a recorder: about 40 MB in all. Durability is untouched: `fsync` and `synchronous_commit` keep
 * their defaults (on), so an acknowledged row survives a kill and a power cut.
 */
const tuning: Readonly<Record<string, string>> = {
  shared_buffers: "32MB",
  // Three nodes of one machine, and what a former process of each left open.
  max_connections: "60",
  work_mem: "4MB",
  maintenance_work_mem: "32MB",
  autovacuum_max_workers: "2",
  max_worker_processes: "2",
  max_parallel_workers: "0",
  max_parallel_workers_per_gather: "0",
  io_method: "sync",
  wal_level: "minimal",
  max_wal_senders: "0",
  max_replication_slots: "0",
  max_logical_replication_workers: "0",
  min_wal_size: "32MB",
  max_wal_size: "256MB",
  jit: "off",
  huge_pages: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_checkpoints: "off",
  log_min_messages: "warning",
  log_min_error_statement: "panic",
  log_line_prefix: "%m [%p] ",
}

/** Arguments of the postmaster; the socket lies in the data folder, which is its working directory. */
export const postmasterArguments = (account: Account | null, layout: Layout, port: number): ReadonlyArray<string> => [
  "-D",
  dataAs(account, layout.data).argument,
  "-h",
  "127.0.0.1",
  "-p",
  String(port),
  "-k",
  ".",
  ...Object.entries(tuning).flatMap(([name, value]) => ["-c", `${name}=${value}`]),
]

/** Whether the running server was started as we would start it now, by the same programs. */
export const startedAlike = (
  layout: Layout,
  binaries: Binaries,
  args: ReadonlyArray<string>,
): Effect.Effect<boolean, PostgresError> =>
  attempt("look at a running server", () => readFile(join(layout.data, "postmaster.opts"), "utf8")).pipe(
    // As postmaster.c writes it: the program, then each argument in double quotes.
    Effect.map((text) => text.trim() === [binaries.postgres, ...args.map((arg) => `"${arg}"`)].join(" ")),
  )

/** Starts the postmaster; it is not ready yet (see {@link awaitReady}). */
export const spawnPostmaster = (
  binaries: Binaries,
  account: Account | null,
  layout: Layout,
  args: ReadonlyArray<string>,
): Effect.Effect<Postmaster, PostgresError> =>
  attempt("start", async () => {
    // No server runs on the data (the caller has looked): what is left of one may name a process id that now is another's.
    await rm(join(layout.data, "postmaster.pid"), { force: true })
    const log = await open(layout.log, "a", 0o600)
    const data = await open(layout.data, "r")
    try {
      const child = spawn(binaries.postgres, args, {
        ...account,
        cwd: "/",
        env: environment,
        detached: true,
        stdio: ["ignore", log.fd, log.fd, data.fd],
      })
      await new Promise<void>((resolve, reject) => {
        child.once("spawn", resolve)
        child.once("error", reject)
      })
      child.unref()
      return { pid: child.pid!, child }
    } finally {
      await log.close()
      await data.close()
    }
  })

/** Ends when the postmaster has ended: at once for a child, within half a second for an adopted one. */
export const awaitExit = (postmaster: Postmaster): Effect.Effect<void> => {
  const { child, pid } = postmaster
  if (child === null) {
    return Effect.sync(() => alive(pid)).pipe(
      Effect.repeat({ schedule: Schedule.spaced("500 millis"), while: (running) => running }),
      Effect.asVoid,
    )
  }
  return Effect.callback((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
    const onExit = () => resume(Effect.void)
    child.once("exit", onExit)
    return Effect.sync(() => child.off("exit", onExit))
  })
}

/** Waits until connections are taken; replaying the log after a crash may take as long as it needs. */
export const awaitReady = (postmaster: Postmaster, layout: Layout): Effect.Effect<void, PostgresError> =>
  findPostmaster(layout).pipe(
    Effect.map((found) => found !== null && found.pid === postmaster.pid && found.ready),
    Effect.repeat({ schedule: Schedule.spaced("20 millis"), until: (ready) => ready }),
    Effect.asVoid,
    Effect.raceFirst(
      awaitExit(postmaster).pipe(
        Effect.andThen(lastWords(layout)),
        Effect.flatMap((words) => new PostgresError({ step: "start", detail: words })),
      ),
    ),
  )

/** The end of the server's log, for a message: at most 600 characters. */
export const lastWords = (layout: Layout): Effect.Effect<string> =>
  attempt("read its log", () => readFile(layout.log, "utf8")).pipe(
    Effect.map((text) => text.trim().slice(-600) || "it ended without a word"),
    Effect.orElseSucceed(() => "its log cannot be read"),
  )

const signal = (pid: number, name: NodeJS.Signals) =>
  Effect.sync(() => {
    try {
      process.kill(pid, name)
    } catch {
      // Gone already.
    }
  })

const ended = (postmaster: Postmaster, layout: Layout): Effect.Effect<boolean> => {
  const { child, pid } = postmaster
  if (child !== null) return Effect.sync(() => child.exitCode !== null || child.signalCode !== null)
  return findPostmaster(layout).pipe(Effect.map((found) => found?.pid !== pid), Effect.orElseSucceed(() => false))
}

/** Stops a postmaster within 20 s; does nothing if it has ended, whoever has its process id now. */
export const stopPostmaster = (postmaster: Postmaster, layout: Layout): Effect.Effect<void> =>
  Effect.gen(function*() {
    if (yield* ended(postmaster, layout)) return
    for (
      const [name, patience] of [["SIGINT", "10 seconds"], ["SIGQUIT", "5 seconds"], ["SIGKILL", "5 seconds"]] as const
    ) {
      yield* signal(postmaster.pid, name)
      const end = yield* awaitExit(postmaster).pipe(Effect.timeoutOption(patience))
      if (end._tag === "Some") return
      yield* Effect.logWarning(`PostgreSQL did not stop on ${name} within ${patience}`)
    }
  })
