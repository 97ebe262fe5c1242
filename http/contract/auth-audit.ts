/**
 * The audit log: list, export, verification, statistics, settings; and entries that clients claim.
 *
 * An entry's `hash` is the SHA-256 of the canonical JSON (RFC 8785) of the entry as it is answered, without `hash`: an export can
 * be checked by anybody with any tool.
 */
import {
  AuditClaim,
  AuditEntry,
  AuditEntryNotFound,
  AuditOrigin,
  AuditOutcome,
  AuditSettings,
  AuditSettingsUpdate,
  AuditStats,
  AuditVerification,
} from "#schema/auth-audit.ts"
import { Instant, Page, Uuid7 } from "#schema/common.ts"
import { InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { access, AccessControl, Conventions } from "./access.ts"
import { audited, created, ifMatch, pageQuery, streaming, versioned } from "./conventions.ts"
import { problems } from "./errors.ts"

const doc = (summary: string, description: string) => OpenApi.annotations({ summary, description })
const short = (longest: number) => Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(longest))

/** Every member narrows; all must hold. */
const filterQuery = {
  start: Schema.optionalKey(Instant),
  /** Exclusive. */
  end: Schema.optionalKey(Instant),
  /** Id or name of the actor, whole. */
  user: Schema.optionalKey(short(128)),
  /** Beginning of the action: `camera.` for all of a group. */
  action: Schema.optionalKey(short(128)),
  outcome: Schema.optionalKey(AuditOutcome),
  origin: Schema.optionalKey(AuditOrigin),
  /** `<kind>` or `<kind>:<id>`. */
  resource: Schema.optionalKey(short(320)),
  /** Part of the action, name, address, resource or detail, without regard to case. */
  text: Schema.optionalKey(short(128)),
} as const

const sequence = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))

const reading = [
  HttpApiEndpoint.get("list", "/auth/api/v1/audit", {
    query: { ...pageQuery, ...filterQuery },
    success: Page(AuditEntry),
    error: problems(InvalidCursor),
  }).annotateMerge(access("audit:read")).annotateMerge(doc("List audit log entries", "Newest first.")),
  HttpApiEndpoint.get("get", "/auth/api/v1/audit/:id", {
    params: { id: Uuid7 },
    success: AuditEntry,
    error: problems(AuditEntryNotFound),
  }).annotateMerge(access("audit:read")).annotateMerge(
    doc("Get one audit log entry", "By the id that it had before it had its place in the chain."),
  ),
  HttpApiEndpoint.get("stats", "/auth/api/v1/audit/stats", {
    query: {
      start: Schema.optionalKey(Instant),
      end: Schema.optionalKey(Instant),
      /** IANA name; UTC if left out. */
      timeZone: Schema.optionalKey(short(64)),
    },
    success: AuditStats,
    error: problems(InvalidInput),
  }).annotateMerge(access("audit:read")).annotateMerge(
    doc(
      "Daily audit statistics",
      "Every day that the range touches, of the calendar of the time zone; the last 30 days if left out, a year at most.",
    ),
  ),
  HttpApiEndpoint.get("verify", "/auth/api/v1/audit/verify", {
    query: { from: Schema.optionalKey(sequence), to: Schema.optionalKey(sequence) },
    success: AuditVerification,
  }).annotateMerge(access("audit:read")).annotateMerge(
    doc(
      "Verify audit log integrity",
      "Walks the hash chain, and compares it with the heads that the answering node signed outside of the database. Tells the " +
        "first bad entry and why. A log that takes longer than 15 s is answered in parts: go on with `from` = `next`.",
    ),
  ),
] as const

const exporting = [
  HttpApiEndpoint.get("exportCsv", "/auth/api/v1/audit/export/csv", {
    query: filterQuery,
    success: Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/csv" })),
  }).annotateMerge(access("audit:read")).annotateMerge(streaming).annotateMerge(audited("export")).annotateMerge(
    doc(
      "Export the audit log as CSV",
      "RFC 4180, oldest first, up to the newest entry of this moment. What a spreadsheet would take for a formula begins with an " +
        "apostrophe.",
    ),
  ),
  HttpApiEndpoint.get("exportJson", "/auth/api/v1/audit/export/json", {
    query: filterQuery,
    success: Schema.Array(AuditEntry),
  }).annotateMerge(access("audit:read")).annotateMerge(streaming).annotateMerge(audited("export")).annotateMerge(
    doc("Export the audit log as JSON", "An array, oldest first, up to the newest entry of this moment."),
  ),
] as const

const writing = [
  HttpApiEndpoint.post("claim", "/auth/api/v1/audit", {
    payload: AuditClaim,
    success: created(AuditEntry),
    // The claim is the entry.
  }).annotateMerge(access("signedIn")).annotateMerge(audited("none")).annotateMerge(
    doc(
      "Create an audit log entry",
      "What a client says happened. It is marked as a claim (`origin`), its action begins with `claim.`, and its actor is always " +
        "the caller.",
    ),
  ),
  HttpApiEndpoint.get("settings", "/auth/api/v1/audit/settings", { success: versioned(AuditSettings) })
    .annotateMerge(access("audit:read")).annotateMerge(
      doc("Get audit settings", "How long entries are kept, and what is recorded beside changes and exports."),
    ),
  HttpApiEndpoint.put("updateSettings", "/auth/api/v1/audit/settings", {
    headers: ifMatch,
    payload: AuditSettingsUpdate,
    success: versioned(AuditSettings),
    error: problems(VersionConflict),
  }).annotateMerge(access("audit:write")).annotateMerge(
    doc("Update audit settings", "Changes of state and exports are recorded whatever the settings say."),
  ),
] as const

export class AuditGroup extends HttpApiGroup.make("audit")
  .add(...reading)
  .add(...exporting)
  .add(...writing)
  .middleware(Conventions)
  .middleware(AccessControl)
  .annotateMerge(OpenApi.annotations({ title: "Audit", description: "Who did what, from where, and what came of it." }))
{}
