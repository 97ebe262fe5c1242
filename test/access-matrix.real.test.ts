/**
 * Every operation of the Api, asked by everybody, against the table of who gets in where.
 *
 * `contract/access-matrix.tsv` is written by people, from what an operation is for. An operation that is missing there fails this
 * test, and so does one that answers somebody otherwise. `node test/contract/access-matrix.ts` prints what is observed.
 */
import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { observe, parsed } from "./harness/access-matrix.ts"
import { columns } from "./harness/access-questions.ts"
import { wholeNode } from "./harness/whole-node.ts"

const expected = parsed(readFileSync(join(import.meta.dirname, "contract", "access-matrix.tsv"), "utf8"))

it.live("no endpoint answers anybody it should not, and hides what it hides", () =>
  Effect.gen(function*() {
    const { faults, table } = yield* Effect.flatMap(wholeNode(), observe)
    assert.deepStrictEqual([...table.keys()].filter((key) => !expected.has(key)), [], "served, but not in the table")
    assert.deepStrictEqual([...expected.keys()].filter((key) => !table.has(key)), [], "in the table, but not served")
    const wrong = [...table].flatMap(([key, row]) =>
      columns.filter((column) => row[column] !== expected.get(key)![column]).map((column) =>
        `${key} ${column}: ${row[column]} instead of ${expected.get(key)![column]}`
      )
    )
    assert.deepStrictEqual(wrong, [])
    assert.deepStrictEqual(faults, [])
  }), 180_000)
