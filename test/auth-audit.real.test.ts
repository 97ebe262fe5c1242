/** The audit log on a real PostgreSQL: the way into the chain, tampering of every kind, retention, questions. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, type Scope, Stream } from "effect"
import { readFileSync, statSync, writeFileSync } from "node:fs"
import { auditNode, auditPostgres, fill, madeUpFact, settled, temporary } from "./harness/audit-node.ts"
import { canonicalJson, keepOriginal, tampered, tamperings } from "./harness/audit-tamper.ts"

const live = (name: string, run: Effect.Effect<void, unknown, Scope.Scope>) =>
  it.live(name, () => run.pipe(Effect.scoped, Effect.provide(Logger.layer([]))))

describe("the audit log", () => {
  live(
    "finds the first bad entry after every kind of tampering, and none where there was none",
    Effect.gen(function*() {
      const node = yield* auditNode(yield* auditPostgres, yield* temporary)
      yield* fill(node, 400)
      const last = yield* settled(node)
      assert.strictEqual(last, 400)
      const clean = yield* node.log.verify({ from: null, to: null })
      assert.deepStrictEqual([clean.intact, clean.complete, clean.checked, clean.fault], [true, true, 400, null])
      assert.strictEqual(statSync(node.headsPath).mode & 0o777, 0o600)
      yield* keepOriginal(node.sql)
      for (const way of tamperings) {
        for (let some = 0; some < (way === "edit of a column" ? 19 : 4); some++) {
          const at = { k: 7 + ((some * 89) % 390), last, some }
          yield* tampered(node.sql, way, at, (firstBad) =>
            Effect.map(node.log.verify({ from: null, to: null }), (found) => {
              assert.isFalse(found.intact, `${way} at ${at.k} (${some})`)
              assert.strictEqual(found.fault?.sequence, firstBad, `${way} at ${at.k} (${some}): ${found.fault?.reason}`)
            }))
        }
      }
      const again = yield* node.log.verify({ from: null, to: null })
      assert.deepStrictEqual([again.intact, again.checked], [true, 400])
    }),
  )
})
