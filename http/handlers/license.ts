/** Handlers of the licence group. */
import { License } from "#actors/protocol/license.ts"
import { Effect } from "effect"
import { HttpApiBuilder, HttpApiSchema } from "effect/http-api"
import { nightjar, pageRequest } from "../contract/conventions.ts"
import { LicenseGroup } from "../contract/license.ts"

export const LicenseHandlers = HttpApiBuilder.group(
  nightjar.add(LicenseGroup),
  "license",
  Effect.fnUntraced(function*(handlers) {
    const license = yield* License
    return handlers
      .handle("license", license.view)
      .handle("status", license.status)
      .handle("hardwareId", license.hardware)
      .handle("requestFile", () =>
        Effect.map(license.request(), (body) =>
          HttpApiSchema.withHeaders({
            body,
            headers: { "content-disposition": `attachment; filename="nightjar-${body.nodeId}.license-request.json"` },
          })))
      .handle("sessions", ({ query }) => license.sessions(pageRequest(query)))
      .handle("activate", ({ payload }) => license.activate(payload))
      .handle("deactivate", license.deactivate)
      .handle("registerKey", ({ payload }) => license.registerKey(payload.key))
      .handle("releaseKey", license.releaseKey)
      .handle("verifyNow", license.verifyNow)
      .handle("cloudVerify", license.cloudVerify)
  }),
)
