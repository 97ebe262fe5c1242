/** Before the real tests: makes the database of `seed.ts` where there is none of the sources as they are, and tells them of it. */
import { spawnSync } from "node:child_process"
import { createHash } from "node:crypto"
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync } from "node:fs"
import { join } from "node:path"
import { seedParts, seedVariable } from "./seed.ts"

const root = join(import.meta.dirname, "..", "..")
const cache = join(root, "node_modules", ".cache", "nightjar-seeds")
const sources = [
  "ops/host/postgres*.ts",
  "ops/migrations.ts",
  "actors/store/migrations/*.ts",
  "package-lock.json",
  "test/harness/seed-maker.ts",
]

const digest = (): string => {
  const hash = createHash("sha256")
  for (const path of globSync(sources, { cwd: root }).toSorted()) {
    hash.update(path).update(readFileSync(join(root, path)))
  }
  return hash.digest("hex").slice(0, 16)
}

const make = (seed: string): void => {
  rmSync(cache, { recursive: true, force: true })
  const draft = `${seed}.${process.pid}`
  mkdirSync(draft, { recursive: true })
  const program = join(import.meta.dirname, "seed-maker.ts")
  const made = spawnSync(process.execPath, [program, draft], { cwd: root, encoding: "utf8", timeout: 120_000 })
  if (made.status !== 0) throw new Error(`the database of the tests was not made:\n${made.stdout}${made.stderr}`)
  const folder = join(draft, "postgres")
  renameSync(folder, seed)
  rmSync(draft, { recursive: true })
}

export default (): void => {
  const seed = join(cache, digest())
  if (!seedParts.every((part) => existsSync(join(seed, part)))) make(seed)
  process.env[seedVariable] = seed
}
