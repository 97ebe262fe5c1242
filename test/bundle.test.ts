/** Which bundle a start takes: that of exactly the sources that lie there, or none. */
import type * as Module from "#ops/bundle.ts"
import { assert, describe, it } from "@effect/vitest"
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { afterAll } from "vitest"

type Bundle = typeof Module

const folder = mkdtempSync(join(tmpdir(), "nightjar-bundle-"))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const write = (path: string, text: string) => {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

/** A tree with a few files, and what its own copy of `ops/bundle.ts` finds in it. */
const makeTree = async (name: string): Promise<Bundle & { readonly tree: string }> => {
  const tree = join(folder, name)
  for (const room of ["actors", "cluster", "http/web", "media", "schema"]) write(join(tree, room, "one.ts"), room)
  for (const list of ["package.json", "node_modules/.package-lock.json"]) write(join(tree, list), "{}")
  mkdirSync(join(tree, "ops"))
  cpSync(join(import.meta.dirname, "..", "ops", "bundle.ts"), join(tree, "ops", "bundle.ts"))
  return { ...await import(pathToFileURL(join(tree, "ops", "bundle.ts")).href) as Bundle, tree }
}

describe("the bundle of a node's program", () => {
  it("is found until anything that it is made of changes, comes or goes, and again when that is undone", async () => {
    const { bundleFolder, entryOf, findBundle, tree } = await makeTree("first")
    assert.strictEqual(findBundle(), null)
    const entry = entryOf(bundleFolder())
    write(entry, "")
    assert.strictEqual(findBundle(), entry)
    for (const path of ["actors/one.ts", "media/one.ts", "package.json", "node_modules/.package-lock.json"]) {
      const file = join(tree, path)
      renameSync(file, `${file}.before`)
      write(file, "of the same name and another content")
      assert.strictEqual(findBundle(), null, path)
      renameSync(`${file}.before`, file)
      assert.strictEqual(findBundle(), entry, path)
    }
    write(join(tree, "schema", "new.ts"), "")
    assert.strictEqual(findBundle(), null)
    rmSync(join(tree, "schema", "new.ts"))
    renameSync(join(tree, "schema", "one.ts"), join(tree, "schema", "two.ts"))
    assert.strictEqual(findBundle(), null)
    renameSync(join(tree, "schema", "two.ts"), join(tree, "schema", "one.ts"))
    write(join(tree, "http", "web", "one.ts"), "the dashboard is no part of it")
    assert.strictEqual(findBundle(), entry)
  })

  it("is not that of the same sources in another place, whose paths it would hold", async () => {
    const [here, there] = [await makeTree("here"), await makeTree("there")]
    write(here.entryOf(here.bundleFolder()), "")
    assert.notStrictEqual(here.bundleFolder().split("/").at(-1), there.bundleFolder().split("/").at(-1))
    assert.strictEqual(there.findBundle(), null)
  })

  it("is missed, not complained about, where npm has installed nothing", async () => {
    const { findBundle, tree } = await makeTree("bare")
    rmSync(join(tree, "node_modules"), { recursive: true })
    assert.strictEqual(findBundle(), null)
  })
})
