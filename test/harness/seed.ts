/**
 * The database of a node's first start, made once for all tests: initdb and every migration are half of what such a start costs.
 *
 * Invariants
 * 1. The product itself makes it (`seed-maker.ts`), anew when PostgreSQL, the code that prepares it or a migration changes. It
 *    holds an empty schema and nothing of a node.
 * 2. Only tests begin with it, those that `seed-setup.ts` told of it; a proof, a bench and `test/auth-network.real.test.ts` begin
 *    with nothing, as a user does.
 * 3. Each node has files of its own. Ports and logs are not among them.
 * 4. Its PostgreSQL waits for no disk (`fsync` off): kill -9 of any process loses nothing by that, only a power cut would. What
 *    nodes write themselves they sync as ever.
 */
import { spawnSync } from "node:child_process"
import { existsSync, mkdirSync } from "node:fs"
import { join } from "node:path"

export const seedVariable = "TEST_DATABASE_SEED"

/** What of `postgres/` is copied: all that a first start makes but its port and its log. */
export const seedParts = ["data", "password"]

/** Gives a data folder that has no database yet the prepared one, where there is one. */
export const seedDatabase = (dataFolder: string): void => {
  const seed = process.env[seedVariable]
  const folder = join(dataFolder, "postgres")
  if (seed === undefined || existsSync(folder)) return
  mkdirSync(dataFolder, { recursive: true, mode: 0o700 })
  mkdirSync(folder, { mode: 0o711 })
  // With its owner, who is another than a root that runs the tests.
  const copied = spawnSync("cp", ["-a", ...seedParts.map((part) => join(seed, part)), folder], { encoding: "utf8" })
  if (copied.status !== 0) throw new Error(`the database was not copied: ${copied.stderr}`)
}
