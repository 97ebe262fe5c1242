/** What the HTTP server tells of itself beside `/openapi.json` and `/docs`, which the router serves directly. */
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { extension } from "./conventions.ts"

/** Text exposition format, version 0.0.4. */
const exposition = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/plain; version=0.0.4; charset=utf-8" }))

export class HttpGroup extends HttpApiGroup.make("http")
  .add(
    HttpApiEndpoint.get("metrics", "/metrics", { success: exposition })
      .annotateMerge(access("system:metrics", { orLoopback: true }))
      .annotateMerge(extension)
      .annotateMerge(OpenApi.annotations({
        summary: "Metrics for Prometheus",
        description: "Needs `system:metrics`, or comes straight from this machine (loopback, no forwarding headers).",
      })),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "HTTP", description: "What the server tells of itself." }))
{}
