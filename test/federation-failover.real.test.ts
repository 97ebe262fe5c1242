/**
 * A home node is killed while it records; its guardian takes over, and gives back: the short form of `npm run prove:failover`, in both
 * classes. The second time both change a camera meanwhile, and one of them controls it.
 */
import { expect, it } from "vitest"
import { judgeControlThere, judgeReturned, untilControlAtHome } from "./harness/control-proof.ts"
import { changeThere, judgeMerged, killChanged } from "./harness/failover-changes.ts"
import { type Besides, proveFailover } from "./harness/failover.ts"
import { makeReport } from "./harness/report.ts"

it(
  "a guardian records what a killed home node cannot, a shadow every frame, and the home node gets its cameras back",
  async () => {
    const report = makeReport(true)
    const besides: Besides = {
      kill: killChanged,
      takenOver: async (...run) => {
        await changeThere(...run)
        await judgeControlThere(...run)
      },
      returned: judgeReturned,
      home: async (...run) => {
        await untilControlAtHome(run[1])
        await judgeMerged(...run)
      },
    }
    await proveFailover(report, { form: "federation", kinds: ["shadow", "warm"], runs: 1, cameras: 2, besides })
    expect(report.faults).toEqual([])
  },
  480_000,
)
