/**
 * Words of trust between nodes: how two of them are paired, and how one proves to another who it is. Design: failover, "Pairing".
 *
 * Invariants
 * 1. What a node shows is bound to its key (DPoP, RFC 9449): whoever took it away cannot use it.
 * 2. Neither side pairs before its administrator has, by the comparison code or by the other's fingerprint.
 */
import { Schema } from "effect"
import { Instant, NodeId, Uuid7 } from "./common.ts"
import { Fingerprint } from "./federation.ts"

/** 32 bytes in base64url: a key, a nonce, a hash. */
const Bytes32 = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{42}[AEIMQUYcgkosw048]$/))
/** Ed25519 over a transcript: 64 bytes in base64url. */
const Signature = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_-]{85}[AQgw]$/))
const PeerToken = Schema.String.check(Schema.isPattern(/^[A-Za-z0-9_.-]{32,2048}$/))

/** `https://host:port`, or `http` where a node serves no TLS itself; no path. */
export const NodeAddress = Schema.String.check(
  Schema.isMaxLength(300),
  Schema.makeFilter((text: string) =>
    /^https?:\/\//.test(text) && URL.parse(text)?.origin === text || "Expected https://host:port without a path"
  ),
)

/** Six digits that people compare on both sides. */
export const ComparisonCode = Schema.String.check(Schema.isPattern(/^\d{6}$/))

/** Who a node says it is, before anything is proven. */
export const NodeIntroduction = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(128)),
  version: Schema.String.check(Schema.isMaxLength(64)),
  /** Where it is reached. */
  address: NodeAddress,
  /** SHA-256 of its TLS key (SubjectPublicKeyInfo, RFC 7469); null where it serves no TLS itself. */
  tlsPin: Schema.NullOr(Bytes32),
  /** Ed25519. */
  signingKey: Bytes32,
  /** X25519. */
  transferKey: Bytes32,
})
export type NodeIntroduction = typeof NodeIntroduction.Type

/** `POST pair/request`: who asks, and the hash of a nonce that it reveals once it knows the other's. */
export const PairOffer = Schema.Struct({ ...NodeIntroduction.fields, target: NodeId, commitment: Bytes32 })
export type PairOffer = typeof PairOffer.Type

/** Of a request, as the asking node sees it: RFC 8628 in spirit. */
export const PairState = Schema.Literals(["pending", "confirmed", "claimed", "denied", "expired"])
export type PairState = typeof PairState.Type

export const PairAnswer = Schema.Struct({
  ...NodeIntroduction.fields,
  requestId: Uuid7,
  nonce: Bytes32,
  state: PairState,
  expiresAt: Instant,
  /** Ask for the state no more often than this, seconds. */
  interval: Schema.Int,
}).annotate({ identifier: "PairAnswer" })
export type PairAnswer = typeof PairAnswer.Type

export const PairReveal = Schema.Struct({ nonce: Bytes32 })
/** The asked node's signature over what both have said: its key is its own, and so is the TLS key. */
export const PairProof = Schema.Struct({ signature: Signature }).annotate({ identifier: "PairProof" })

export const PairStatus = Schema.Struct({
  requestId: Uuid7,
  state: PairState,
  expiresAt: Instant,
  interval: Schema.Int,
}).annotate({ identifier: "PairStatus" })
export type PairStatus = typeof PairStatus.Type

/** Signed like {@link PairProof}, for this step; `token` is for the way back. */
export const PairClaim = Schema.Struct({ signature: Signature, token: PeerToken, expiresIn: Schema.Int })
export type PairClaim = typeof PairClaim.Type

/** A token for the node that asked, and the seconds it lasts. */
export const PeerTokenAnswer = Schema.Struct({
  token: PeerToken,
  tokenType: Schema.Literal("DPoP"),
  expiresIn: Schema.Int,
}).annotate({ identifier: "PeerToken" })
export type PeerTokenAnswer = typeof PeerTokenAnswer.Type

/** What a peer tells of itself when it renews its token: left out is unchanged. */
export const PeerRefresh = Schema.Struct({
  name: Schema.optionalKey(NodeIntroduction.fields.name),
  address: Schema.optionalKey(NodeAddress),
  tlsPin: Schema.optionalKey(Schema.NullOr(Bytes32)),
})
export type PeerRefresh = typeof PeerRefresh.Type

/** What a node tells a peer that greets it. */
export const PeerGreeting = Schema.Struct({
  nodeId: NodeId,
  name: Schema.String,
  version: Schema.String,
  time: Instant,
  /** The greeted node's administrator lets the greeting one guard it. */
  guardianGranted: Schema.Boolean,
  mediaReadEnforcement: Schema.Boolean,
}).annotate({ identifier: "PeerGreeting" })
export type PeerGreeting = typeof PeerGreeting.Type

