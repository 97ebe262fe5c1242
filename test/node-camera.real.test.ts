/** A node whose cameras fail while they are recorded, by REST and by the footage; the long form is `npm run prove:camera`. */
import { assert, it } from "@effect/vitest"
import { proveCameras } from "./harness/camera-proof.ts"
import { makeReport } from "./harness/report.ts"

it(
  "cameras that freeze, vanish, refuse, send garbage or change: a clear state, an exact gap with its cause, recovery",
  { timeout: 120_000 },
  async () => {
    const report = makeReport(true)
    const faults = ["frozen", "dropped", "wrongPassword", "stranger", "resolution", "timestamps"] as const
    await proveCameras(report, { faults, lastMs: 500, flapSeconds: 0 })
    assert.deepStrictEqual(report.faults, [])
  },
)
