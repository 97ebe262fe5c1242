/**
 * What may befall a home node and its two guardians, with real processes in network namespaces: `npm run prove:unclean -- [word ...]`;
 * with words, the cases whose sentence holds one of them. Needs root, as making namespaces does.
 */
import { parseArgs } from "node:util"
import { noNamespaces } from "../harness/namespaces.ts"
import { prove } from "../harness/report.ts"
import { proveUnclean } from "../harness/unclean.ts"

const { positionals } = parseArgs({ allowPositionals: true })
const reason = noNamespaces()
if (reason !== null) throw new Error(`left out: ${reason}`)

await prove("prove:unclean", (report) => proveUnclean(report, "all", positionals))
