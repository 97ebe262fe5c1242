/** Whom a home node lets guard it. */
import { makeHome } from "#actors/behaviour/federation-failover-home.ts"
import { CameraBundles } from "#actors/protocol/camera-bundle.ts"
import { type Peer, Peers } from "#actors/protocol/federation-peer.ts"
import { RecordBundles } from "#actors/protocol/record-bundle.ts"
import { FailoverStore } from "#actors/store/federation-failover.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { Ownership } from "#cluster/ownership.ts"
import { NodeId } from "#schema/common.ts"
import { NodeNotFound } from "#schema/federation.ts"
import { Slot } from "#schema/ownership.ts"
import { assert, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { generateKeyPairSync } from "node:crypto"

const [self, paired, member] = ["1", "2", "3"].map((n) => NodeId.make(`01890000-0000-7000-8000-00000000000${n}`)) as [
  NodeId,
  NodeId,
  NodeId,
]
const peer = (nodeId: NodeId, relation: Peer["relation"]): Peer => ({
  nodeId,
  name: relation,
  relation,
  address: "",
  fingerprint: "" as Peer["fingerprint"],
  signingKey: "",
  transferKey: "",
  mediaReadEnforcement: true,
  guardianGranted: false,
})

const key = { publicKey: "", privateKey: generateKeyPairSync("ed25519").privateKey }

const homeAmong = Effect.fnUntraced(function*(known: ReadonlyArray<Peer>) {
  const granted: Array<readonly [NodeId, boolean]> = []
  const { grant } = yield* makeHome("home").pipe(Effect.provide(Layer.mergeAll(
    Layer.mock(Peers, {
      list: () => Effect.succeed(known),
      get: (nodeId) => {
        const one = known.find((peer) => peer.nodeId === nodeId)
        return one === undefined ? Effect.fail(new NodeNotFound({ nodeId })) : Effect.succeed(one)
      },
      grantGuardian: (nodeId, may) => Effect.sync(() => (granted.push([nodeId, may]), known[0]!)),
    }),
    Layer.mock(FailoverStore, {
      noteGuardian: () => Effect.void,
      guardians: () =>
        Effect.succeed([{ nodeId: paired, askedMs: 1, bundleMs: null, bundleDigest: null, cameraNames: [] }]),
    }),
    Layer.mock(Ownership, { nodeId: self, slot: Slot.make("n00"), entityId: (id) => id }),
    Layer.mock(CameraBundles, {}),
    Layer.mock(RecordBundles, {}),
    Layer.succeed(NodeIdentity, { nodeId: self, createdMs: 0, signing: key, transfer: key }),
  )))
  return { grant, granted }
})

it.effect("a node that stands alone grants guardianship; one of a cluster takes it back only", () =>
  Effect.gen(function*() {
    const alone = yield* homeAmong([peer(paired, "peer")])
    yield* alone.grant(paired, true)
    assert.deepStrictEqual(alone.granted, [[paired, true]])
    assert.strictEqual((yield* Effect.flip(alone.grant(member, true)))._tag, "NodeNotFound")

    const clustered = yield* homeAmong([peer(paired, "peer"), peer(member, "member")])
    assert.strictEqual((yield* Effect.flip(clustered.grant(paired, true)))._tag, "GuardedByCluster")
    assert.deepStrictEqual(clustered.granted, [])
    yield* clustered.grant(paired, false)
    assert.deepStrictEqual(clustered.granted, [[paired, false]])
  }))
