/**
 * Cameras that freeze, vanish, refuse, send garbage or change, while they are recorded: `npm run prove:camera -- [--seconds 180]`.
 *
 * Each kind of failure at a camera of its own, all at once; what a person sees by REST, the gaps and their causes, the pictures
 * counted in the footage. Then failures follow one another for `--seconds`, and memory must stay as it is.
 */
import { parseArgs } from "node:util"
import { faults } from "../harness/camera-faults.ts"
import { type FaultName, proveCameras } from "../harness/camera-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({ options: { seconds: { type: "string", default: "180" }, only: { type: "string" } } })
const all = Object.keys(faults) as ReadonlyArray<FaultName>

await prove("prove:camera", (report) =>
  proveCameras(report, {
    faults: all.filter((name) => values.only === undefined || values.only.split(",").includes(name)),
    lastMs: 12_000,
    flapSeconds: Number(values.seconds),
  }))
