/**
 * {@link PeerTokens}: judges requests of other nodes from memory.
 *
 * Invariants
 * 1. A token counts that this node gave to a peer, or that a member made for itself; never one that a peer made.
 * 2. The expiry of a token is judged by the clock that set it: of a member's own token the nonce of the proof tells the freshness.
 * 3. At most {@link remembered} verified tokens are remembered; who is trusted is looked at every time.
 */
import { PeerTokens, type TrustedPeer } from "#actors/protocol/auth-federation.ts"
import { makeNonces, type ProofRefused, publicKeyOf, targetOf, thumbprintOf, verifyProof } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { makePeerToken, type PeerTokenClaims, peerTokenSeconds, readPeerToken, signedBy } from "#cluster/peer-token.ts"
import { UseDpopNonce } from "#schema/auth-federation.ts"
import type { NodeId } from "#schema/common.ts"
import type { PeerPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable, Unauthenticated } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Redacted } from "effect"
import type { KeyObject } from "node:crypto"

/** Some hundred bytes each; a cluster has 64 nodes. */
const remembered = 512

interface Known extends TrustedPeer {
  readonly key: KeyObject
}

const why: Record<Exclude<ProofRefused["reason"], "nonce">, string> = {
  missing: "it came without a proof",
  malformed: "the proof cannot be read",
  key: "the proof is by another key",
  signature: "the signature of the proof is wrong",
  request: "the proof is for another request",
  token: "the proof is for another token",
  replayed: "the proof was used before",
}

const refuse = (reason: string) => new Unauthenticated({ message: `The peer token does not count: ${reason}` })

const unproven = ({ reason }: ProofRefused) => reason === "nonce" ? new UseDpopNonce() : refuse(why[reason])

const knownOf = (peer: TrustedPeer, before: Known | undefined): ReadonlyArray<readonly [NodeId, Known]> => {
  if (before?.signingKey === peer.signingKey) return [[peer.nodeId, { ...peer, key: before.key }]]
  try {
    return [[peer.nodeId, { ...peer, key: publicKeyOf(peer.signingKey) }]]
  } catch {
    // A row with a key that is none is nobody.
    return []
  }
}

const make = Effect.gen(function*() {
  const { nodeId: self, signing } = yield* NodeIdentity
  const ownKey = publicKeyOf(signing.publicKey)
  const nonces = makeNonces()
  const verified = new Map<string, PeerTokenClaims>()
  const waiting = new Map<NodeId, Set<() => void>>()
  let known: ReadonlyMap<NodeId, Known> | null = null

  /** The token's claims, if it is one that `peer` may show here. */
  const genuine = Effect.fnUntraced(function*(token: string, claims: PeerTokenClaims, peer: Known) {
    if (claims.aud !== self) return yield* refuse("it is for another node")
    if (claims.cnf.jkt !== thumbprintOf(peer.signingKey)) return yield* refuse("it is bound to another key")
    if (verified.has(token)) return
    const own = claims.iss === self
    if (!own && (peer.relation !== "member" || claims.iss !== peer.nodeId)) {
      return yield* refuse("it is not one of ours")
    }
    if (!(yield* signedBy(token, own ? ownKey : peer.key))) return yield* refuse("it is not one of ours")
    if (verified.size >= remembered) verified.delete(verified.keys().next().value!)
    verified.set(token, claims)
  })

  const notRead = () => new DependencyUnavailable({ dependency: "database", message: "The peers were not read yet" })

  return PeerTokens.of({
    verify: Effect.fnUntraced(function*(call, options) {
      if (known === null) return yield* notRead()
      const token = Redacted.value(call.token)
      const claims = verified.get(token) ?? (yield* readPeerToken(token))
      if (claims === null) return yield* refuse("it cannot be read")
      const peer = known.get(claims.sub)
      if (peer === undefined) return yield* refuse("this node is not paired")
      yield* genuine(token, claims, peer)
      const nowMs = yield* Clock.currentTimeMillis
      if (claims.iss === self && claims.exp * 1000 <= nowMs && options?.expiredToo !== true) {
        return yield* refuse("it has expired")
      }
      const proof = yield* verifyProof(call.proof, {
        key: peer.key,
        publicKey: peer.signingKey,
        method: call.method,
        target: targetOf(call.address),
        token,
      }).pipe(Effect.tap((claimed) => nonces.take(claimed, peer.nodeId, nowMs)), Effect.mapError(unproven))
      const { grants, name, nodeId, relation } = peer
      return { kind: "peer", nodeId, name, relation, grants, onBehalfOf: proof.obo ?? null } satisfies PeerPrincipal
    }),
    claimed: (token) =>
      Effect.map(
        readPeerToken(Redacted.value(token)),
        (claims) => claims === null ? null : { nodeId: claims.sub, name: known?.get(claims.sub)?.name ?? null },
      ),
    nonce: Effect.map(Clock.currentTimeMillis, nonces.current),
    issue: Effect.fnUntraced(function*({ nodeId, signingKey }) {
      const nowMs = yield* Clock.currentTimeMillis
      const token = yield* makePeerToken({
        issuer: self,
        key: signing.privateKey,
        audience: self,
        subject: nodeId,
        subjectKey: signingKey,
        jti: yield* uuid7,
        nowMs,
      })
      return { token, expiresAtMs: (Math.floor(nowMs / 1000) + peerTokenSeconds) * 1000 }
    }),
    trust: (peers) =>
      Effect.sync(() => {
        const before = known
        const next = new Map(peers.flatMap((peer) => knownOf(peer, before?.get(peer.nodeId))))
        known = next
        for (const [nodeId, told] of waiting) {
          if (next.has(nodeId)) continue
          waiting.delete(nodeId)
          for (const resume of told) resume()
        }
      }),
    grantsOf: (nodeId) =>
      Effect.suspend(() => known === null ? Effect.fail(notRead()) : Effect.succeed(known.get(nodeId)?.grants ?? null)),
    untilEnded: (nodeId) =>
      Effect.callback((resume) => {
        if (known !== null && !known.has(nodeId)) return resume(Effect.void)
        const told = () => resume(Effect.void)
        const all = waiting.get(nodeId)
        if (all === undefined) waiting.set(nodeId, new Set([told]))
        else all.add(told)
        return Effect.sync(() => {
          const left = waiting.get(nodeId)
          left?.delete(told)
          if (left?.size === 0) waiting.delete(nodeId)
        })
      }),
  })
})

export const PeerTokensLive: Layer.Layer<PeerTokens, never, NodeIdentity> = Layer.effect(PeerTokens, make)
