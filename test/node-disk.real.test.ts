/** A node whose folders of footage fail while it records, by REST and by the footage; the long form is `npm run prove:disk`. */
import { assert, it } from "@effect/vitest"
import { mkdirSync } from "node:fs"
import { join } from "node:path"
import { conclude, play, proveDisks } from "./harness/disk-proof.ts"
import { moveAway } from "./harness/disk-scenes.ts"
import { makeReport } from "./harness/report.ts"

it(
  "a folder that is moved away and comes back: a clear state, an exact gap with its cause, everything before still there",
  { timeout: 120_000 },
  async () => {
    const report = makeReport(true)
    await proveDisks(report, {
      cameras: 2,
      storage: (folder) => {
        const where = join(folder, "main")
        mkdirSync(where)
        return { setting: `main=${where}:0`, folders: [where], drop: () => undefined }
      },
      scenes: async (stage) => {
        await play(stage, moveAway("main", stage.folders[0]!))
        await conclude(stage, ["disk_error"])
      },
    })
    assert.deepStrictEqual(report.faults, [])
  },
)
