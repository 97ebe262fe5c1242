/**
 * Random input against every operation: `npm run prove:fuzz -- [--runs 500] [--seed 1] [--only "POST /auth"]`.
 *
 * Valid by schema, mutated, broken, with odd paths and headers; never a 5xx, never a hang, always a problem document.
 */
import { Effect } from "effect"
import { parseArgs } from "node:util"
import { fuzz, requestTimeoutMs } from "../harness/http-fuzz.ts"
import { prove } from "../harness/report.ts"
import { wholeNode } from "../harness/whole-node.ts"

const { values } = parseArgs({
  options: {
    runs: { type: "string", default: "500" },
    seed: { type: "string", default: "1" },
    only: { type: "string", default: "" },
  },
})

await prove("prove:fuzz", (report) =>
  Effect.runPromise(Effect.scoped(Effect.gen(function*() {
    const node = yield* wholeNode({ NIGHTJAR_REQUEST_TIMEOUT_MS: String(requestTimeoutMs) })
    const { operations, tally } = yield* fuzz(node, {
      seed: Number(values.seed),
      runs: Number(values.runs),
      only: values.only,
      fault: report.fault,
    })
    report.check(operations > 0, "there are operations")
    for (const [what, count] of tally) report.say(`${String(count).padStart(7)}  ${what}`)
  }))))
