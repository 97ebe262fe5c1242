/**
 * Health of this node: asks every component that registered, at the same time.
 *
 * Invariants
 * 1. No component makes the answer wait longer than {@link patience}.
 * 2. There are as many components as main registers: at most {@link most}.
 */
import { HealthChecks, type HealthReporter } from "#actors/protocol/health.ts"
import { atMost } from "#cluster/patience.ts"
import { type HealthCheck, worst } from "#schema/health.ts"
import { Clock, Effect, Layer, Option } from "effect"

const patience = "1 second"
const most = 64

export interface HealthOptions {
  /** Version of the interface: `1`. */
  readonly version: string
  /** Version of the product. */
  readonly releaseId: string
  /** Id of the node. */
  readonly serviceId: string
  readonly description: string
}

const silent = { componentType: "component", status: "fail", output: "It did not answer within a second" } as const

const ask = (reporter: HealthReporter) =>
  Effect.gen(function*() {
    const time = yield* Clock.currentTimeMillis
    const said = yield* atMost(reporter.check, patience).pipe(
      Effect.map(Option.getOrElse(() => silent)),
      Effect.catchCause((cause) =>
        Effect.as(Effect.logWarning(`The health check of ${reporter.name} failed`, cause), {
          ...silent,
          output: "Its check failed; see the log",
        })
      ),
    )
    return [reporter.name, [{ ...said, time }]] as const
  })

export const healthLayer = (options: HealthOptions): Layer.Layer<HealthChecks> =>
  Layer.sync(HealthChecks, () => {
    const reporters = new Map<string, HealthReporter>()
    return HealthChecks.of({
      register: (reporter) =>
        Effect.suspend(() => {
          if (reporters.size >= most && !reporters.has(reporter.name)) {
            return Effect.die(new Error("Too many health checks"))
          }
          reporters.set(reporter.name, reporter)
          return Effect.void
        }),
      detailed: Effect.gen(function*() {
        const answers = yield* Effect.forEach([...reporters.values()], ask, { concurrency: "unbounded" })
        const checks: Record<string, ReadonlyArray<HealthCheck>> = Object.fromEntries(answers)
        const status = worst(answers.map(([, [check]]) => check.status))
        return { status, ...options, checks }
      }),
    })
  })
