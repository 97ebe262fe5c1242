/** Requests of other nodes: the proof, the token, and what the door of the HTTP floor makes of them. */
import { PeerTokensLive } from "#actors/behaviour/auth-federation-tokens.ts"
import { PeerTokens, type TrustedPeer } from "#actors/protocol/auth-federation.ts"
import { makeNonces, makeProof, type ProofClaims, publicKeyOf, thumbprintOf, verifyProof } from "#cluster/dpop.ts"
import { NodeIdentity, type NodeKey } from "#cluster/identity.ts"
import { makePeerToken, peerTokenSeconds } from "#cluster/peer-token.ts"
import { NodeId } from "#schema/common.ts"
import { uuid7 } from "#schema/uuid.ts"
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Redacted } from "effect"
import { TestClock } from "effect/testing"
import { calculateJwkThumbprint, decodeProtectedHeader, EmbeddedJWK, jwtVerify, SignJWT } from "jose"
import { createPublicKey, generateKeyPairSync, type KeyObject } from "node:crypto"
import { json, webHandler } from "./http-fixtures.ts"

const keyPair = (kind: "ed25519" | "x25519" = "ed25519"): NodeKey => {
  const { privateKey } = kind === "ed25519" ? generateKeyPairSync("ed25519") : generateKeyPairSync("x25519")
  return { privateKey, publicKey: createPublicKey(privateKey).export({ format: "jwk" }).x! }
}
interface TestNode {
  readonly nodeId: NodeId
  readonly signing: NodeKey
}
const nodeOf = (n: number): TestNode => ({
  nodeId: NodeId.make(`01900000-0000-7000-8000-00000000000${n}`),
  signing: keyPair(),
})
const home = nodeOf(1)
const guest = nodeOf(2)
const thief = nodeOf(3)

const identity = Layer.succeed(NodeIdentity, { ...home, createdMs: 0, transfer: keyPair("x25519") })
const trusted = (node: TestNode, relation: "member" | "peer" = "peer"): TrustedPeer => ({
  nodeId: node.nodeId,
  name: `node ${node.nodeId.at(-1)}`,
  relation,
  signingKey: node.signing.publicKey,
  grants: [{ role: "viewer", permissions: ["camera:read"], resources: "all" }],
})

const usersAddress = "http://node.test/auth/api/v1/users"
const address = "http://node.test/camera/api/v1/cameras?limit=1"
const proofBy = (
  node: TestNode,
  options: Partial<Parameters<typeof makeProof>[0]> & { readonly token: string | null },
) =>
  Effect.gen(function*() {
    return yield* makeProof({
      key: node.signing,
      method: "GET",
      address,
      nonce: null,
      onBehalfOf: null,
      jti: yield* uuid7,
      nowMs: yield* Clock.currentTimeMillis,
      ...options,
    })
  })

const expected = (node: TestNode, token: string | null) => ({
  key: publicKeyOf(node.signing.publicKey),
  publicKey: node.signing.publicKey,
  method: "GET",
  target: "http://node.test/camera/api/v1/cameras",
  token,
})

