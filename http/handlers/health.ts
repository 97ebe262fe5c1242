/** Handlers of the health group: from the contract to {@link HealthChecks}, and nothing else. */
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { HealthChecks } from "#actors/protocol/health.ts"
import { nightjar } from "../contract/conventions.ts"
import { HealthGroup } from "../contract/health.ts"

export const HealthHandlers = HttpApiBuilder.group(
  nightjar.add(HealthGroup),
  "health",
  Effect.fnUntraced(function*(handlers) {
    const checks = yield* HealthChecks
    return handlers
      .handle("health", () => Effect.map(checks.detailed, ({ checks: _, ...health }) => health))
      .handle("healthDetailed", () => checks.detailed)
  }),
)
