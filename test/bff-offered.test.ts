/** Which channels a node shows to another: its own and its cluster's, and none that it serves for somebody else. */
import * as ChannelMapping from "#actors/behaviour/bff-mapping.ts"
import { Cameras } from "#actors/protocol/camera.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { FederatedChannelStore } from "#actors/store/bff-federation.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Layer, Stream } from "effect"

const camera = (name: string, homeNodeId: string) => ({
  id: `camera-${name}`,
  name,
  enabled: true,
  homeNodeId,
  channels: [{ id: `channel-${name}`, name: `${name} 1`, active: true }],
})
const whole = (items: ReadonlyArray<unknown>) => () => Effect.succeed({ items, nextCursor: null })
const nodes = [{ nodeId: "member", relation: "member" }, { nodeId: "home", relation: "peer" }]
const fakes = Layer.mergeAll(
  Layer.mock(Cameras, {
    list: whole([
      camera("own", "self"),
      camera("other", "member"),
      camera("guarded", "home"),
      camera("left", "gone"),
    ]) as never,
  }),
  Layer.mock(Recordings, { list: whole([]) as never }),
  Layer.mock(Peers, { list: () => Effect.succeed(nodes) as never, changes: () => Effect.succeed(Stream.never) }),
  Layer.mock(FederatedChannelStore, {}),
  Layer.succeed(NodeIdentity, { nodeId: "self" } as unknown as NodeIdentity["Service"]),
)

it.effect("a channel has one home: a guardian does not show those of the node that it stands in for", () =>
  Effect.gen(function*() {
    const mapping = yield* ChannelMapping.ChannelMapping
    const peer = { kind: "peer", grants: [{ role: "x", permissions: ["*"], resources: "all" }] }
    const offered = yield* mapping.offered(peer as unknown as Parameters<typeof mapping.offered>[0])
    assert.deepStrictEqual(offered.map(({ channelId }) => channelId as string), ["channel-own", "channel-other"])
  }).pipe(Effect.provide(ChannelMapping.layer.pipe(Layer.provide(fakes)))))
