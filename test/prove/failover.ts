/**
 * kill -9 of a home node whose guardian has a database of its own: `npm run prove:failover -- [--runs 20] [--cameras 2]`.
 *
 * Default settings but for how soon the cameras go home. The frames that the simulated cameras number tell what is missing.
 */
import { parseArgs } from "node:util"
import { proveFailover } from "../harness/failover.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: { runs: { type: "string", default: "20" }, cameras: { type: "string", default: "2" } },
})

await prove(
  "prove:failover",
  (report) => proveFailover(report, { runs: Number(values.runs), cameras: Number(values.cameras) }),
)
