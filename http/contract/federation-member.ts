/** The nodes on one database: who belongs to the cluster. */
import { NodeId } from "#schema/common.ts"
import { ClusterMember, KeyNotKept, NotAMember, OtherNode, RemovesItself } from "#schema/federation-member.ts"
import { Fingerprint, NodeNotFound } from "#schema/federation.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/federation"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const params = { nodeId: NodeId }

const operations = [
  HttpApiEndpoint.get("clusterMembers", `${base}/members`, {
    success: Schema.Struct({ items: Schema.Array(ClusterMember), nextCursor: Schema.Null }),
  }).annotateMerge(access("system:read")).annotateMerge(extension).annotateMerge(
    doc(
      "List the members of the cluster",
      "Every node on this node's database, with those that wait to be admitted. At most 64, so there is one page.",
    ),
  ),
  HttpApiEndpoint.post("approveMember", `${base}/nodes/:nodeId/approve`, {
    params,
    payload: Schema.Struct({ fingerprint: Fingerprint }),
    success: ClusterMember,
    error: problems(NodeNotFound, OtherNode, NotAMember),
  }).annotateMerge(access("system:write")).annotateMerge(extension).annotateMerge(
    doc(
      "Admit a node to the cluster",
      "Gives it the cluster's key, so that it may run cameras of others and open their sealed secrets. The fingerprint is that of its signing " +
        "key, as it tells it itself: compare them, as the database alone proves nothing.",
    ),
  ),
  HttpApiEndpoint.delete("removeMember", `${base}/nodes/:nodeId/approve`, {
    params,
    success: ClusterMember,
    error: problems(NodeNotFound, RemovesItself, NotAMember, KeyNotKept),
  }).annotateMerge(access("system:write")).annotateMerge(extension).annotateMerge(
    doc(
      "End a node's admission to the cluster",
      "All others get a new key, and the secret that nodes joined with is worth nothing any more. The node keeps its own cameras. Change the " +
        "password of the database and of cameras it could read.",
    ),
  ),
] as const

export class ClusterMemberGroup extends HttpApiGroup.make("clusterMember")
  .add(...operations)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Cluster",
    description: "Nodes on one database, and who of them belongs to the cluster.",
  }))
{}
