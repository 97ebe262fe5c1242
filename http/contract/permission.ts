/** The permission service: what can be allowed, and whether the caller may. */
import { Page } from "#schema/common.ts"
import { Decision, Permission } from "#schema/permission.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"

export const PermissionDefinition = Schema.Struct({
  permission: Permission,
  resource: Schema.String,
  action: Schema.String,
  description: Schema.String,
  /** Asked for from a listed management address only, where such addresses are listed. */
  administrative: Schema.Boolean,
  /** What resource groups narrow it to; null: it is never narrowed. */
  scope: Schema.NullOr(Schema.Literals(["camera", "layout", "file"])),
}).annotate({ identifier: "PermissionDefinition" })

export class PermissionGroup extends HttpApiGroup.make("permission")
  .add(
    HttpApiEndpoint.get("list", "/permission/api/v1/permissions", { success: Page(PermissionDefinition) })
      .annotateMerge(access("permission:read"))
      .annotateMerge(
        OpenApi.annotations({ summary: "List all permission definitions", description: "Always one page." }),
      ),
    HttpApiEndpoint.post("check", "/permission/api/v1/permissions/check", {
      payload: Schema.Struct({ permission: Permission }),
      success: Decision,
    }).annotateMerge(access("signedIn")).annotateMerge(OpenApi.annotations({
      summary: "Check a permission",
      description: "Whether the caller holds it, why, and by which roles.",
    })),
  )
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Permission", description: "What can be allowed, and to whom." }))
{}
