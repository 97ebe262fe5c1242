/** What goes on in the background is repeated, and says what a person must know, once. */
import { chore } from "#actors/behaviour/chore.ts"
import { databaseAway } from "#actors/store/answer.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"

/** Levels and texts of what was logged meanwhile. */
const logged = <A, E>(work: Effect.Effect<A, E>) => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    lines.push(`${logLevel} ${String(Array.isArray(message) ? message[0] : message)}`)
  })
  return Effect.as(Effect.provide(work, Layer.fresh(Logger.layer([logger]))), lines)
}

it.effect("an outage is not news, a mistake is, once for each", () => {
  const turns: Array<Effect.Effect<void, unknown>> = [
    Effect.fail(databaseAway()),
    Effect.die(databaseAway()),
    Effect.fail("no room on the disk"),
    Effect.fail("no room on the disk"),
    Effect.die(new Error("a mistake")),
    Effect.void,
    Effect.die(new Error("a mistake")),
  ]
  const pruning = chore("Pruning", Effect.suspend(() => turns.shift() ?? Effect.void))
  return Effect.gen(function*() {
    const lines = yield* logged(Effect.repeat(pruning, { times: 7 }))
    assert.deepStrictEqual(turns, [])
    assert.deepStrictEqual(lines.filter((line) => !/debug/i.test(line)).map((line) => line.toUpperCase()), [
      "ERROR PRUNING MUST WAIT",
      "ERROR PRUNING MUST WAIT",
      "ERROR PRUNING MUST WAIT",
    ])
  })
})
