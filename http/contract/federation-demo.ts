/** The nodes of `npm run demo -- --nodes 3`, killed and brought back from the dashboard. Elsewhere there are none. */
import { NodeId } from "#schema/common.ts"
import { DemoNode, DemoNodeNotFound, DemoNodeState } from "#schema/federation-demo.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/federation/api/v1/demo/nodes"
const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const deed = {
  params: { nodeId: NodeId },
  success: HttpApiSchema.NoContent,
  error: problems(DemoNodeNotFound, DemoNodeState),
}

const endpoints = [
  HttpApiEndpoint.get("demoNodes", base, { success: Schema.Struct({ items: Schema.Array(DemoNode) }) })
    .annotateMerge(access("federation:read")).annotateMerge(extension).annotateMerge(
      doc("List the nodes of a demo", "Empty on every node that no demo has started."),
    ),
  HttpApiEndpoint.post("killDemoNode", `${base}/:nodeId/kill`, deed).annotateMerge(access("federation:write"))
    .annotateMerge(extension).annotateMerge(
      doc("Kill a node of a demo", "SIGKILL to its process, a moment after the answer."),
    ),
  HttpApiEndpoint.post("startDemoNode", `${base}/:nodeId/start`, deed).annotateMerge(access("federation:write"))
    .annotateMerge(extension).annotateMerge(doc("Start a killed node of a demo again", "On the data it had.")),
] as const

export class FederationDemoGroup extends HttpApiGroup.make("federationDemo")
  .add(...endpoints)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Demo", description: "The nodes of a demo of several." }))
{}
