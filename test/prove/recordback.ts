/**
 * Footage of a guardian comes home while both nodes are killed: `npm run prove:recordback -- [--gib 10] [--kills 3]`.
 *
 * So much is brought home between two nodes; each is killed with -9 so often. Every fragment's SHA-256 must be equal at home, nothing
 * may be sent twice but what was on its way, nothing may stay behind, and memory must stay as it is. Pace and CPU (without
 * kills) are told beside a plain copy of the same files over TLS. Needs three times the space.
 */
import { parseArgs } from "node:util"
import { proveRecordBack } from "../harness/recordback-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: { gib: { type: "string", default: "10" }, kills: { type: "string", default: "3" } },
})

await prove(
  "prove:recordback",
  (report) => proveRecordBack(report, { gib: Number(values.gib), kills: Number(values.kills) }),
)
