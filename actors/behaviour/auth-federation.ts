/**
 * {@link PeerRegistry}: members and peers in memory, read again whenever somebody changed them, and told to {@link PeerTokens}.
 *
 * Invariants
 * 1. A peer holds what its roles grant. Where its reads of media are not narrowed (media read enforcement off), the groups of those
 *    roles do not count; what the roles do not grant stays denied.
 * 2. A member shares the database, so there is nothing to keep from it: it holds everything.
 * 3. Grants stay the same objects until what they say changes.
 */
import { type KnownPeer, PeerRegistry, PeerTokens } from "#actors/protocol/auth-federation.ts"
import { Trust } from "#actors/protocol/auth-trust.ts"
import { RoleReach } from "#actors/protocol/permission.ts"
import { thumbprintOf } from "#cluster/dpop.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { type Member, Members } from "#cluster/members.ts"
import { peerTokenSecret } from "#schema/auth-federation.ts"
import { NodeId } from "#schema/common.ts"
import { Fingerprint, NodeNotFound } from "#schema/federation.ts"
import type { Grant } from "#schema/permission.ts"
import { Vault } from "#schema/vault.ts"
import { Effect, Layer, Redacted, Semaphore, Stream, SubscriptionRef } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { answered } from "../store/answer.ts"
import { AuthFederationStore, type PeerRow } from "../store/auth-federation.ts"
import { AuthRolesStore } from "../store/auth-roles.ts"

const everything: ReadonlyArray<Grant> = [{ role: "member", permissions: ["*"], resources: "all" }]

const memberOf = (member: Member): ReadonlyArray<KnownPeer> =>
  // A row without is of a node that never ran here: one whose slot this cluster serves for another.
  member.http === null ?
    [] :
    [{
      nodeId: member.nodeId,
      name: member.name,
      relation: "member",
      address: member.http.address,
      addresses: [],
      tlsPin: member.http.tlsPin,
      fingerprint: Fingerprint.make(thumbprintOf(member.signingKey)),
      signingKey: member.signingKey,
      transferKey: member.transferKey,
      version: member.version,
      mediaReadEnforcement: false,
      guardianGranted: true,
      roles: [],
      pairing: null,
    }]

const peerOf = Effect.fnUntraced(function*(row: PeerRow) {
  const vault = yield* Vault
  const token = yield* vault.open(peerTokenSecret(row.id), row.sealedToken).pipe(
    // Renewed by the key: one that does not open is as good as one that has expired.
    Effect.catch((error) => Effect.as(Effect.logError(error.message), Redacted.make(""))),
  )
  return {
    nodeId: NodeId.make(row.peerId),
    name: row.name,
    relation: "peer",
    address: row.address,
    addresses: row.addresses,
    tlsPin: row.tlsPin,
    fingerprint: Fingerprint.make(thumbprintOf(row.signingKey)),
    signingKey: row.signingKey,
    transferKey: row.transferKey,
    version: null,
    mediaReadEnforcement: row.mediaReadEnforcement,
    guardianGranted: row.guardianGranted,
    roles: row.roles,
    pairing: {
      id: row.id,
      pairedAtMs: row.pairedAt.getTime(),
      token,
      tokenExpiresAtMs: row.tokenExpiresAt.getTime(),
    },
  } satisfies KnownPeer
})

const same = (a: ReadonlyArray<Grant>, b: ReadonlyArray<Grant>): boolean =>
  a.length === b.length &&
  a.every((grant, n) => {
    const other = b[n]!
    return grant.role === other.role && grant.resources === other.resources &&
      grant.permissions.join() === other.permissions.join()
  })

/** In one order of members: tells whether two lists are the same. Never leaves this file, as it holds the tokens. */
const textOf = (peers: ReadonlyArray<KnownPeer>) =>
  JSON.stringify(peers.map((peer) => [peer, peer.pairing === null ? null : Redacted.value(peer.pairing.token)]))

const make = Effect.gen(function*() {
  const store = yield* AuthFederationStore
  const roles = yield* AuthRolesStore
  const reach = yield* RoleReach
  const tokens = yield* PeerTokens
  const trust = yield* Trust
  const vault = yield* Vault
  const members = yield* Members
  const { nodeId } = yield* NodeIdentity
  const known = yield* SubscriptionRef.make<ReadonlyArray<KnownPeer>>([])
  const one = yield* Semaphore.make(1)
  let held = new Map<NodeId, ReadonlyArray<Grant>>()

  const grantsOf = (peer: KnownPeer, all: ReadonlyArray<Grant>): ReadonlyArray<Grant> => {
    if (peer.relation === "member") return everything
    const granted = all.filter(({ role }) => peer.roles.includes(role)).map((grant) =>
      peer.mediaReadEnforcement ? grant : { ...grant, resources: "all" as const }
    )
    const before = held.get(peer.nodeId)
    return before !== undefined && same(before, granted) ? before : granted
  }

  const read: Effect.Effect<void, SqlError.SqlError> = one.withPermits(1)(Effect.gen(function*() {
    const rows = yield* store.peers(nodeId)
    const narrowed = yield* reach.read
    const granted = (yield* roles.permissions()).map((role): Grant => ({
      ...role,
      resources: narrowed.get(role.role) ?? "all",
    }))
    const paired = yield* Effect.forEach(rows, peerOf).pipe(Effect.provideService(Vault, vault))
    const strange = new Set<string>([nodeId, ...paired.map((peer) => peer.nodeId)])
    const mine = (yield* members.list).filter(({ admitted, nodeId }) => admitted && !strange.has(nodeId)).flatMap(
      memberOf,
    )
    // A guardian with a database of its own would not see who controls among members: what was granted counts while there are none.
    const alone = mine.length === 0
    const all: ReadonlyArray<KnownPeer> = [
      ...mine,
      ...paired.map((peer) => ({ ...peer, guardianGranted: peer.guardianGranted && alone })),
    ]
    held = new Map(all.map((peer) => [peer.nodeId, grantsOf(peer, granted)]))
    yield* tokens.trust(all.map((peer) => ({ ...peer, grants: held.get(peer.nodeId)! })))
    if (textOf(yield* SubscriptionRef.get(known)) !== textOf(all)) yield* SubscriptionRef.set(known, all)
  }))
  yield* trust.reads("the peers", read)
  yield* members.changes.pipe(Stream.runForEach(() => Effect.ignore(read)), Effect.forkScoped)

  const get = Effect.fnUntraced(function*(wanted: NodeId) {
    const found = (yield* SubscriptionRef.get(known)).find((peer) => peer.nodeId === wanted)
    return found ?? (yield* new NodeNotFound({ nodeId: wanted }))
  })

  return PeerRegistry.of({
    list: SubscriptionRef.get(known),
    changes: SubscriptionRef.changes(known),
    get,
    set: Effect.fnUntraced(function*(peerId, change) {
      if (!(yield* store.setPeer(nodeId, peerId, change))) return yield* new NodeNotFound({ nodeId: peerId })
      yield* trust.changed
      return yield* get(peerId)
    }, answered),
    keepToken: Effect.fnUntraced(function*(pairingId, token, expiresAtMs) {
      yield* store.setToken(pairingId, yield* vault.seal(peerTokenSecret(pairingId), token), expiresAtMs)
      yield* trust.changed
    }, answered),
    changed: trust.changed,
  })
})

export const peerRegistryLayer: Layer.Layer<
  PeerRegistry,
  SqlError.SqlError,
  SqlClient.SqlClient | Vault | Trust | RoleReach | PeerTokens | Members | NodeIdentity
> = Layer.effect(PeerRegistry, make)