/** A request of another node, in the list of those that came in. */
export const PairRequest = Schema.Struct({
  id: Uuid7,
  nodeId: NodeId,
  name: Schema.String,
  address: Schema.String,
  /** Where it came from. */
  from: Schema.String,
  fingerprint: Fingerprint,
  /** Null until the other side has revealed its nonce. */
  comparisonCode: Schema.NullOr(ComparisonCode),
  state: PairState,
  createdAt: Instant,
  expiresAt: Instant,
}).annotate({ identifier: "PairRequest" })
export type PairRequest = typeof PairRequest.Type

export const PairConfirm = Schema.Struct({
  /** As the other side shows it; refused where it differs. */
  comparisonCode: Schema.optionalKey(ComparisonCode),
  /** The other node may guard this one: it gets its configuration with the passwords of cameras. */
  grantGuardian: Schema.optionalKey(Schema.Boolean),
})
export type PairConfirm = typeof PairConfirm.Type

/** Another node is asked for a pairing. */
export const PairAsk = Schema.Struct({
  /** Where it is; as it was seen on the network if left out. */
  address: Schema.optionalKey(NodeAddress),
  /** As the other node shows it: then nobody has to compare the code on this side. */
  fingerprint: Schema.optionalKey(Fingerprint),
  grantGuardian: Schema.optionalKey(Schema.Boolean),
})
export type PairAsk = typeof PairAsk.Type
export const PairByUuid = Schema.Struct({ nodeUuid: NodeId, ...PairAsk.fields })

/** Where a peer is tried besides the address that it tells of itself, in this order, before that one. */
export const PeerAddresses = Schema.Struct({ addresses: Schema.Array(NodeAddress).check(Schema.isMaxLength(4)) })

/** A request of ours to another node. */
export const OutgoingPairing = Schema.Struct({
  requestId: Uuid7,
  nodeId: NodeId,
  name: Schema.String,
  address: Schema.String,
  fingerprint: Fingerprint,
  comparisonCode: ComparisonCode,
  /** Of the other side, as last heard; `claimed` once the nodes are paired. */
  state: PairState,
  /** Our administrator has compared: by the fingerprint, or the code. */
  confirmed: Schema.Boolean,
  /** One line for a person where something is in the way; empty otherwise. */
  reason: Schema.String,
  createdAt: Instant,
  expiresAt: Instant,
}).annotate({ identifier: "OutgoingPairing" })
export type OutgoingPairing = typeof OutgoingPairing.Type

export const MediaReadEnforcementInput = Schema.Struct({
  /** Its reads of media obey the resource groups of its roles. */
  enabled: Schema.Boolean,
  /** Names of the roles it holds here; as they are if left out. */
  roles: Schema.optionalKey(Schema.Array(Schema.String.check(Schema.isMaxLength(64))).check(Schema.isMaxLength(16))),
})
export const MediaReadEnforcement = Schema.Struct({
  peerNodeId: NodeId,
  enabled: Schema.Boolean,
  roles: Schema.Array(Schema.String),
}).annotate({ identifier: "MediaReadEnforcement" })
export type MediaReadEnforcement = typeof MediaReadEnforcement.Type

/** What a peer holds here unless its administrator says otherwise. */
export const defaultPeerRoles: ReadonlyArray<string> = ["viewer"]

/** What the token of a peer is sealed for, by the id of the pairing. */
export const peerTokenSecret = (id: string): string => `auth/peer-token/${id}`

/**
 * The proof lacks a nonce of this server, or has one that is too old: the caller proves again with that of the header `DPoP-Nonce`
 * (RFC 9449, section 8). Nonces replace the comparison of clocks.
 */
export class UseDpopNonce extends Schema.TaggedError<UseDpopNonce>()("UseDpopNonce", {}, { httpApiStatus: 401 }) {
  override get message(): string {
    return "The proof needs the nonce of the header DPoP-Nonce"
  }
}

export class PairingNotFound extends Schema.TaggedError<PairingNotFound>()("PairingNotFound", {}, {
  httpApiStatus: 404,
}) {
  override get message(): string {
    return "There is no such pairing request, or it was long ago"
  }
}

/** The request is not in a state in which this can be done. */
export class PairingNotOpen extends Schema.TaggedError<PairingNotOpen>()("PairingNotOpen", {
  state: PairState,
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.detail
  }
}

/** What was shown or said does not fit: another code, another fingerprint, a wrong signature. Somebody may stand in between. */
export class PairingMismatch extends Schema.TaggedError<PairingMismatch>()("PairingMismatch", {
  detail: Schema.String,
}, { httpApiStatus: 409 }) {
  override get message(): string {
    return this.detail
  }
}

/** Asked for the state before the interval was over (`slow_down` of RFC 8628, section 3.5), or too many requests at once. */
export class PairingSlowDown extends Schema.TaggedError<PairingSlowDown>()("PairingSlowDown", {
  retryAfterSeconds: Schema.Int,
}, { httpApiStatus: 429 }) {
  override get message(): string {
    return `Slow down; try again in ${this.retryAfterSeconds} s`
  }
}
