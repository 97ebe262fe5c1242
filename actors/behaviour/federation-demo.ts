/**
 * The service `DemoNodes`: asks the door of the demo, which listens on loopback and is opened by the token in its address.
 *
 * Invariants
 * 1. Without the setting nothing is asked, and there are no such nodes.
 * 2. An answer of more than {@link largestAnswer} or after {@link patienceMs} is none.
 */
import { DemoNodes } from "#actors/protocol/federation-demo.ts"
import type { NodeId } from "#schema/common.ts"
import { DemoNode, DemoNodeNotFound, DemoNodeState } from "#schema/federation-demo.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { Effect, Layer, Redacted, Schema } from "effect"
import { post } from "../channels/outbound.ts"

/** Far more than a demo's few nodes take. */
const largestAnswer = 16 << 10
const patienceMs = 3_000

const Told = Schema.fromJsonString(Schema.Struct({ items: Schema.Array(DemoNode) }))
const unavailable = new DependencyUnavailable({ dependency: "demo", message: "The demo does not answer" })

const asking = (door: Redacted.Redacted, path: string) =>
  post({
    url: new URL(`${Redacted.value(door)}/${path}`),
    headers: {},
    body: "",
    timeoutMs: patienceMs,
    maxAnswerBytes: largestAnswer,
  }).pipe(Effect.mapError(() => unavailable))

/** `door`: `http://127.0.0.1:<port>/<token>`; null where this node is part of no demo. */
export const layer = ({ door }: { readonly door: Redacted.Redacted | null }) => {
  const list = Effect.fn("DemoNodes.list")(function*() {
    if (door === null) return []
    const { body, status } = yield* asking(door, "nodes")
    if (status !== 200) return yield* unavailable
    const told = yield* Effect.mapError(Schema.decodeEffect(Told)(body.toString("utf8")), () => unavailable)
    return told.items
  })
  const act = (deed: "kill" | "start") =>
    Effect.fn(`DemoNodes.${deed}`)(function*(nodeId: NodeId) {
      if (door === null) return yield* new DemoNodeNotFound({ nodeId })
      const { status } = yield* asking(door, `${deed}/${nodeId}`)
      if (status === 404) return yield* new DemoNodeNotFound({ nodeId })
      if (status === 409) return yield* new DemoNodeState({ nodeId, running: deed === "start" })
      if (status !== 200) return yield* unavailable
    })
  return Layer.succeed(DemoNodes, DemoNodes.of({ list, kill: act("kill"), start: act("start") }))
}
