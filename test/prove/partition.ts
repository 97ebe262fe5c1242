/**
 * Two paired nodes are cut from each other while both see the cameras, then healed; then the home node dies and comes back:
 * `npm run prove:partition -- [--seconds 60] [--cameras 2]`.
 *
 * By the numbers in the pictures nothing may be lost and nothing doubled in what a player is given through either node, control may
 * never be with two, and what the guardian recorded must be home in the end, watched all the time.
 */
import { parseArgs } from "node:util"
import { provePartition } from "../harness/partition.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "60" }, cameras: { type: "string", default: "2" } },
})

await prove(
  "prove:partition",
  (report) => provePartition(report, { seconds: Number(values.seconds), cameras: Number(values.cameras) }),
)
