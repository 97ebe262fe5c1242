/** The short form of `npm run prove:unclean`: a guardian that dies while it serves, with a clock an hour off. */
import { expect, it } from "@effect/vitest"
import { noNamespaces } from "../harness/namespaces.ts"
import { makeReport } from "../harness/report.ts"
import { proveUnclean, shortly } from "../harness/unclean.ts"

const reason = noNamespaces()
const leftOut = reason === null ? "" : ` (left out: ${reason})`

it.skipIf(reason !== null)(
  `${shortly.map(([sentence]) => sentence).join("; ")}${leftOut}`,
  { timeout: 480_000 },
  async () => {
    const report = makeReport(true)
    await proveUnclean(report, "short")
    expect(report.faults).toEqual([])
  },
)
