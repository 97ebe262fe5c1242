/**
 * Tampering with the audit log, directly in PostgreSQL: `npm run prove:audit -- [--entries 100000] [--tamperings 1000] [--whole 25]
 * [--exported 1000000] [--seed 1]`.
 *
 * Edits of every column, deletions, insertions, truncations, swaps, hashes made to fit again: each must be told at the first
 * entry that is not as it was written, and an untouched log as intact. Then an export of many entries, with its memory.
 */
import { parseArgs } from "node:util"
import { proveAudit } from "../harness/audit-proof.ts"
import { prove } from "../harness/report.ts"

const { values } = parseArgs({
  options: {
    entries: { type: "string", default: "100000" },
    tamperings: { type: "string", default: "1000" },
    whole: { type: "string", default: "25" },
    exported: { type: "string", default: "1000000" },
    seed: { type: "string", default: "1" },
  },
})

await prove("prove:audit", (report) =>
  proveAudit(report, {
    entries: Number(values.entries),
    tamperings: Number(values.tamperings),
    whole: Number(values.whole),
    exported: Number(values.exported),
    seed: Number(values.seed),
  }))
