/**
 * A process that records into an audit queue until it is killed, without a database: `node audit-writer.ts <folder>`. Prints a line
 * for each fact once it was told that it is durable, and for each call that was admitted and never ended.
 */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import { Effect, Logger } from "effect"
import { auditTrailOf, madeUpFact } from "./audit-node.ts"

const [, , folder = ""] = process.argv

const run = Effect.gen(function*() {
  const trail = yield* AuditTrail
  const say = (line: string) => Effect.sync(() => process.stdout.write(`${line}\n`))
  for (let n = 0;; n += 4) {
    yield* Effect.all([
      Effect.flatMap(trail.record({ ...madeUpFact(n), traceId: `recorded-${n}` }), () => say(`recorded-${n}`)),
      Effect.flatMap(
        trail.admit({ ...madeUpFact(n), traceId: `ended-${n}` }),
        ({ end }) => Effect.andThen(end({ ...madeUpFact(n), traceId: `ended-${n}` }), say(`ended-${n}`)),
      ),
      // One of many is in the middle of its work when the kill comes.
      n % 40 === 0 ?
        Effect.flatMap(trail.admit({ ...madeUpFact(n), traceId: `open-${n}` }), () => say(`open-${n}`)) :
        Effect.void,
    ], { concurrency: "unbounded" })
  }
})

await Effect.runPromise(run.pipe(Effect.provide(auditTrailOf(folder)), Effect.provide(Logger.layer([]))))
