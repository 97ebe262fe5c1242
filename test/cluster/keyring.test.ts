/** The cluster's key: who is admitted by it, which key succeeds another, and which envelopes open for whom. */
import * as Keys from "#cluster/keyring.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { createPublicKey, generateKeyPairSync, randomUUID } from "node:crypto"

const node = () => {
  const { privateKey } = generateKeyPairSync("x25519")
  const { x = "" } = createPublicKey(privateKey).export({ format: "jwk" })
  return { privateKey, nodeId: randomUUID(), signingKey: randomUUID(), transferKey: x }
}
const held = (): Keys.Held => ({ clusterId: randomUUID(), keys: [Keys.firstKey()], current: true })
const renewed = (one: Keys.Held): Keys.Held => ({ ...one, keys: Keys.withNext(one) })
const texts = (keys: Keys.Held["keys"] | null) =>
  keys?.map(({ generation, secret }) => `${generation} ${secret.toString("hex")}`)

describe("admission", () => {
  it("holds for these keys of this node, under the newest key, while it is in force", () => {
    const [cluster, one, other] = [held(), node(), node()]
    const admission = Keys.admissionOf(cluster, one)
    assert.isTrue(Keys.isAdmitted(cluster, one, admission))
    assert.isFalse(Keys.isAdmitted(cluster, { ...one, transferKey: other.transferKey }, admission))
    assert.isFalse(Keys.isAdmitted(cluster, { ...one, signingKey: other.signingKey }, admission))
    assert.isFalse(Keys.isAdmitted(cluster, { ...one, nodeId: other.nodeId }, admission))
    assert.isFalse(Keys.isAdmitted(cluster, one, null))
    assert.isFalse(Keys.isAdmitted(cluster, one, `${admission.slice(0, -2)}AA`))
    assert.isFalse(Keys.isAdmitted({ ...cluster, current: false }, one, admission))
    assert.isFalse(Keys.isAdmitted({ ...cluster, clusterId: randomUUID() }, one, admission))
    assert.isFalse(Keys.isAdmitted({ ...cluster, keys: Keys.withNext(cluster) }, one, admission))
    assert.isFalse(Keys.isAdmitted(null, one, admission))
  })
})

describe("succession", () => {
  it("is proven from key to key, over those that a node missed, and by nobody who has none", () => {
    const first = held()
    let newest = first
    for (let n = 0; n < 7; n++) newest = renewed(newest)
    assert.strictEqual(newest.keys[0].generation, 8)
    assert.strictEqual(newest.keys.length, 8)
    assert.isTrue(Keys.succeeds(first, newest.keys))
    assert.isTrue(Keys.succeeds(newest, newest.keys))
    // One more, and the first is forgotten.
    assert.isFalse(Keys.succeeds(first, Keys.withNext(newest)))
    const stranger = { ...held(), clusterId: first.clusterId }
    assert.isFalse(Keys.succeeds(first, Keys.withNext(stranger)))
    const [next, ...before] = Keys.withNext(first)
    assert.isFalse(Keys.succeeds(first, [{ ...next, secret: stranger.keys[0].secret }, ...before]))
    assert.isFalse(Keys.succeeds(first, [{ ...next, generation: 3 }, ...before]))
    assert.isFalse(Keys.succeeds({ ...first, clusterId: randomUUID() }, [next, ...before]))
  })
})

describe("envelopes", () => {
  it.effect("open for the node and the cluster they were made for, and for nothing else", () =>
    Effect.gen(function*() {
      const [cluster, one, other] = [held(), node(), node()]
      const keys = Keys.withNext(cluster)
      const envelope = yield* Keys.wrap(cluster.clusterId, keys, one)
      const open = (clusterId: string, to: ReturnType<typeof node>, text = envelope) =>
        Keys.unwrap(clusterId, to.nodeId, to.privateKey, text)
      assert.deepStrictEqual(texts(yield* open(cluster.clusterId, one)), texts(keys))
      assert.isNull(yield* open(randomUUID(), one))
      assert.isNull(yield* open(cluster.clusterId, other))
      assert.isNull(yield* open(cluster.clusterId, { ...one, nodeId: other.nodeId }))
      for (const text of ["", "a.b.c.d.e", envelope.slice(1), `${envelope.slice(0, -3)}AAA`]) {
        assert.isNull(yield* open(cluster.clusterId, one, text))
      }
    }))

  it.effect("under a secret open for whoever has it, in their cluster", () =>
    Effect.gen(function*() {
      const cluster = held()
      const secret = Keys.joinSecretOf(Buffer.alloc(32, 1))
      const envelope = yield* secret.seal(cluster.clusterId, cluster.keys)
      assert.deepStrictEqual(texts(yield* secret.open(cluster.clusterId, envelope)), texts(cluster.keys))
      assert.isNull(yield* secret.open(randomUUID(), envelope))
      assert.isNull(yield* Keys.joinSecretOf(Buffer.alloc(32, 2)).open(cluster.clusterId, envelope))
      assert.isNull(yield* secret.open(cluster.clusterId, "nonsense"))
    }))
})
