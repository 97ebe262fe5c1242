/** The auth service: pairing of nodes, and what a paired node may. Design: failover, "Pairing". */
import {
  MediaReadEnforcement,
  MediaReadEnforcementInput,
  PairAnswer,
  PairClaim,
  PairConfirm,
  PairingMismatch,
  PairingNotFound,
  PairingNotOpen,
  PairingSlowDown,
  PairOffer,
  PairProof,
  PairRequest,
  PairReveal,
  PairStatus,
  PeerGreeting,
  PeerRefresh,
  PeerTokenAnswer,
} from "#schema/auth-federation.ts"
import { RoleNotFound } from "#schema/auth-users.ts"
import { NodeId, Page, Uuid7 } from "#schema/common.ts"
import { NodeNotFound } from "#schema/federation.ts"
import { InvalidCursor } from "#schema/problem.ts"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, extension, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/auth/api/v1/federation"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const requestId = { requestId: Uuid7 }
const id = { id: Uuid7 }
const peer = { peerNodeId: NodeId }

/** Asked by a node that is not paired yet. */
const asking = [
  HttpApiEndpoint.post("requestPairing", `${base}/pair/request`, {
    payload: PairOffer,
    success: created(PairAnswer),
    error: problems(PairingMismatch, PairingSlowDown),
  }).annotateMerge(access("public")).annotateMerge(
    doc(
      "Create a pairing request",
      "Asked by another node, with its identity and the hash of a nonce (`commitment`). Few are open at a time, and each ends after " +
        "ten minutes.",
    ),
  ),
  HttpApiEndpoint.get("pairingStatus", `${base}/pair/request/:requestId`, {
    params: requestId,
    success: PairStatus,
    error: problems(PairingNotFound, PairingSlowDown),
  }).annotateMerge(access("public")).annotateMerge(
    doc(
      "Get pairing request status",
      "Not more often than every `interval` seconds: 429 `pairing_slow_down` otherwise.",
    ),
  ),
  HttpApiEndpoint.post("revealPairing", `${base}/pair/request/:requestId/reveal`, {
    params: requestId,
    payload: PairReveal,
    success: PairProof,
    error: problems(PairingNotFound, PairingNotOpen, PairingMismatch),
  }).annotateMerge(access("public")).annotateMerge(extension).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Reveal the nonce of a pairing request",
      "The nonce that was committed to. From then on both sides can show the comparison code; the answer is this node's signature over " +
        "everything that was said.",
    ),
  ),
  HttpApiEndpoint.post("claimPairing", `${base}/pair/request/:requestId/claim`, {
    params: requestId,
    payload: PairClaim,
    success: PeerTokenAnswer,
    error: problems(PairingNotFound, PairingNotOpen, PairingMismatch),
  }).annotateMerge(access("public")).annotateMerge(
    doc(
      "Claim the pairing request (issues the peer token)",
      "Once it was confirmed, with the asking node's signature over everything that was said as the proof of its key, and its own token " +
        "for the way back. The token is bound to that key (RFC 9449).",
    ),
  ),
] as const

/** Asked by a peer. */
const paired = [
  HttpApiEndpoint.post("refreshPeer", `${base}/refresh`, {
    payload: PeerRefresh,
    success: PeerTokenAnswer,
    error: problems(NodeNotFound),
  }).annotateMerge(access("peer", { expiredToo: true })).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Refresh a peer token",
      "By the bound key, also after the token has expired. The peer tells where it is reached now.",
    ),
  ),
  HttpApiEndpoint.get("greetPeer", `${base}/peer`, { success: PeerGreeting, error: problems(NodeNotFound) })
    .annotateMerge(access("peer")).annotateMerge(extension).annotateMerge(
      doc("Greet a peer", "Whether it is there, what time it is there, and what it allows the caller."),
    ),
  HttpApiEndpoint.delete("leavePeer", `${base}/peer`, {
    success: HttpApiSchema.NoContent,
    error: problems(NodeNotFound),
  }).annotateMerge(access("peer", { expiredToo: true })).annotateMerge(extension).annotateMerge(
    doc("End the pairing from the other side", "The caller has unpaired; this node forgets it too."),
  ),
] as const

const managing = [
  HttpApiEndpoint.get("pairingRequests", `${base}/requests`, {
    query: pageQuery,
    success: Page(PairRequest),
    error: problems(InvalidCursor),
  }).annotateMerge(access("federation:read")).annotateMerge(
    doc("List incoming pairing requests", "Newest first, those of the last hour."),
  ),
  HttpApiEndpoint.post("confirmPairing", `${base}/requests/:id/confirm`, {
    params: id,
    payload: PairConfirm,
    success: PairRequest,
    error: problems(PairingNotFound, PairingNotOpen, PairingMismatch),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc(
      "Approve a pairing request",
      "Compare the code with the one that the other node shows before. With `grantGuardian` the other node may guard this one, and gets " +
        "its configuration with the passwords of cameras for that.",
    ),
  ),
  HttpApiEndpoint.post("denyPairing", `${base}/requests/:id/deny`, {
    params: id,
    success: PairRequest,
    error: problems(PairingNotFound, PairingNotOpen),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc("Deny a pairing request", "It cannot be claimed any more; the other node is told when it asks."),
  ),
  HttpApiEndpoint.delete("revokePeer", `${base}/peers/:peerNodeId`, {
    params: peer,
    success: HttpApiSchema.NoContent,
    error: problems(NodeNotFound),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc("Revoke a peer", "Its token is refused from this moment, what is open in its name closes, and it is told."),
  ),
  HttpApiEndpoint.put("enforceMediaRead", `${base}/peers/:peerNodeId/media-read-enforcement`, {
    params: peer,
    payload: MediaReadEnforcementInput,
    success: MediaReadEnforcement,
    error: problems(NodeNotFound, RoleNotFound),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc(
      "Set media read enforcement for a federation peer",
      "While it is enabled (as it is at first) the peer reaches what the resource groups of its roles hold; otherwise everything that " +
        "those roles grant. `roles` are the roles of this node that the peer holds; at first `viewer`.",
    ),
  ),
] as const

export class AuthFederationGroup extends HttpApiGroup.make("authFederation")
  .add(...asking)
  .add(...paired)
  .add(...managing)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(
    OpenApi.annotations({ title: "Pairing", description: "Trust between nodes that have databases of their own." }),
  )
{}
