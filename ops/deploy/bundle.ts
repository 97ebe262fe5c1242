/**
 * Makes the bundle that `ops/main.ts` runs, where there is none of the sources as they are: about 2 s of work.
 *
 * Invariants
 * 1. A bundle appears whole and on the disk, or not at all: it is made beside its place, synced and renamed. Two at once make the same.
 * 2. Sources that change meanwhile leave no bundle behind.
 * 3. A module that asks where it lies is told where its source lies: what it looks up beside itself is there.
 * 4. Names and lines stay readable, and each module is marked with its source: a stack trace leads there.
 */
import { mkdir, open, readdir, rename, rm, stat } from "node:fs/promises"
import { dirname, join } from "node:path"
import { pathToFileURL } from "node:url"
import { rolldown } from "rolldown"
import { bundleFolder, entryOf, root } from "../bundle.ts"

/** Bundles of earlier sources stay so long: a node that runs from one may still read a part of it. */
const keptMs = 7 * 86_400_000

const makeInto = async (folder: string): Promise<void> => {
  const bundle = await rolldown({
    input: { program: join(root, "ops", "program.ts") },
    cwd: root,
    platform: "node",
    plugins: [{
      name: "place",
      transform: {
        filter: { id: /^(?!.*\/node_modules\/).*\.ts$/, code: "import.meta.url" },
        handler: (code, id) => ({
          code: code.replaceAll("import.meta.url", JSON.stringify(pathToFileURL(id).href)),
          map: null,
        }),
      },
    }],
  })
  await bundle.write({
    dir: folder,
    format: "esm",
    comments: false,
    entryFileNames: "[name].mjs",
    chunkFileNames: "[name]-[hash].mjs",
  })
  await bundle.close()
}

const syncAll = async (folder: string): Promise<void> => {
  for (const name of await readdir(folder)) {
    const file = await open(join(folder, name), "r+")
    await file.sync()
    await file.close()
  }
}

const removeOld = async (cache: string, nowMs: number): Promise<void> => {
  for (const name of await readdir(cache)) {
    const folder = join(cache, name)
    const { mtimeMs } = await stat(folder)
    if (mtimeMs < nowMs - keptMs) await rm(folder, { recursive: true, force: true })
  }
}

const isThere = (folder: string) => stat(entryOf(folder)).then(() => true, () => false)

const nowMs = Date.now()
const folder = bundleFolder()
const draft = `${folder}.${process.pid}`
if (!(await isThere(folder))) {
  try {
    await mkdir(draft, { recursive: true })
    await makeInto(draft)
    await syncAll(draft)
    if (bundleFolder() === folder) {
      await rename(draft, folder).catch(async (error: unknown) => {
        // Somebody else's stands there already, and is the same.
        if (!(await isThere(folder))) throw error
      })
    }
    await removeOld(dirname(folder), nowMs)
  } finally {
    await rm(draft, { recursive: true, force: true })
  }
}
