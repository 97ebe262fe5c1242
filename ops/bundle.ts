/**
 * The node's program as a bundle: a few files instead of some 1,600 modules, whose search and reading are half the work of a start.
 *
 * Invariants
 * 1. A bundle is looked up by a digest of every source it can be made of, of the packages that npm installed, and of the place of
 *    both: a stale one is never found. Whoever changes a file runs what he wrote, with nothing to build first.
 * 2. Without a bundle the program runs from its sources: the same, but for the time it takes to start.
 * 3. This module is read at every start, so it needs nothing but Node, and takes some 20 ms.
 */
import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"

/** Of the tree; ends with a slash. */
export const root: string = new URL("..", import.meta.url).pathname
const cache = join(root, "node_modules", ".cache", "nightjar")

const sources = ["actors", "cluster", "http", "media", "ops", "schema"]
/** What the dashboard is made of alone, and what was made of it. */
const others = ["http/web"]
const manifests = ["package.json", "node_modules/.package-lock.json"]

const filesBelow = (folder: string): ReadonlyArray<string> =>
  others.includes(folder) ?
    [] :
    readdirSync(join(root, folder), { withFileTypes: true }).flatMap((entry) => {
      const path = `${folder}/${entry.name}`
      return entry.isDirectory() ? filesBelow(path) : entry.name.endsWith(".ts") ? [path] : []
    })

/** Where the bundle of the sources as they are now lies, or would lie. */
export const bundleFolder = (): string => {
  const digest = createHash("sha256").update(root)
  for (const path of [...sources.flatMap(filesBelow).sort(), ...manifests]) {
    const content = readFileSync(join(root, path))
    digest.update(`\0${path}\0${content.length}\0`).update(content)
  }
  return join(cache, digest.digest("hex"))
}

export const entryOf = (folder: string): string => join(folder, "program.mjs")

/** The program to run for the sources as they are now; `null` where none was made of them. */
export const findBundle = (): string | null => {
  try {
    const entry = entryOf(bundleFolder())
    return existsSync(entry) ? entry : null
  } catch {
    // A tree that npm did not install has no list of packages.
    return null
  }
}
