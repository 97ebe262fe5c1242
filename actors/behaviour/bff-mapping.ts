/**
 * The mapping of other nodes' channels, kept in line: what this node shows to others, and what they show to it.
 *
 * Invariants
 * 1. A peer hears of what its grants reach, of nothing else, and of no camera that is itself another node's.
 * 2. The mapping of a node is read when it is paired, when somebody asks, and every {@link renewEvery}, after {@link retryEvery} where
 *    it could not be read; of two at once for one node the
 *    second waits for the first.
 * 3. With the pairing the mapping goes.
 */
import { Cameras } from "#actors/protocol/camera.ts"
import { Peers } from "#actors/protocol/federation-peer.ts"
import { Recordings } from "#actors/protocol/record.ts"
import { FederatedChannelStore } from "#actors/store/bff-federation.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { mostOfferedChannels, OfferedChannel, type RemapReport } from "#schema/bff-federation.ts"
import { ChannelId, type NodeId, type PageOf, type PageRequest } from "#schema/common.ts"
import { type Principal, reach } from "#schema/permission.ts"
import type { DependencyUnavailable, InvalidCursor } from "#schema/problem.ts"
import type { Recording } from "#schema/record-config.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Context, Duration, Effect, Layer, Schema, Semaphore, Stream } from "effect"
import { compare } from "./bff-channels.ts"

/** A camera that was added there is seen here within this, without anybody asking. */
const renewEvery = Duration.minutes(10)
/** A node that could not tell, as at the moment of its pairing, is asked again after this. */
const retryEvery = Duration.seconds(15)
const pageSize = 500

const Offer = Schema.Struct({ items: Schema.Array(OfferedChannel).check(Schema.isMaxLength(mostOfferedChannels)) })

/** All pages of a list. */
const whole = Effect.fnUntraced(
  function*<A>(list: (page: PageRequest) => Effect.Effect<PageOf<A>, InvalidCursor | DependencyUnavailable>) {
    const items: Array<A> = []
    let cursor: string | null = null
    do {
      const page: PageOf<A> = yield* Effect.catchTag(list({ limit: pageSize, cursor }), "InvalidCursor", Effect.die)
      items.push(...page.items)
      cursor = page.nextCursor
    } while (cursor !== null)
    return items
  },
)

export class ChannelMapping
  extends Context.Service<ChannelMapping, Effect.Success<typeof make>>()("nightjar/actors/ChannelMapping")
{}

const make = Effect.gen(function*() {
  const [cameras, identity, peers, recordings, store] = yield* Effect.all([
    Cameras,
    NodeIdentity,
    Peers,
    Recordings,
    FederatedChannelStore,
  ])
  const turns = new Map<NodeId, Semaphore.Semaphore>()
  const turnOf = (nodeId: NodeId) => {
    const turn = turns.get(nodeId) ?? Semaphore.makeUnsafe(1)
    turns.set(nodeId, turn)
    return turn
  }

  const offered = Effect.fn("ChannelMapping.offered")(function*(to: Principal) {
    const shown = yield* whole((page) => cameras.list({}, page, reach(to, "camera:read")))
    const recorded = yield* whole((page) => recordings.list({}, page, reach(to, "recording:search")))
    const byChannel = Map.groupBy(recorded, ({ channelId }: Recording) => channelId)
    const members = (yield* peers.list()).filter(({ relation }) => relation === "member")
    // While this node serves another's cameras they stay the other's: whoever is paired with both has one channel, not two.
    const own = new Set([identity.nodeId, ...members.map(({ nodeId }) => nodeId)])
    return shown.filter(({ homeNodeId }) => own.has(homeNodeId)).flatMap((camera) =>
      camera.channels.map((channel): OfferedChannel => ({
        channelId: channel.id,
        cameraId: camera.id,
        channelName: channel.name,
        cameraName: camera.name,
        active: channel.active && camera.enabled,
        recordings: (byChannel.get(channel.id) ?? []).map(({ recordingToken, role }) => ({ recordingToken, role })),
      }))
    )
  })

  const remap = Effect.fn("ChannelMapping.remap")(function*(nodeId: NodeId, onBehalfOf: string | null) {
    const { items } = yield* peers.call(nodeId, {
      method: "GET",
      path: "/federation/api/v1/federation/channels",
      ...(onBehalfOf === null ? {} : { onBehalfOf }),
    }, Offer)
    const { added, changed, gone } = compare(yield* store.ofNode(nodeId), items)
    const made = yield* Effect.forEach(added, (one) => Effect.map(uuid7, (id) => ({ ...one, id: ChannelId.make(id) })))
    yield* store.put(nodeId, [...made, ...changed], gone, yield* Clock.currentTimeMillis)
    const ids = (some: ReadonlyArray<{ readonly id: ChannelId }>) => some.map(({ id }) => id)
    return { nodeId, channels: items.length, added: ids(made), changed: ids(changed), gone } satisfies RemapReport
  })

  return { offered, remap: (nodeId: NodeId, by: string | null) => turnOf(nodeId).withPermit(remap(nodeId, by)) }
})

/** Reads the channels of paired nodes while it lives. */
const keeping = Layer.effectDiscard(Effect.gen(function*() {
  const [mapping, peers, store] = yield* Effect.all([ChannelMapping, Peers, FederatedChannelStore])
  let paired: ReadonlySet<NodeId> = new Set()
  const unread = new Set<NodeId>()

  const renew = (nodeId: NodeId) =>
    mapping.remap(nodeId, null).pipe(
      Effect.andThen(Effect.sync(() => unread.delete(nodeId))),
      Effect.catch((error) => {
        unread.add(nodeId)
        return Effect.logDebug("The channels of a node could not be read", { nodeId, error: error.message })
      }),
    )
  const follow = Effect.fnUntraced(function*(now: ReadonlySet<NodeId>) {
    const before = paired
    paired = now
    yield* store.keepOnly([...now])
    yield* Effect.forEach(now.difference(before), renew, { discard: true, concurrency: 4 })
  })

  yield* Effect.gen(function*() {
    const changes = yield* peers.changes()
    yield* Stream.runForEach(
      changes,
      (list) => follow(new Set(list.filter(({ relation }) => relation === "peer").map(({ nodeId }) => nodeId))),
    )
  }).pipe(
    Effect.catchCause((cause) => Effect.logWarning("Following the paired nodes failed", cause)),
    Effect.andThen(Effect.sleep(Duration.seconds(5))),
    Effect.forever,
    Effect.forkScoped,
  )
  yield* Effect.suspend(() => Effect.forEach(paired, renew, { discard: true, concurrency: 4 })).pipe(
    Effect.delay(renewEvery),
    Effect.forever,
    Effect.forkScoped,
  )
  yield* Effect.suspend(() =>
    Effect.forEach([...unread].filter((nodeId) => paired.has(nodeId)), renew, { discard: true, concurrency: 4 })
  ).pipe(Effect.delay(retryEvery), Effect.forever, Effect.forkScoped)
}))

export const layer = keeping.pipe(Layer.provideMerge(Layer.effect(ChannelMapping, make)))
