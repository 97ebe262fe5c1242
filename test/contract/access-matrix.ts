/**
 * Prints who gets in where, as a whole node answers: `node test/contract/access-matrix.ts`. What it prints is no truth: the lines of
 * `access-matrix.tsv` are written by whoever adds an operation, from what it is for, and compared with this by a test.
 */
import { Effect } from "effect"
import { observe, written } from "../harness/access-matrix.ts"
import { wholeNode } from "../harness/whole-node.ts"

const { faults, table } = await Effect.runPromise(Effect.scoped(Effect.flatMap(wholeNode(), observe)))
process.stdout.write(written(table))
for (const fault of faults) console.error(fault)
