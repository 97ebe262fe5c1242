/**
 * Health of this node, gathered from components that report by themselves.
 *
 * Invariants
 * 1. A component that does not answer within a second counts as `fail`; the others are still shown.
 * 2. Asking never waits longer than that second and never needs the database.
 */
import type { DetailedHealth, HealthCheck } from "#schema/health.ts"
import { Context, type Effect } from "effect"

/** One component's own word about itself. `name` is `component:measurement`. */
export interface HealthReporter {
  readonly name: string
  readonly check: Effect.Effect<Omit<HealthCheck, "time">>
}

export class HealthChecks extends Context.Service<HealthChecks, {
  /** Adds a component; the same name replaces the earlier one. */
  readonly register: (reporter: HealthReporter) => Effect.Effect<void>
  readonly detailed: Effect.Effect<DetailedHealth>
}>()("nightjar/actors/HealthChecks") {}
