/**
 * Builds the dashboard when it is stale: at the first start after an install or a change. The build is a process of its own,
 * so that the node keeps neither its memory nor its time.
 *
 * Invariants
 * 1. Whoever looks at the folder finds a whole dashboard, the one before or the new one: a build is made beside it; what its pages
 *    name is moved in first, under names that tell the content, each page then takes the place of the one before.
 * 2. What pages of an earlier build name stays for {@link keptMs}: a browser that shows one goes on.
 * 3. One node builds, those that start beside it wait for it. That saves work and no more: two builds of the same sources are alike.
 * 4. A failed build is logged and stops nothing: the node records and serves its interface without a dashboard.
 */
import { Clock, Effect, Schema } from "effect"
import { execFile } from "node:child_process"
import { createHash } from "node:crypto"
import { mkdir, readdir, readFile, readlink, rename, rm, stat, symlink, writeFile } from "node:fs/promises"
import { dirname, join, relative } from "node:path"

const root = new URL("..", import.meta.url).pathname
const output = join(root, "http", "web", "dist")
const stampFile = ".stamp"
/** A link that leads to the process id of the node that builds: made with its content at once. */
const lock = join(output, ".lock")
const keptMs = 7 * 86_400_000
/** Longest build; nobody waits longer for somebody else's. */
const limitMs = 300_000
const lookMs = 200

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
    execFile(process.execPath, args, { cwd: root, timeout: limitMs, maxBuffer: 1 << 22 }, (error, _out, complaint) => {
      if (error === null) resolve()
      else reject(new Error(complaint.trim() === "" ? error.message : complaint.trim()))
    })
  })

const filesBelow = async (folder: string): Promise<ReadonlyArray<string>> => {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  return entries.filter((entry) => entry.isFile()).map((entry) => relative(folder, join(entry.parentPath, entry.name)))
}

/** Moves a whole build from beside the folder into it. */
const publish = async (folder: string, nowMs: number): Promise<void> => {
  const made = await filesBelow(folder)
  const isPage = (path: string) => path.endsWith(".html")
  for (const path of [...made.filter((one) => !isPage(one)), ...made.filter(isPage)]) {
    await mkdir(dirname(join(output, path)), { recursive: true })
    await rename(join(folder, path), join(output, path))
  }
  for (const path of await filesBelow(output)) {
    if (made.includes(path) || path === stampFile) continue
    const before = await stat(join(output, path)).catch(() => null)
    if (before !== null && before.mtimeMs < nowMs - keptMs) await rm(join(output, path), { force: true })
  }
}

const isFresh = async (stamp: string) => await readFile(join(output, stampFile), "utf8").catch(() => "") === stamp

const lives = (pid: number): boolean => {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EPERM"
  }
}

/** False: somebody else builds. */
const takeLock = async (): Promise<boolean> => {
  try {
    await symlink(String(process.pid), lock)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error
    const holder = Number(await readlink(lock).catch(() => ""))
    // One that was killed in the middle left it behind.
    if (holder !== 0 && !lives(holder)) await rm(lock, { force: true })
    return false
  }
}

const buildAnew = async (stamp: string, nowMs: number): Promise<"fresh" | "built"> => {
  const folder = `${output}-${process.pid}`
  try {
    // Who held the lock may have been done before this node had it.
    if (await isFresh(stamp)) return "fresh"
    await mkdir(folder, { recursive: true })
    await build(folder)
    await publish(folder, nowMs)
    const written = join(folder, stampFile)
    await writeFile(written, stamp)
    await rename(written, join(output, stampFile))
    return "built"
  } finally {
    await rm(folder, { recursive: true, force: true })
    if (await readlink(lock).catch(() => "") === String(process.pid)) await rm(lock, { force: true })
  }
}

const attempt = <A>(act: () => Promise<A>) =>
  Effect.tryPromise({
    try: act,
    catch: (cause) => new DashboardBuildFailed({ detail: cause instanceof Error ? cause.message : String(cause) }),
  })

/** Folder that holds the built dashboard, for the HTTP server. */
export const dashboardFolder: string = output

/** Makes {@link dashboardFolder} current; about 5 s of work when it is stale. */
export const buildDashboard: Effect.Effect<"fresh" | "built", DashboardBuildFailed> = Effect.gen(function*() {
  const stamp = yield* attempt(stampOf)
  const isCurrent = attempt(() => isFresh(stamp))
  if (yield* isCurrent) return "fresh"
  yield* attempt(() => mkdir(output, { recursive: true }))
  const sinceMs = yield* Clock.currentTimeMillis
  while (!(yield* attempt(takeLock)) && (yield* Clock.currentTimeMillis) < sinceMs + limitMs) {
    yield* Effect.sleep(lookMs)
    if (yield* isCurrent) return "fresh"
  }
  const nowMs = yield* Clock.currentTimeMillis
  return yield* attempt(() => buildAnew(stamp, nowMs))
})
