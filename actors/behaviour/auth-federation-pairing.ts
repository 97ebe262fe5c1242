/**
 * {@link Pairings}: both sides of pairing, the peers' own errands (renewing, greeting, leaving), and what an administrator sets of them.
 *
 * Invariants
 * 1. A pairing is kept with the other's token in one transaction, and holds on this node before the call answers.
 * 2. Unpairing ends it here first; then the other side is told, which may take as long as it likes.
 */
import { type KnownPeer, Pairings, PeerRegistry, PeerTokens } from "#actors/protocol/auth-federation.ts"
import { Events } from "#actors/protocol/event.ts"
import { publicKeyOf, thumbprintOf } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { OwnReach } from "#cluster/members.ts"
import { PlainNetworks, whyNot } from "#cluster/peer-link.ts"
import { readPeerToken, signedBy } from "#cluster/peer-token.ts"
import {
  defaultPeerRoles,
  type NodeIntroduction,
  PairingMismatch,
  PairingNotOpen,
  peerTokenSecret,
} from "#schema/auth-federation.ts"
import { RoleNotFound } from "#schema/auth-users.ts"
import type { NodeId } from "#schema/common.ts"
import { NodeNotFound } from "#schema/federation.ts"
import { DependencyUnavailable, InvalidInput } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Vault } from "#schema/vault.ts"
import { Clock, Effect, Layer, Redacted, SubscriptionRef } from "effect"
import type { SqlClient } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthFederationStore } from "../store/auth-federation.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"
import { makeAsked } from "./auth-federation-asked.ts"
import { makeAsking, type Paired } from "./auth-federation-asking.ts"
import { farewell } from "./auth-federation-link.ts"

export interface PairingOptions {
  readonly name: string
  readonly version: string
  readonly reach: OwnReach
}

/** Where this node says it is; `DependencyUnavailable` until it listens. */
const makeIntroduction = ({ name, reach, version }: PairingOptions) =>
  Effect.map(
    NodeIdentity,
    ({ nodeId, signing, transfer }) =>
      Effect.flatMap(SubscriptionRef.get(reach), (now) =>
        now === null ?
          Effect.fail(new DependencyUnavailable({ dependency: "http", message: "This node does not listen yet" })) :
          Effect.succeed<NodeIntroduction>({
            nodeId,
            name: name.slice(0, 128),
            version,
            address: now.address,
            tlsPin: now.tlsPin,
            signingKey: signing.publicKey,
            transferKey: transfer.publicKey,
          })),
  )

/** Keeping and ending pairings, and telling of it. */
const makeKeeper = Effect.gen(function*() {
  const store = yield* AuthFederationStore
  const registry = yield* PeerRegistry
  const events = yield* Events
  const vault = yield* Vault
  const plain = yield* PlainNetworks
  const { nodeId: self, signing } = yield* NodeIdentity
  const layerScope = yield* Effect.scope

  const tell = (type: "federation.node.paired" | "federation.node.unpaired", peer: {
    readonly nodeId: NodeId
    readonly name: string
  }, reason: string) => events.publish({ type, subject: peer.nodeId, data: { name: peer.name, reason }, resource: [] })

  const keep = Effect.fnUntraced(function*({ expiresAtMs, grantGuardian, other, token }: Paired) {
    const nowMs = yield* Clock.currentTimeMillis
    const fresh = yield* uuid7
    yield* store.together(Effect.gen(function*() {
      const id = yield* store.save(self, {
        id: fresh,
        peerId: other.nodeId,
        name: other.name,
        address: other.address,
        tlsPin: other.tlsPin,
        signingKey: other.signingKey,
        transferKey: other.transferKey,
        roles: defaultPeerRoles,
        guardianGranted: grantGuardian,
        tokenExpiresAt: new Date(expiresAtMs),
        pairedAt: new Date(nowMs),
      })
      yield* store.setToken(id, yield* vault.seal(peerTokenSecret(id), token), expiresAtMs)
    }))
    yield* registry.changed
    yield* tell("federation.node.paired", other, `Fingerprint ${thumbprintOf(other.signingKey)}`)
  }, answered)

  const paired = Effect.fnUntraced(function*(nodeId: NodeId) {
    const peer = yield* registry.get(nodeId)
    if (peer.pairing === null) return yield* new NodeNotFound({ nodeId })
    return peer
  })
  const drop = Effect.fnUntraced(function*(peer: KnownPeer, reason: string) {
    yield* store.remove(self, peer.nodeId)
    yield* registry.changed
    yield* tell("federation.node.unpaired", peer, reason)
  }, answered)

  return {
    keep,
    paired,
    drop,
    unpair: Effect.fnUntraced(function*(nodeId: NodeId) {
      const peer = yield* paired(nodeId)
      yield* drop(peer, "It was ended here")
      yield* farewell(peer, signing, plain).pipe(
        Effect.timeout("15 seconds"),
        Effect.catch((error) =>
          Effect.logInfo(`${peer.name} does not hear of the end of its pairing: ${error.message}`)
        ),
        Effect.forkIn(layerScope),
      )
    }),
  }
})

