/** Two nodes lose sight of each other and both record; then one dies and comes back: the short form of `npm run prove:partition`. */
import { expect, it } from "vitest"
import { provePartition } from "./harness/partition.ts"
import { makeReport } from "./harness/report.ts"

it(
  "nothing is lost or doubled by a partition, and what a guardian recorded comes home and can be watched all the time",
  async () => {
    const report = makeReport(true)
    await provePartition(report, { seconds: 3, cameras: 1 })
    expect(report.faults).toEqual([])
  },
  300_000,
)
