/** Health answers in time, whatever its components do. */
import { healthLayer } from "#actors/behaviour/health.ts"
import { HealthChecks } from "#actors/protocol/health.ts"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"

const layer = healthLayer({ version: "1", releaseId: "0", serviceId: "node", description: "test" })

describe("health", () => {
  it.effect("does not wait for a component that cannot even be interrupted", () =>
    Effect.gen(function*() {
      const health = yield* HealthChecks
      yield* health.register({
        name: "fine:count",
        check: Effect.succeed({ componentType: "component", status: "pass" }),
      })
      yield* health.register({ name: "hung:count", check: Effect.uninterruptible(Effect.never) })
      const asked = yield* Effect.forkChild(health.detailed)
      yield* TestClock.adjust("1 second")
      const { checks, status } = yield* Fiber.join(asked)
      expect(status).toBe("fail")
      expect(checks["fine:count"]?.[0]?.status).toBe("pass")
      expect(checks["hung:count"]?.[0]).toMatchObject({ status: "fail", output: "It did not answer within a second" })
    }).pipe(Effect.provide(layer)))
})