describe("a proof of possession", () => {
  it.effect("is one to a stranger's implementation, and a stranger's is one to us", () =>
    Effect.gen(function*() {
      const ours = yield* proofBy(guest, { token: "abc", nonce: "n" })
      const { payload } = yield* Effect.promise(() => jwtVerify(ours, EmbeddedJWK, { typ: "dpop+jwt" }))
      assert.strictEqual(payload["htu"], "http://node.test/camera/api/v1/cameras")
      // RFC 9449, section 4.1: the hash of this very token.
      assert.strictEqual(payload["ath"], "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0")
      const { jwk } = decodeProtectedHeader(ours)
      assert.strictEqual(
        yield* Effect.promise(() => calculateJwkThumbprint(jwk!)),
        thumbprintOf(guest.signing.publicKey),
      )

      const theirs = yield* Effect.promise(() =>
        new SignJWT({ htm: "GET", htu: "HTTP://NODE.test:80/camera/api/v1/cameras", jti: "a".repeat(22) })
          .setProtectedHeader({ typ: "dpop+jwt", alg: "EdDSA", jwk: jwk! })
          .setIssuedAt(0)
          .sign(guest.signing.privateKey)
      )
      yield* verifyProof(theirs, expected(guest, null))
    }))

  it.effect("is for one key, method, address and token", () =>
    Effect.gen(function*() {
      const why = (text: string, change: Partial<Parameters<typeof verifyProof>[1]> = {}) =>
        Effect.map(Effect.flip(verifyProof(text, { ...expected(guest, "abc"), ...change })), ({ reason }) => reason)
      const good = yield* proofBy(guest, { token: "abc" })
      yield* verifyProof(good, expected(guest, "abc"))
      assert.strictEqual(yield* why(""), "missing")
      assert.strictEqual(yield* why("x".repeat(5000)), "malformed")
      assert.strictEqual(yield* why("a.b.c"), "malformed")
      assert.strictEqual(yield* why(good, { method: "POST" }), "request")
      assert.strictEqual(yield* why(good, { target: "http://node.test/camera/api/v1/cameras/1" }), "request")
      assert.strictEqual(yield* why(good, { target: "https://node.test/camera/api/v1/cameras" }), "request")
      assert.strictEqual(yield* why(good, { target: "" }), "request")
      assert.strictEqual(yield* why(good, { token: "abd" }), "token")
      assert.strictEqual(yield* why(good, { token: null }), "token")
      assert.strictEqual(yield* why(yield* proofBy(thief, { token: "abc" })), "key")
      // The victim's key in the header, the thief's under it.
      const mixed = { privateKey: thief.signing.privateKey, publicKey: guest.signing.publicKey }
      assert.strictEqual(yield* why(yield* proofBy({ ...guest, signing: mixed }, { token: "abc" })), "signature")
    }))

  it.effect("that was changed by a letter, anywhere, does not count", () =>
    Effect.gen(function*() {
      const good = yield* proofBy(guest, { token: "abc", nonce: "n" })
      for (let at = 0; at < good.length; at += 7) {
        const letter = good[at] === "A" ? "B" : "A"
        const changed = `${good.slice(0, at)}${letter}${good.slice(at + 1)}`
        yield* Effect.flip(verifyProof(changed, expected(guest, "abc")))
      }
    }))

  it.effect("counts once, with a nonce that holds; what is remembered is bounded", () =>
    Effect.gen(function*() {
      const nonces = makeNonces(1_000, 3)
      const claims = (jti: string, nonce?: string): ProofClaims => ({
        jti,
        htm: "GET",
        htu: "",
        iat: 0,
        ...nonce === undefined ? {} : { nonce },
      })
      const why = (jti: string, nonce: string | undefined, nowMs: number) =>
        Effect.map(Effect.flip(nonces.take(claims(jti, nonce), "a", nowMs)), ({ reason }) => reason)
      const first = nonces.current(0)
      assert.strictEqual(yield* why("1", undefined, 0), "nonce")
      assert.strictEqual(yield* why("1", "made up", 0), "nonce")
      yield* nonces.take(claims("1", first), "a", 0)
      assert.strictEqual(yield* why("1", first, 1), "replayed")
      // Another node may have thought of the same.
      yield* nonces.take(claims("1", first), "b", 1)
      // The old one still holds after the new one came, and still remembers.
      const second = nonces.current(1_500)
      assert.notStrictEqual(second, first)
      assert.strictEqual(yield* why("1", first, 1_600), "replayed")
      yield* nonces.take(claims("2", first), "a", 1_700)
      assert.strictEqual(yield* why("9", first, 1_800), "nonce", "it is full")
      yield* nonces.take(claims("2", second), "a", 2_400)
      assert.strictEqual(yield* why("3", first, 3_000), "nonce", "it is too old")
      yield* nonces.take(claims("4", second), "a", 2_450)
      yield* nonces.take(claims("5", second), "a", 2_460)
      assert.notStrictEqual(nonces.current(2_470), second, "a full one is followed at once")
      assert.strictEqual(yield* why("5", second, 2_480), "nonce", "and nothing it saw passes again")
    }))
})

const call = Effect.fnUntraced(function*(options: {
  readonly by: TestNode
  readonly token: string
  readonly proof?: Partial<Parameters<typeof makeProof>[0]>
}) {
  const tokens = yield* PeerTokens
  const proof = yield* proofBy(options.by, { token: options.token, nonce: yield* tokens.nonce, ...options.proof })
  return { token: Redacted.make(options.token), proof, method: "GET", address }
})

const issued = (node: TestNode) =>
  Effect.gen(function*() {
    const { token } = yield* (yield* PeerTokens).issue({ nodeId: node.nodeId, signingKey: node.signing.publicKey })
    return Redacted.value(token)
  })

const selfMade = (options: { readonly by: TestNode; readonly audience?: NodeId; readonly key?: KeyObject }) =>
  Effect.gen(function*() {
    const token = yield* makePeerToken({
      issuer: options.by.nodeId,
      key: options.key ?? options.by.signing.privateKey,
      audience: options.audience ?? home.nodeId,
      subject: options.by.nodeId,
      subjectKey: options.by.signing.publicKey,
      jti: yield* uuid7,
      nowMs: yield* Clock.currentTimeMillis,
    })
    return Redacted.value(token)
  })

