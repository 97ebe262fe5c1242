/**
 * Other nodes at our door: the tokens that we gave them, and the proof that comes with each request.
 *
 * Invariants
 * 1. {@link PeerTokens} lives as long as HTTP and asks no database: once it was told the peers, their requests are judged while
 *    PostgreSQL is away.
 * 2. A token alone opens nothing: each request is proven by the key that the token is bound to, for this method and address, with
 *    a nonce of ours, once.
 * 3. Whoever is no member and no peer any more is refused from that moment, and what was opened in its name closes.
 */
import type {
  MediaReadEnforcement,
  OutgoingPairing,
  PairAnswer,
  PairAsk,
  PairClaim,
  PairConfirm,
  PairingMismatch,
  PairingNotFound,
  PairingNotOpen,
  PairingSlowDown,
  PairOffer,
  PairRequest,
  PairStatus,
  PeerGreeting,
  PeerRefresh,
  PeerTokenAnswer,
  UseDpopNonce,
} from "#schema/auth-federation.ts"
import type { RoleNotFound } from "#schema/auth-users.ts"
import type { EpochMs, NodeId } from "#schema/common.ts"
import type { Fingerprint, NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import type { Grant, PeerPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, InvalidInput, Unauthenticated } from "#schema/problem.ts"
import { Context, type Effect, type Redacted, type Stream } from "effect"

/** A node that may ask here. */
export interface TrustedPeer {
  readonly nodeId: NodeId
  readonly name: string
  readonly relation: "member" | "peer"
  /** Ed25519, 32 bytes in base64url. */
  readonly signingKey: string
  readonly grants: ReadonlyArray<Grant>
}

/** A request as it came in. */
export interface PeerCall {
  /** What `Authorization: DPoP` names. */
  readonly token: Redacted.Redacted
  /** The header `DPoP`, empty where there is none. */
  readonly proof: string
  readonly method: string
  /** Scheme, authority and path by which it was asked. */
  readonly address: string
}

export class PeerTokens extends Context.Service<PeerTokens, {
  /**
   * The node that asks. `Unauthenticated` tells why in its message; `DependencyUnavailable` before the first `trust`.
   * `expiredToo`: also by a token that has expired, for its renewal.
   */
  readonly verify: (call: PeerCall, options?: { readonly expiredToo: boolean }) => Effect.Effect<
    PeerPrincipal,
    Unauthenticated | UseDpopNonce | DependencyUnavailable
  >
  /** The node that a token names, proven or not, and its name if it is known: for the audit log of what was refused. */
  readonly claimed: (
    token: Redacted.Redacted,
  ) => Effect.Effect<{ readonly nodeId: NodeId; readonly name: string | null } | null>
  /** The nonce for the next proof. */
  readonly nonce: Effect.Effect<string>
  /** A token of ours for a node, bound to its key. */
  readonly issue: (
    peer: Pick<TrustedPeer, "nodeId" | "signingKey">,
  ) => Effect.Effect<{ readonly token: Redacted.Redacted; readonly expiresAtMs: EpochMs }>
  /** All of them; what was known before is forgotten. */
  readonly trust: (peers: ReadonlyArray<TrustedPeer>) => Effect.Effect<void>
  /** What a node holds now, for what was opened in its name and goes on; null: it is neither a member nor a peer. */
  readonly grantsOf: (nodeId: NodeId) => Effect.Effect<ReadonlyArray<Grant> | null, DependencyUnavailable>
  /** Returns when the node is neither a member nor a peer any more. */
  readonly untilEnded: (nodeId: NodeId) => Effect.Effect<void>
}>()("nightjar/actors/PeerTokens") {}

/** A member or a peer, with what is needed to ask it. */
export interface KnownPeer {
  readonly nodeId: NodeId
  readonly name: string
  readonly relation: "member" | "peer"
  /** `https://host:port`, or `http` where it serves no TLS. */
  readonly address: string
  /** Others that an administrator gave, tried before that one; whoever answers there has to show the same key. */
  readonly addresses: ReadonlyArray<string>
  /** SHA-256 of its TLS key (SubjectPublicKeyInfo), base64url; null where it serves no TLS. */
  readonly tlsPin: string | null
  readonly fingerprint: Fingerprint
  readonly signingKey: string
  readonly transferKey: string
  readonly version: string | null
  readonly mediaReadEnforcement: boolean
  readonly guardianGranted: boolean
  /** Roles whose grants it holds here; none for a member, which holds everything. */
  readonly roles: ReadonlyArray<string>
  /** Of the pairing; null for a member. */
  readonly pairing: {
    readonly id: string
    readonly pairedAtMs: EpochMs
    /** Its token for us. */
    readonly token: Redacted.Redacted
    readonly tokenExpiresAtMs: EpochMs
  } | null
}

type Answer<A, E = never> = Effect.Effect<A, E | DependencyUnavailable>

/**
 * The members and peers of this node. What was read stays known while PostgreSQL is away.
 */
export class PeerRegistry extends Context.Service<PeerRegistry, {
  readonly list: Effect.Effect<ReadonlyArray<KnownPeer>>
  /** At once and after each change; a slow reader sees the newest. */
  readonly changes: Stream.Stream<ReadonlyArray<KnownPeer>>
  readonly get: (nodeId: NodeId) => Effect.Effect<KnownPeer, NodeNotFound>
  /** Changes what a peer may; a member is `NodeNotFound`, as it may everything. Holds on this node before it answers. */
  readonly set: (nodeId: NodeId, change: {
    readonly roles?: ReadonlyArray<string>
    readonly mediaReadEnforcement?: boolean
    readonly guardianGranted?: boolean
    readonly addresses?: ReadonlyArray<string>
  }) => Answer<KnownPeer, NodeNotFound>
  /** Keeps a renewed token. */
  readonly keepToken: (pairingId: string, token: Redacted.Redacted, expiresAtMs: EpochMs) => Answer<void>
  /** Something of it was changed in the database: reads it again. */
  readonly changed: Effect.Effect<void>
}>()("nightjar/actors/PeerRegistry") {}

/** What the asked node knows of its caller beside its words. */
export interface PairCaller {
  readonly address: string
}

/**
 * Pairing with nodes that have databases of their own, on both sides, and its end. Requests live in memory: they last minutes, and
 * whoever restarts in between asks again.
 */
export class Pairings extends Context.Service<Pairings, {
  readonly request: (offer: PairOffer, caller: PairCaller) => Answer<PairAnswer, PairingMismatch | PairingSlowDown>
  readonly status: (requestId: string) => Answer<PairStatus, PairingNotFound | PairingSlowDown>
  readonly reveal: (
    requestId: string,
    nonce: string,
  ) => Answer<{ readonly signature: string }, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly claim: (
    requestId: string,
    claim: PairClaim,
  ) => Answer<PeerTokenAnswer, PairingNotFound | PairingNotOpen | PairingMismatch>
  /** Newest first. */
  readonly incoming: () => Answer<ReadonlyArray<PairRequest>>
  readonly confirm: (
    requestId: string,
    input: PairConfirm,
  ) => Answer<PairRequest, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly deny: (requestId: string) => Answer<PairRequest, PairingNotFound | PairingNotOpen>
  /** Asks another node. Where the fingerprint was given and is right, the pairing goes on by itself once the other side confirmed. */
  readonly ask: (nodeId: NodeId, ask: PairAsk & { readonly address: string }) => Answer<
    OutgoingPairing,
    PairingMismatch | PairingNotOpen | PeerUnreachable | PeerRefused
  >
  readonly outgoing: () => Answer<ReadonlyArray<OutgoingPairing>>
  /** Our administrator has compared the code. */
  readonly confirmOwn: (
    requestId: string,
    input: PairConfirm,
  ) => Answer<OutgoingPairing, PairingNotFound | PairingNotOpen | PairingMismatch>
  readonly withdraw: (requestId: string) => Answer<void, PairingNotFound>
  readonly refresh: (who: PeerPrincipal, told: PeerRefresh) => Answer<PeerTokenAnswer, NodeNotFound>
  readonly greet: (who: PeerPrincipal) => Answer<PeerGreeting, NodeNotFound>
  readonly enforce: (
    peerNodeId: NodeId,
    input: { readonly enabled: boolean; readonly roles?: ReadonlyArray<string> },
  ) => Answer<MediaReadEnforcement, NodeNotFound | RoleNotFound>
  /** Where a peer is tried before the address that it tells of itself; `InvalidInput` for one that must not be dialled. */
  readonly setAddresses: (nodeId: NodeId, addresses: ReadonlyArray<string>) => Answer<void, NodeNotFound | InvalidInput>
  /** Ends the pairing here, at once, and tells the other side if it can be reached. */
  readonly unpair: (nodeId: NodeId) => Answer<void, NodeNotFound>
  /** The other side has ended it. */
  readonly left: (who: PeerPrincipal) => Answer<void, NodeNotFound>
}>()("nightjar/actors/Pairings") {}
