/** Handlers of the demo's nodes: from the contract to {@link DemoNodes}, and nothing else. */
import { DemoNodes } from "#actors/protocol/federation-demo.ts"
import { Effect } from "effect"
import { HttpApiBuilder } from "effect/http-api"
import { nightjar } from "../contract/conventions.ts"
import { FederationDemoGroup } from "../contract/federation-demo.ts"
import { auditResource } from "./http-audit.ts"

export const FederationDemoHandlers = HttpApiBuilder.group(
  nightjar.add(FederationDemoGroup),
  "federationDemo",
  Effect.fnUntraced(function*(handlers) {
    const nodes = yield* DemoNodes
    return handlers
      .handle("demoNodes", () => Effect.map(nodes.list(), (items) => ({ items })))
      .handle(
        "killDemoNode",
        ({ params: { nodeId } }) => Effect.andThen(auditResource({ kind: "node", id: nodeId }), nodes.kill(nodeId)),
      )
      .handle(
        "startDemoNode",
        ({ params: { nodeId } }) => Effect.andThen(auditResource({ kind: "node", id: nodeId }), nodes.start(nodeId)),
      )
  }),
)