describe("the token of a peer", () => {
  it.effect("opens with a proof of its key, and tells on whose behalf", () =>
    Effect.gen(function*() {
      const tokens = yield* PeerTokens
      const token = yield* issued(guest)
      const early = yield* Effect.flip(tokens.verify(yield* call({ by: guest, token })))
      assert.strictEqual(early._tag, "DependencyUnavailable", "before the peers were read")
      yield* tokens.trust([trusted(guest)])
      const who = yield* tokens.verify(yield* call({ by: guest, token, proof: { onBehalfOf: "vera" } }))
      assert.deepInclude(who, { kind: "peer", nodeId: guest.nodeId, relation: "peer", onBehalfOf: "vera" })
      assert.deepStrictEqual(yield* tokens.claimed(Redacted.make(token)), {
        nodeId: guest.nodeId,
        name: trusted(guest).name,
      })
      const unasked = yield* Effect.flip(tokens.verify(yield* call({ by: guest, token, proof: { nonce: null } })))
      assert.strictEqual(unasked._tag, "UseDpopNonce")
    }).pipe(Effect.provide(PeerTokensLive.pipe(Layer.provide(identity)))))

  it.effect("is of no use without its key, twice, expired, or after the pairing ended", () =>
    Effect.gen(function*() {
      const tokens = yield* PeerTokens
      yield* tokens.trust([trusted(guest), trusted(thief)])
      const token = yield* issued(guest)
      const why = (asked: Effect.Success<ReturnType<typeof call>>) =>
        Effect.map(Effect.flip(tokens.verify(asked)), ({ message }) => message)
      assert.include(yield* why(yield* call({ by: thief, token })), "another key")
      assert.include(yield* why({ ...(yield* call({ by: guest, token })), proof: "" }), "without a proof")
      const once = yield* call({ by: guest, token })
      yield* tokens.verify(once)
      assert.include(yield* why(once), "used before")
      assert.include(yield* why({ ...(yield* call({ by: guest, token })), method: "DELETE" }), "another request")

      // A peer may not make tokens of its own, nor bring those that it gave or was given elsewhere.
      assert.include(yield* why(yield* call({ by: guest, token: yield* selfMade({ by: guest }) })), "not one of ours")
      const elsewhere = yield* selfMade({ by: guest, audience: thief.nodeId })
      assert.include(yield* why(yield* call({ by: guest, token: elsewhere })), "another node")
      const forged = yield* makePeerToken({
        issuer: home.nodeId,
        key: guest.signing.privateKey,
        audience: home.nodeId,
        subject: guest.nodeId,
        subjectKey: guest.signing.publicKey,
        jti: yield* uuid7,
        nowMs: 0,
      })
      assert.include(yield* why(yield* call({ by: guest, token: Redacted.value(forged) })), "not one of ours")

      yield* TestClock.adjust(`${peerTokenSeconds + 1} seconds`)
      assert.include(yield* why(yield* call({ by: guest, token })), "expired")
      yield* tokens.verify(yield* call({ by: guest, token }), { expiredToo: true })
      const open = yield* Effect.forkChild(tokens.untilEnded(guest.nodeId), { startImmediately: true })
      yield* tokens.trust([trusted(thief)])
      yield* Fiber.join(open)
      assert.include(yield* why(yield* call({ by: guest, token: yield* issued(guest) })), "not paired")
    }).pipe(Effect.provide(PeerTokensLive.pipe(Layer.provide(identity)))))

  it.effect("is made by a member itself, by its own key, and its clock does not matter", () =>
    Effect.gen(function*() {
      const tokens = yield* PeerTokens
      yield* tokens.trust([trusted(guest, "member")])
      const token = yield* selfMade({ by: guest })
      yield* TestClock.adjust("400 days")
      const who = yield* tokens.verify(yield* call({ by: guest, token }))
      assert.strictEqual(who.relation, "member")
      const stolen = yield* selfMade({ by: guest, key: thief.signing.privateKey })
      yield* Effect.flip(tokens.verify(yield* call({ by: guest, token: stolen })))
    }).pipe(Effect.provide(PeerTokensLive.pipe(Layer.provide(identity)))))
})

describe("the door for other nodes", () => {
  it.live("asks for a nonce, then judges; what is not open to nodes is closed to them", () =>
    Effect.gen(function*() {
      const tokens = yield* PeerTokens
      yield* tokens.trust([trusted(guest)])
      const ask = yield* webHandler({}, Layer.succeed(PeerTokens, tokens))
      const token = yield* issued(guest)
      const headers = (proof: string) => ({
        headers: { authorization: `DPoP ${token}`, dpop: proof, host: "node.test" },
      })
      const first = yield* ask("/camera/api/v1/cameras", headers(yield* proofBy(guest, { token })))
      assert.strictEqual(first.status, 401)
      const told = yield* json(first)
      assert.strictEqual(told["code"], "use_dpop_nonce", JSON.stringify(told))
      assert.match(first.headers.get("www-authenticate")!, /^DPoP error="use_dpop_nonce"/)
      const nonce = first.headers.get("dpop-nonce")
      const second = yield* ask(
        "/auth/api/v1/users",
        headers(yield* proofBy(guest, { token, nonce, address: usersAddress })),
      )
      assert.strictEqual(second.status, 403, "proven, but the operation is for users")
      const bare = yield* ask("/camera/api/v1/cameras", { token })
      assert.strictEqual(bare.status, 401, "no user's token")
      const elsewhere = yield* proofBy(guest, { token, nonce, address: "http://node.test/camera/api/v1/channels" })
      assert.strictEqual((yield* ask("/camera/api/v1/cameras", headers(elsewhere))).status, 401)
    }).pipe(Effect.provide(PeerTokensLive.pipe(Layer.provide(identity)))))
})
