/** What nodes know, while it changes under their hands. */
import { makeTrust } from "#actors/behaviour/auth-trust.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Latch, Queue } from "effect"
import { TestClock } from "effect/testing"

/** A channel that two ends share; what one tells the other hears. */
const channel = Effect.gen(function*() {
  const queues = new Map<string, Queue.Queue<string>>()
  return {
    notify: (sender: string) =>
      Effect.sync(() => {
        for (const [other, queue] of queues) if (other !== sender) Queue.offerUnsafe(queue, sender)
      }),
    listen: <E>(sender: string, told: Effect.Effect<void, E>) =>
      Effect.gen(function*() {
        const queue = yield* Queue.unbounded<string>()
        queues.set(sender, queue)
        return yield* Effect.forever(Effect.andThen(Queue.take(queue), told))
      }),
  }
})

describe("trust", () => {
  it.effect("is never taken from a reading that began before the change", () =>
    Effect.gen(function*() {
      const trust = yield* makeTrust(yield* channel, "1 hour")
      let stored = 0
      let known = -1
      const gate = yield* Latch.make(true)
      const begun = yield* Queue.unbounded<number>()
      yield* trust.reads(
        "a number",
        Effect.gen(function*() {
          const seen = stored
          yield* Queue.offer(begun, seen)
          yield* gate.await
          known = seen
        }),
      )
      yield* Effect.yieldNow
      yield* Queue.clear(begun)
      yield* gate.close
      const early = yield* Effect.forkChild(trust.fresh)
      assert.strictEqual(yield* Queue.take(begun), 0)
      stored = 1
      const late = yield* Effect.forkChild(trust.changed)
      yield* Effect.yieldNow
      yield* gate.open
      yield* Fiber.join(early)
      yield* Fiber.join(late)
      assert.strictEqual(known, 1)
    }))

  it.effect("is read once more for however many changes come meanwhile", () =>
    Effect.gen(function*() {
      const trust = yield* makeTrust(yield* channel, "1 hour")
      let readings = 0
      const gate = yield* Latch.make(true)
      yield* trust.reads("a number", Effect.andThen(Effect.sync(() => readings++), gate.await))
      yield* Effect.yieldNow
      yield* gate.close
      const before = readings
      const waiting = yield* Effect.forkChild(
        Effect.forEach(Array.from({ length: 100 }), () => trust.changed, { concurrency: "unbounded" }),
      )
      for (let turn = 0; turn < 200; turn++) yield* Effect.yieldNow
      yield* gate.open
      yield* Fiber.join(waiting)
      assert.isAtMost(readings - before, 2)
    }))

  it.effect("goes on with the others where one cannot read, and tries again", () =>
    Effect.gen(function*() {
      const trust = yield* makeTrust(yield* channel, "2 seconds")
      let broken = false
      let fine = 0
      let recovered = 0
      yield* trust.reads(
        "what breaks",
        Effect.suspend(() => broken ? Effect.fail("away") : Effect.sync(() => recovered++)),
      )
      yield* trust.reads("what does not", Effect.sync(() => fine++))
      broken = true
      const [was, had] = [fine, recovered]
      yield* trust.changed
      assert.strictEqual(fine, was + 1)
      assert.strictEqual(recovered, had)
      broken = false
      yield* TestClock.adjust("2 seconds")
      assert.isAbove(recovered, had)
    }))

  it.effect("is told to the other nodes, and a node that tells reads once", () =>
    Effect.gen(function*() {
      const shared = yield* channel
      const here = yield* makeTrust(shared, "1 hour")
      const there = yield* makeTrust(shared, "1 hour")
      const heard = yield* Deferred.make<void>()
      let own = 0
      yield* here.reads("here", Effect.sync(() => own++))
      let readings = 0
      yield* there.reads(
        "there",
        Effect.suspend(() => ++readings > 2 ? Effect.asVoid(Deferred.succeed(heard, undefined)) : Effect.void),
      )
      for (let turn = 0; turn < 20; turn++) yield* Effect.yieldNow
      const before = own
      yield* here.changed
      assert.strictEqual(own, before + 1)
      yield* here.changed
      yield* Deferred.await(heard)
    }))
})
