/** kill -9 of a recording node: the short form of `npm run prove:kill`. */
import { expect, it } from "vitest"
import { proveKills } from "./harness/kills.ts"
import { makeReport } from "./harness/report.ts"
import { missing } from "./peers/installed.ts"

const absent = missing("ffmpeg")

it.skipIf(absent.length > 0)(
  `three kills cost a fragment each, and everything is accounted for${
    absent.length > 0 ? " (skipped: ffmpeg is not installed)" : ""
  }`,
  async () => {
    const report = makeReport(true)
    await proveKills(report, { kills: 3, cameras: 4, seed: 3, settleEvery: 9 })
    expect(report.faults).toEqual([])
  },
  120_000,
)