const make = Effect.fnUntraced(function*(options: PairingOptions) {
  const store = yield* AuthFederationStore
  const roles = yield* AuthRolesStore
  const registry = yield* PeerRegistry
  const tokens = yield* PeerTokens
  const events = yield* Events
  const { nodeId: self, signing } = yield* NodeIdentity
  const introduction = yield* makeIntroduction(options)
  const keeper = yield* makeKeeper
  const asked = makeAsked(self)

  /** A token by that node, for us, bound to our key. */
  const isToken = Effect.fnUntraced(
    function*(text: string, issuer: { readonly nodeId: NodeId; readonly signingKey: string }) {
      const claims = yield* readPeerToken(text)
      return claims !== null && claims.iss === issuer.nodeId && claims.aud === issuer.nodeId && claims.sub === self &&
        claims.cnf.jkt === thumbprintOf(signing.publicKey) && (yield* signedBy(text, publicKeyOf(issuer.signingKey)))
    },
  )
  const plain = yield* PlainNetworks
  const asking = yield* makeAsking({ plain, key: signing, issue: tokens.issue, isToken, keep: keeper.keep })

  const given = Effect.fnUntraced(function*(peer: { readonly nodeId: NodeId; readonly signingKey: string }) {
    const { expiresAtMs, token } = yield* tokens.issue(peer)
    const expiresIn = Math.floor((expiresAtMs - (yield* Clock.currentTimeMillis)) / 1000)
    return { token: Redacted.value(token), tokenType: "DPoP" as const, expiresIn }
  })

  return Pairings.of({
    request: Effect.fnUntraced(function*(offer, caller) {
      const answer = yield* asked.request(offer, yield* introduction, caller.address)
      const data = { name: offer.name, reason: `From ${caller.address}` }
      yield* events.publish({ type: "federation.pairing.requested", subject: offer.nodeId, data, resource: [] })
      return answer
    }),
    status: asked.status,
    reveal: (id, nonce) => asked.reveal(id, nonce, signing.privateKey),
    claim: Effect.fnUntraced(function*(id, claim) {
      const { first, grantGuardian, offer } = yield* asked.claim(id, claim)
      if (!(yield* isToken(claim.token, offer))) {
        return yield* new PairingMismatch({ detail: "The token of the claim is not one of that node for us" })
      }
      const nowMs = yield* Clock.currentTimeMillis
      // Once more, because the answer was lost: it is kept already.
      if (first) {
        yield* keeper.keep({
          other: offer,
          token: Redacted.make(claim.token),
          expiresAtMs: nowMs + claim.expiresIn * 1000,
          grantGuardian,
        })
        asked.settle(id)
      }
      return yield* given(offer)
    }),
    incoming: () => asked.list,
    confirm: asked.confirm,
    deny: asked.deny,
    ask: Effect.fnUntraced(function*(nodeId, ask) {
      const own = yield* introduction
      if (nodeId === self) return yield* new PairingMismatch({ detail: "A node cannot pair with itself" })
      const known = (yield* registry.list).find((peer) => peer.nodeId === nodeId)
      if (known?.relation === "member") {
        return yield* new PairingNotOpen({ state: "claimed", detail: "The node is a member of this cluster already" })
      }
      return yield* asking.ask(nodeId, ask, own)
    }),
    outgoing: () => asking.list,
    confirmOwn: asking.confirm,
    withdraw: asking.withdraw,
    refresh: Effect.fnUntraced(function*(who, told) {
      const peer = yield* keeper.paired(who.nodeId)
      const next = {
        name: told.name ?? peer.name,
        address: told.address ?? peer.address,
        tlsPin: told.tlsPin === undefined ? peer.tlsPin : told.tlsPin,
      }
      if (next.name !== peer.name || next.address !== peer.address || next.tlsPin !== peer.tlsPin) {
        yield* answered(store.learn(self, peer.nodeId, next))
        yield* registry.changed
      }
      return yield* given(peer)
    }),
    greet: Effect.fnUntraced(function*(who) {
      const peer = yield* registry.get(who.nodeId)
      return {
        nodeId: self,
        name: options.name,
        version: options.version,
        time: yield* Clock.currentTimeMillis,
        guardianGranted: peer.guardianGranted,
        mediaReadEnforcement: peer.mediaReadEnforcement,
      }
    }),
    enforce: Effect.fnUntraced(function*(peerNodeId, input) {
      const named = input.roles === undefined ? [] : yield* answered(roles.named(input.roles))
      const missing = input.roles?.find((role) => !named.some(({ name }) => name === role))
      if (missing !== undefined) return yield* new RoleNotFound({ role: missing })
      const change = input.roles === undefined ? {} : { roles: input.roles }
      const peer = yield* registry.set(peerNodeId, { ...change, mediaReadEnforcement: input.enabled })
      return { peerNodeId, enabled: peer.mediaReadEnforcement, roles: peer.roles }
    }),
    setAddresses: Effect.fnUntraced(function*(nodeId, addresses) {
      for (const [at, address] of addresses.entries()) {
        const reason = whyNot(address, plain)
        if (reason !== null) return yield* InvalidInput.at(`/payload/addresses/${at}`, reason)
      }
      yield* registry.set(nodeId, { addresses })
    }),
    unpair: keeper.unpair,
    left: (who) =>
      Effect.flatMap(keeper.paired(who.nodeId), (peer) => keeper.drop(peer, "The other side has ended it")),
  })
})

export const pairingsLayer = (
  options: PairingOptions,
): Layer.Layer<Pairings, never, SqlClient.SqlClient | PeerRegistry | PeerTokens | Events | NodeIdentity | Vault> =>
  Layer.effect(Pairings, make(options))
