/** `nightjar status`: is the node well, component by component. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { withNode } from "./client.ts"
import { CommandFailed } from "./failure.ts"
import { jsonFlag, print } from "./output.ts"

export const status = Command.make(
  "status",
  { json: jsonFlag },
  ({ json }) =>
    withNode((client) =>
      Effect.gen(function*() {
        const health = yield* client.health.healthDetailed()
        const rows = Object.entries(health.checks).flatMap(([component, checks]) =>
          checks.map((check) => ({
            component,
            state: check.status,
            reading: [check.observedValue, check.observedUnit].filter((one) => one !== undefined).join(" "),
            detail: check.output ?? "",
          }))
        )
        yield* print(json, health, rows, "No component reports yet")
        if (health.status === "fail") {
          return yield* new CommandFailed({ detail: "The node cannot do its work; see above.", exitCode: 1 })
        }
      })
    ),
).pipe(Command.withDescription("Tell how the node and its components are"))
