/** The licence service: what the vendor granted, whether it holds, and who is signed in. */
import { ControlElsewhere } from "#schema/federation-failover.ts"
import {
  HardwareView,
  LicenseAbsent,
  LicenseActivation,
  LicenseKey,
  LicenseKeyPresent,
  LicenseRefused,
  LicenseRejected,
  LicenseRelease,
  LicenseRequest,
  LicenseServerFaulty,
  LicenseServerUnreachable,
  LicenseSession,
  LicenseStatus,
  LicenseView,
} from "#schema/license.ts"
import { InvalidCursor, NotSupported } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { idempotencyKey, pageQuery } from "./conventions.ts"
import { problems } from "./errors.ts"

const base = "/license/api/v1"

const doc = (summary: string, description?: string) =>
  OpenApi.annotations(description === undefined ? { summary } : { summary, description })

/** What a call of the vendor's server may end in; `NotSupported` where none is configured. */
const server = [NotSupported, LicenseRefused, LicenseServerUnreachable, LicenseServerFaulty] as const

const reading = [
  HttpApiEndpoint.get("license", `${base}/license`, { success: LicenseView })
    .annotateMerge(access("license:read")).annotateMerge(
      doc(
        "Get license information",
        "Without a licence nothing is restricted. A key shows its last four characters only.",
      ),
    ),
  HttpApiEndpoint.get("status", `${base}/license/status`, { success: LicenseStatus })
    .annotateMerge(access("license:read")).annotateMerge(
      doc(
        "Get license status",
        "`restricted`, `expired` and `invalid` refuse new cameras, channels, recordings and users. What runs goes on in every state.",
      ),
    ),
  HttpApiEndpoint.get("hardwareId", `${base}/license/hardware-id`, { success: HardwareView })
    .annotateMerge(access("license:read")).annotateMerge(
      doc("Get the hardware id", "Of the answering node, hashed; each source by name, never its value."),
    ),
  HttpApiEndpoint.get("requestFile", `${base}/license/request-file`, {
    success: HttpApiSchema.WithHeaders(LicenseRequest, { "content-disposition": Schema.String }),
  }).annotateMerge(access("license:read")).annotateMerge(
    doc(
      "Download the license request file",
      "JSON, signed by this node's key (Ed25519 over the canonical JSON of the rest).",
    ),
  ),
  HttpApiEndpoint.get("sessions", `${base}/sessions`, {
    query: pageQuery,
    success: Schema.Struct({
      items: Schema.Array(LicenseSession),
      nextCursor: Schema.NullOr(Schema.String),
      /** Everybody who is signed in. */
      inUse: Schema.Int,
      /** `null` for no limit. */
      limit: Schema.NullOr(Schema.Int),
    }),
    error: problems(InvalidCursor),
  }).annotateMerge(access("license:read")).annotateMerge(
    doc("List license sessions", "Who is signed in, from where, since when, with the last heartbeat; newest first."),
  ),
] as const

const changing = [
  HttpApiEndpoint.post("activate", `${base}/license/activate`, {
    headers: idempotencyKey,
    payload: LicenseActivation,
    success: LicenseView,
    error: problems(LicenseRejected, ...server),
  }).annotateMerge(access("license:write")).annotateMerge(
    doc(
      "Activate the license",
      "`license`: the text that the vendor gave for the request file. `activationCode`: the licence server exchanges it for one. " +
        "Replaces the licence that is installed.",
    ),
  ),
  HttpApiEndpoint.delete("deactivate", `${base}/license`, {
    success: LicenseRelease,
    error: problems(LicenseAbsent, ControlElsewhere),
  })
    .annotateMerge(access("license:write")).annotateMerge(
      doc(
        "Deactivate the license",
        "Answers a signed receipt that the vendor takes as proof. The same licence cannot be activated here again.",
      ),
    ),
  HttpApiEndpoint.post("registerKey", `${base}/license/key`, {
    headers: idempotencyKey,
    payload: LicenseKey,
    success: LicenseView,
    error: problems(LicenseKeyPresent, LicenseRejected, ...server),
  }).annotateMerge(access("license:write")).annotateMerge(
    doc(
      "Register a license key (remote verification mode)",
      "The licence server gives a lease for the key and confirms it from then on. Where it wants to approve first, the key waits " +
        "(`pendingActivation`) and is asked for again.",
    ),
  ),
  HttpApiEndpoint.delete("releaseKey", `${base}/license/key`, {
    success: LicenseRelease,
    error: problems(LicenseAbsent, ControlElsewhere, ...server),
  }).annotateMerge(access("license:write")).annotateMerge(
    doc(
      "Release the license key (remote verification mode)",
      "Tells the licence server first, so that the key is free for another machine; nothing changes here while it cannot be reached.",
    ),
  ),
  HttpApiEndpoint.post("verifyNow", `${base}/license/verify-now`, {
    success: LicenseStatus,
    error: problems(LicenseAbsent),
  })
    .annotateMerge(access("license:write")).annotateMerge(
      doc(
        "Manually re-verify the license",
        "Signature, hardware and time, with the vendor keys and the hardware read again. Offline.",
      ),
    ),
  HttpApiEndpoint.post("cloudVerify", `${base}/license/cloud/verify`, {
    success: LicenseStatus,
    error: problems(LicenseAbsent, LicenseRejected, ...server),
  }).annotateMerge(access("license:write")).annotateMerge(
    doc("Immediate status check of a cloud license", "Asks the licence server now instead of at the next due time."),
  ),
] as const

export class LicenseGroup extends HttpApiGroup.make("license")
  .add(...reading, ...changing)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({
    title: "Licence",
    description: "What a licence grants and whether it holds. A recording that runs goes on whatever it says.",
  }))
{}
