/**
 * kill -9 of a home node that is guarded:
 * `npm run prove:failover -- [--form federation|cluster] [--class warm|shadow] [--runs 20] [--cameras 2] [--second]`. In the form
 * `federation` (if left out) the guardian has a database of its own; in the form `cluster` both are members of one, and with `--second`
 * a third one stands behind the guardian.
 *
 * Default settings but for how soon the cameras go home. The frames that the simulated cameras number tell what is missing.
 */
import { parseArgs } from "node:util"
import { proveFailover } from "../harness/failover.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    form: { type: "string", default: "federation" },
    class: { type: "string", default: "warm" },
    runs: { type: "string", default: "20" },
    cameras: { type: "string", default: "2" },
    second: { type: "boolean", default: false },
  },
})
const { class: kind, form } = values
if (form !== "federation" && form !== "cluster") throw new Error("--form is federation or cluster")
if (kind !== "warm" && kind !== "shadow") throw new Error("--class is warm or shadow")

await prove("prove:failover", (report) =>
  proveFailover(report, {
    form,
    kinds: [kind],
    runs: Number(values.runs),
    cameras: Number(values.cameras),
    second: values.second && form === "cluster",
  }))
