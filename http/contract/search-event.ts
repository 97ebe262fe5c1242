/** The search service: what kinds of events there are. */
import { Page } from "#schema/common.ts"
import { EventType, Severity } from "#schema/event.ts"
import { Permission } from "#schema/permission.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"

const EventTypeDefinition = Schema.Struct({
  type: EventType,
  title: Schema.String,
  description: Schema.String,
  severity: Severity,
  permission: Permission,
  /** Also a notification. */
  notify: Schema.Boolean,
  /** JSON Schema (draft 2020-12) of `data`. */
  dataSchema: Schema.Json,
}).annotate({ identifier: "EventTypeDefinition" })

export class SearchEventGroup extends HttpApiGroup.make("searchEvent")
  .add(
    HttpApiEndpoint.get("eventTypes", "/search/api/v1/events/types", { success: Page(EventTypeDefinition) })
      .annotateMerge(access("recording:search", { on: "service" })).annotateMerge(OpenApi.annotations({
        summary: "List event types",
        description: "With the schema of their `data`. Always one page.",
      })),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Search: events", description: "What can happen." }))
{}
