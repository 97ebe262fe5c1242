/** Announces a node on the network it is started in, tells the first other node that it hears in one line, and ends with its input. */
import * as Discovery from "#cluster/discovery.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { HttpReach } from "#cluster/members.ts"
import { NodeId } from "#schema/common.ts"
import { Effect, Layer, SubscriptionRef } from "effect"

const [id, name, address] = process.argv.slice(2) as [string, string, string]

const told = Effect.gen(function*() {
  const discovery = yield* Discovery.NodeDiscovery
  while (true) {
    const [found] = yield* discovery.list
    if (found !== undefined) return found
    yield* Effect.sleep(100)
  }
})

const input = Effect.callback<void>((resume) => {
  process.stdin.on("end", () => resume(Effect.void)).resume()
})

const reach = Effect.runSync(
  SubscriptionRef.make<HttpReach | null>({ address: `https://${address}:8443`, tlsPin: null }),
)
const layer = Discovery.layer({ name, version: "1.0", reach, lans: Discovery.lansOf(address) }).pipe(
  Layer.provide(Layer.succeed(NodeIdentity, { nodeId: NodeId.make(id) } as NodeIdentity["Service"])),
)
await Effect.runPromise(
  Effect.gen(function*() {
    const found = yield* told
    yield* Effect.sync(() => void process.stdout.write(`${found.name} ${found.address}\n`))
    yield* input
  }).pipe(Effect.race(input), Effect.provide(layer)),
)
