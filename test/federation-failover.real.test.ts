/** A home node is killed while it records; its guardian takes over, and gives back: the short form of `npm run prove:failover`. */
import { expect, it } from "vitest"
import { proveFailover } from "./harness/failover.ts"
import { makeReport } from "./harness/report.ts"

it("a guardian records what a killed home node cannot, and the home node gets its cameras back", async () => {
  const report = makeReport(true)
  await proveFailover(report, { form: "federation", runs: 1, cameras: 2 })
  expect(report.faults).toEqual([])
}, 240_000)
