/** `nightjar rotate-key`: a new master key for the secrets of a running node. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { withNode } from "./client.ts"
import { jsonFlag, print } from "./output.ts"

export const rotateKey = Command.make(
  "rotate-key",
  { json: jsonFlag },
  ({ json }) =>
    withNode((client) =>
      Effect.gen(function*() {
        const { body } = yield* client.network.rotateMasterKey({ headers: {} })
        const row = { key: body.keyId, state: body.state, before: body.olderKeyIds.join(", ") }
        yield* print(json, body, [row], "")
      })
    ),
).pipe(Command.withDescription("Give the node a new master key; every secret is sealed anew while it goes on"))
