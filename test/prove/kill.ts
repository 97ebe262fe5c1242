/**
 * kill -9 of a node that records four cameras: `npm run prove:kill -- [--kills 200] [--cameras 4] [--seed 1]`.
 *
 * After every kill each file on the disk is read by a reader of its own (boxes, index, frame numbers); sealed ones are decoded by
 * ffprobe. At the end, and every 20 kills, PostgreSQL must equal the disk; at the end the ledger must name every missing frame.
 */
import { parseArgs } from "node:util"
import { proveKills } from "../harness/kills.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    kills: { type: "string", default: "200" },
    cameras: { type: "string", default: "4" },
    seed: { type: "string", default: "1" },
  },
})

await prove("prove:kill", (report) =>
  proveKills(report, {
    kills: Number(values.kills),
    cameras: Number(values.cameras),
    seed: Number(values.seed),
    settleEvery: 20,
  }))
