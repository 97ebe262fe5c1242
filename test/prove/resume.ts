/**
 * Nothing lost or doubled on the live channel: `npm run prove:resume -- [--clients 20] [--reconnects 200] [--restarts 5]
 * [--per-second 100] [--seed 1]`.
 *
 * Clients by WebSocket and SSE are cut off at random while events come; the node is killed (every second time with -9) and started
 * again. At the end each client's list of events must be the database's, exactly.
 */
import { parseArgs } from "node:util"
import { proveResume } from "../harness/event-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    clients: { type: "string", default: "20" },
    reconnects: { type: "string", default: "200" },
    restarts: { type: "string", default: "5" },
    "per-second": { type: "string", default: "100" },
    seed: { type: "string", default: "1" },
  },
})

await prove("prove:resume", (report) =>
  proveResume(report, {
    clients: Number(values.clients),
    reconnects: Number(values.reconnects),
    restarts: Number(values.restarts),
    perSecond: Number(values["per-second"]),
    seed: Number(values.seed),
  }))
