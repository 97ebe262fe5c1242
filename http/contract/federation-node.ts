/** The federation service: the list of nodes, their order, and pairing as an administrator begins and ends it. */
import {
  OutgoingPairing,
  PairAsk,
  PairByUuid,
  PairConfirm,
  PairingMismatch,
  PairingNotFound,
  PairingNotOpen,
  PeerAddresses,
} from "#schema/auth-federation.ts"
import { NodeId, Page, Uuid7 } from "#schema/common.ts"
import { FederationNode, NodeNotFound, PeerRefused, PeerUnreachable } from "#schema/federation.ts"
import { InvalidCursor, InvalidInput } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { accepted, extension, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/federation"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const node = { nodeId: NodeId }
const request = { requestId: Uuid7 }
const asking = problems(InvalidInput, PairingMismatch, PairingNotOpen, PeerUnreachable, PeerRefused)
const how =
  "202 with the comparison code. With the right `fingerprint` the pairing goes on by itself once the other side has confirmed; " +
  "otherwise confirm the code at `pairings/{requestId}/confirm` as well."

const nodes = [
  HttpApiEndpoint.get("nodes", `${base}/nodes`, {
    query: pageQuery,
    success: Page(FederationNode),
    error: problems(InvalidCursor),
  }).annotateMerge(access("federation:read")).annotateMerge(
    doc("List federation nodes", "This one first, then members, peers and those seen on the network, in their order."),
  ),
  HttpApiEndpoint.get("node", `${base}/nodes/:nodeId`, {
    params: node,
    success: FederationNode,
    error: problems(NodeNotFound),
  }).annotateMerge(access("federation:read")).annotateMerge(
    doc("Get one federation node", "As it stands in the list."),
  ),
  HttpApiEndpoint.patch("orderNodes", `${base}/nodes/order`, {
    payload: Schema.Struct({ nodeIds: Schema.Array(NodeId).check(Schema.isMaxLength(500)) }),
    success: Page(FederationNode),
    error: problems(InvalidInput),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc("Bulk update of the node display order", "The named ones in this order, the others after them by name."),
  ),
  HttpApiEndpoint.put("setNodeAddresses", `${base}/nodes/:nodeId/addresses`, {
    params: node,
    payload: PeerAddresses,
    success: FederationNode,
    error: problems(NodeNotFound, InvalidInput),
  }).annotateMerge(access("federation:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Set where a peer is reached",
      "Tried in this order before the address that the peer tells of itself; whoever answers has to show the key that is known of it. " +
        "Clear text only to loopback and to networks of `NIGHTJAR_PLAIN_HTTP`. An empty list: only where it says it is.",
    ),
  ),
] as const

const pairing = [
  HttpApiEndpoint.post("pairByUuid", `${base}/nodes/pair-by-uuid`, {
    payload: PairByUuid,
    success: accepted(OutgoingPairing),
    error: asking,
  }).annotateMerge(access("federation:write")).annotateMerge(doc("Request pairing by node_uuid", how)),
  HttpApiEndpoint.post("pairNode", `${base}/nodes/:nodeId/pair`, {
    params: node,
    payload: PairAsk,
    success: accepted(OutgoingPairing),
    error: asking,
  }).annotateMerge(access("federation:write")).annotateMerge(doc("Request pairing with a node", how)),
  HttpApiEndpoint.delete("unpairNode", `${base}/nodes/:nodeId/pair`, {
    params: node,
    success: HttpApiSchema.NoContent,
    error: problems(NodeNotFound),
  }).annotateMerge(access("federation:write")).annotateMerge(
    doc("Unpair a node", "Ends here at once, with everything that is open in its name; the other side is told."),
  ),
  HttpApiEndpoint.get("pairings", `${base}/pairings`, {
    query: pageQuery,
    success: Page(OutgoingPairing),
    error: problems(InvalidCursor),
  }).annotateMerge(access("federation:read")).annotateMerge(extension).annotateMerge(
    doc("List pairing requests to other nodes", "Newest first, as far as this node remembers since its start."),
  ),
  HttpApiEndpoint.post("confirmPairingHere", `${base}/pairings/:requestId/confirm`, {
    params: request,
    payload: PairConfirm,
    success: OutgoingPairing,
    error: problems(PairingNotFound, PairingNotOpen, PairingMismatch),
  }).annotateMerge(access("federation:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Confirm the comparison code on the asking side",
      "Both sides show the same six digits, or somebody stands between them.",
    ),
  ),
  HttpApiEndpoint.delete("withdrawPairing", `${base}/pairings/:requestId`, {
    params: request,
    success: HttpApiSchema.NoContent,
    error: problems(PairingNotFound),
  }).annotateMerge(access("federation:write")).annotateMerge(extension).annotateMerge(
    doc("Withdraw a pairing request", "It is not claimed any more, whatever the other side decides."),
  ),
] as const

export class FederationNodeGroup extends HttpApiGroup.make("federationNode")
  .add(...nodes)
  .add(...pairing)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Nodes", description: "Other nodes, and pairing with them." }))
{}
