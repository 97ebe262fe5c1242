/** The short form of `npm run prove:live`: viewers who do harm, a recording without a gap, and a viewer who misses nothing. */
import { assert, it } from "@effect/vitest"
import { proveLive } from "./harness/live-proof.ts"
import { makeReport } from "./harness/report.ts"

it("no viewer harms the recording or another viewer", { timeout: 180_000 }, async () => {
  const report = makeReport(true)
  await proveLive(report, { firstPictures: 0, watchSeconds: 0, hostileSeconds: 6, halfOpen: 100, patient: false })
  assert.deepStrictEqual(report.faults, [])
})
