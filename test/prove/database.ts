/**
 * PostgreSQL away while four cameras are recorded: `npm run prove:database -- [--seconds 300] [--start-seconds 60] [--cameras 4]
 * [--ways frozen,broken,outside]`.
 *
 * Each way takes it away for so long: the embedded server hangs (SIGSTOP); it is killed and cannot start again; an operator's own
 * is stopped. No picture may be missing, the node tells what it cannot do, and a minute after the return the rows equal the disk.
 * A node that starts without it records from its assignment file.
 */
import { parseArgs } from "node:util"
import { type DatabaseOptions, proveDatabase } from "../harness/database-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    seconds: { type: "string", default: "300" },
    "start-seconds": { type: "string", default: "60" },
    cameras: { type: "string", default: "4" },
    ways: { type: "string", default: "frozen,broken,outside" },
  },
})

const known = ["frozen", "broken", "outside"] as const
const ways: DatabaseOptions["ways"] = values.ways.split(",").map((way) => {
  const found = known.find((one) => one === way)
  if (found === undefined) throw new Error(`${way}: expected ${known.join(", ")}`)
  return found
})

await prove("prove:database", (report) =>
  proveDatabase(report, {
    cameras: Number(values.cameras),
    seconds: Number(values.seconds),
    startSeconds: Number(values["start-seconds"]),
    ways,
  }))
