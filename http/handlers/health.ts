/** Handlers of the health group: from the contract to {@link HealthChecks}, and nothing else. */
import { HealthChecks } from "#actors/protocol/health.ts"
import type { DetailedHealth, Health } from "#schema/health.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { nightjar } from "../contract/conventions.ts"
import { HealthGroup } from "../contract/health.ts"

/** What anybody may know. */
const summary = ({ checks: _details, ...health }: DetailedHealth): Health => health

export const HealthHandlers = HttpApiBuilder.group(
  nightjar.add(HealthGroup),
  "health",
  Effect.fnUntraced(function*(handlers) {
    const checks = yield* HealthChecks
    return handlers
      .handle("health", () => Effect.map(checks.detailed, summary))
      .handle("healthDetailed", () => checks.detailed)
  }),
)
