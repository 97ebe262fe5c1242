/**
 * Health of the node, for load balancers, service managers and people (draft-inadarei-api-health-check). It is also the
 * worked example of a group: see `http/README.md`.
 */
import { DetailedFailing, DetailedServing, Failing, Serving } from "#schema/health.ts"
import type { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"

const contentType = "application/health+json"
const healthJson = <S extends Schema.Top>(schema: S) => schema.pipe(HttpApiSchema.asJson({ contentType }))
/** 503 with the same body, so that a probe sees it without reading JSON. */
const unavailable = <S extends Schema.Top>(schema: S) => healthJson(schema).annotate({ httpApiStatus: 503 })

export class HealthGroup extends HttpApiGroup.make("health")
  .add(
    HttpApiEndpoint.get("health", "/health", {
      success: [healthJson(Serving), unavailable(Failing)],
    }).annotateMerge(access("public")).annotateMerge(OpenApi.annotations({
      summary: "Health check",
      description: "200 when the node serves, 503 when it cannot. Needs no token and tells no details.",
    })),
    HttpApiEndpoint.get("healthDetailed", "/health/detailed", {
      success: [healthJson(DetailedServing), unavailable(DetailedFailing)],
    }).annotateMerge(access("system:read")).annotateMerge(OpenApi.annotations({
      summary: "Detailed health check",
      description: "One entry a component: database, recorder, storage folders, capture.",
    })),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Health", description: "Is the node well?" }))
{}
