/**
 * Builds the dashboard when it is stale: at the first start after an install or a change. The build is a process of its own,
 * so that the node keeps neither its memory nor its time.
 *
 * Invariants
 * 1. A build is complete or absent: it is made beside and moved into place, so nodes that start at once do not disturb each
 *    other.
 * 2. A failed build is logged and stops nothing: the node records and serves its interface without a dashboard.
 */
import { Effect, Schema } from "effect"
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises"
import { join } from "node:path"

const root = new URL("..", import.meta.url).pathname
const output = join(root, "http", "web", "dist")
const stampFile = ".stamp"

/** What the bundle is made of. */
const sources = ["http/web", "http/contract", "schema"]

export class DashboardBuildFailed extends Schema.TaggedError<DashboardBuildFailed>()("DashboardBuildFailed", {
  detail: Schema.String,
}) {
  override get message(): string {
    return `The dashboard could not be built: ${this.detail}`
  }
}

const filesOf = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(join(root, folder), { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !path.includes("/dist"))
    .sort()
}

/** A digest of every source and of the lock file. */
const stampOf = async (): Promise<string> => {
  const hash = createHash("sha256")
  const files = (await Promise.all(sources.map(filesOf))).flat()
  for (const path of [...files, join(root, "package-lock.json")]) {
    hash.update(path.slice(root.length)).update(await readFile(path))
  }
  return hash.digest("hex")
}

const build = (folder: string): Promise<void> =>
  new Promise((resolve, reject) => {
    const vite = join(root, "node_modules", "vite", "bin", "vite.js")
    const args = [vite, "build", "--config", join(root, "http", "web", "vite.config.ts"), "--outDir", folder]
    execFile(process.execPath, args, { cwd: root, timeout: 300_000, maxBuffer: 1 << 22 }, (error, _out, complaint) => {
      if (error === null) resolve()
      else reject(new Error(complaint.trim() === "" ? error.message : complaint.trim()))
    })
  })

const bringUpToDate = async (): Promise<"fresh" | "built"> => {
  const stamp = await stampOf()
  const current = await readFile(join(output, stampFile), "utf8").catch(() => "")
  if (current === stamp) return "fresh"
  const folder = `${output}-${process.pid}`
  try {
    await mkdir(folder, { recursive: true })
    await build(folder)
    await writeFile(join(folder, stampFile), stamp)
    await rm(output, { recursive: true, force: true })
    // Another node may have moved its own build there in between; both are the same.
    await rename(folder, output).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error
    })
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
  return "built"
}

/** Folder that holds the built dashboard, for the HTTP server. */
export const dashboardFolder: string = output

/** Makes {@link dashboardFolder} current; about 5 s of work when it is stale. */
export const buildDashboard: Effect.Effect<"fresh" | "built", DashboardBuildFailed> = Effect.tryPromise({
  try: bringUpToDate,
  catch: (cause) => new DashboardBuildFailed({ detail: cause instanceof Error ? cause.message : String(cause) }),
})
