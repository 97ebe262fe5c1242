/**
 * A home node is killed while it records; its guardian takes over, and gives back: the short form of `npm run prove:failover`, in both
 * classes. The second time both change a camera meanwhile.
 */
import { expect, it } from "vitest"
import { changeThere, judgeMerged, killChanged } from "./harness/failover-changes.ts"
import { proveFailover } from "./harness/failover.ts"
import { makeReport } from "./harness/report.ts"

it(
  "a guardian records what a killed home node cannot, a shadow every frame, and the home node gets its cameras back",
  async () => {
    const report = makeReport(true)
    const besides = { kill: killChanged, takenOver: changeThere, home: judgeMerged }
    await proveFailover(report, { form: "federation", kinds: ["shadow", "warm"], runs: 1, cameras: 2, besides })
    expect(report.faults).toEqual([])
  },
  480_000,
)
