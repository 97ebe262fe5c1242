/** What the supervisor observes reaches the database, also that of a row which comes later. */
import { writeObserved } from "#actors/behaviour/observed.ts"
import { RecorderSupervisor } from "#media/recorder.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Stream } from "effect"
import { TestClock } from "effect/testing"

const quiet = { changes: Stream.never } as unknown as RecorderSupervisor["Service"]
const seen = { id: "a", state: "recording" }

const follow = (write: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlySet<string>, DependencyUnavailable>) =>
  writeObserved({
    what: "things",
    seen: Effect.succeed([seen]),
    idOf: (one) => one.id,
    markOf: (one) => one.state,
    write: (changed) => write(changed.map((one) => one.id)),
  }).pipe(Effect.provideService(RecorderSupervisor, quiet))

it.effect("is written once, when its row is there", () =>
  Effect.gen(function*() {
    let rows = new Set<string>()
    let writes = 0
    yield* follow(() =>
      Effect.sync(() => {
        writes += 1
        return rows
      })
    )
    yield* TestClock.adjust("25 seconds")
    const before = writes
    assert.isAtLeast(before, 2)
    rows = new Set([seen.id])
    yield* TestClock.adjust("60 seconds")
    assert.strictEqual(writes, before + 1)
  }))

it.effect("is written again after the database was away", () =>
  Effect.gen(function*() {
    let away = true
    const written: Array<string> = []
    yield* follow((ids) =>
      Effect.suspend(() => {
        if (away) return Effect.fail(new DependencyUnavailable({ dependency: "database", message: "away" }))
        written.push(...ids)
        return Effect.succeed(new Set(ids))
      })
    )
    yield* TestClock.adjust("25 seconds")
    assert.deepStrictEqual(written, [])
    away = false
    yield* TestClock.adjust("30 seconds")
    assert.deepStrictEqual(written, [seen.id])
  }))
