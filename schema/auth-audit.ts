/**
 * Words of the audit log: who did what, from where, and what came of it; the chain that makes tampering show.
 *
 * Invariants
 * 1. No entry holds a secret: bodies are never recorded, only what a handler says about them.
 * 2. An entry says by `origin` whether the product saw it or a client claims it. The actor of a claim is whoever claimed it.
 * 3. `hash` is the SHA-256 of the canonical JSON (RFC 8785) of every other member but `mac`, `previousHash` among them.
 */
import { Schema } from "effect"
import { EpochMs, Instant, NodeId, Uuid7 } from "./common.ts"

/** `refused`: not allowed (401, 403, 429). `failure`: allowed, but it did not come about. */
export const AuditOutcome = Schema.Literals(["success", "failure", "refused"])
export type AuditOutcome = typeof AuditOutcome.Type

/** `server`: the product saw it happen. `claim`: a client says so. */
export const AuditOrigin = Schema.Literals(["server", "claim"])
export type AuditOrigin = typeof AuditOrigin.Type

/** Who did it. `system`: the product by itself; `anonymous`: nobody who was known. */
export const AuditActor = Schema.Struct({
  kind: Schema.Literals(["user", "peer", "system", "anonymous"]),
  id: Schema.NullOr(Schema.String),
  name: Schema.NullOr(Schema.String),
  sessionId: Schema.NullOr(Schema.String),
})
export type AuditActor = typeof AuditActor.Type

export const systemActor: AuditActor = { kind: "system", id: null, name: null, sessionId: null }
export const anonymousActor: AuditActor = { kind: "anonymous", id: null, name: null, sessionId: null }

/** What it was done to: `{ kind: "camera", id: "…" }`. */
export const AuditResource = Schema.Struct({ kind: Schema.String, id: Schema.String })
export type AuditResource = typeof AuditResource.Type

/** Something worth an entry, as whoever saw it tells it. Texts are cut to {@link auditLimits}. */
export const AuditFact = Schema.Struct({
  /** `<group>.<endpoint>` of the interface (`camera.add`), or `<slice>.<what>` for what no call caused. */
  action: Schema.String,
  outcome: AuditOutcome,
  actor: AuditActor,
  /** Address of the peer; empty where there is none. */
  address: Schema.String,
  userAgent: Schema.String,
  resource: Schema.NullOr(AuditResource),
  /** Status of the answer; `null` where there was none. */
  status: Schema.NullOr(Schema.Int),
  /** Finds the request in the log; `null` for what no call caused. */
  traceId: Schema.NullOr(Schema.String),
  origin: AuditOrigin,
  detail: Schema.Record(Schema.String, Schema.Json),
})
export type AuditFact = typeof AuditFact.Type

/** Longest texts of an entry, in UTF-16 units; more is cut. `detail` is judged as canonical JSON and dropped beyond. */
export const auditLimits = { action: 128, name: 128, address: 64, userAgent: 256, resource: 256, detail: 4096 } as const

/** A fact that waits for the chain: with an id that makes it unique, and when and where it was seen. */
export const QueuedFact = Schema.Struct({ ...AuditFact.fields, id: Uuid7, timeMs: EpochMs, nodeId: NodeId })
export type QueuedFact = typeof QueuedFact.Type

/** Hexadecimal, lower case: 32 bytes. */
const Hash = Schema.String.check(Schema.isPattern(/^[0-9a-f]{64}$/))

/** One entry of the log. */
export const AuditEntry = Schema.Struct({
  id: Uuid7,
  /** 1 for the first ever, without holes. */
  sequence: Schema.Int,
  time: Instant,
  nodeId: NodeId,
  ...AuditFact.fields,
  previousHash: Hash,
  hash: Hash,
}).annotate({ identifier: "AuditEntry" })
export type AuditEntry = typeof AuditEntry.Type

/** What a call is to the log. */
export const AuditClass = Schema.Literals([
  "change", // changes a state: always recorded, and refused where it cannot be
  "signIn", // begins a session: refused where it cannot be recorded
  "signOut", // ends one: recorded where it can be
  "view", // shows recorded media
  "export", // takes data out of the system
  "none", // changes nothing, whatever its method; recorded only where it is refused
])
export type AuditClass = typeof AuditClass.Type

const retentionDays = Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 3650 }))

/** What is recorded beside changes of state and exports, which always are. */
export const AuditSettingsUpdate = Schema.Struct({
  /** Entries are kept for so many days; the oldest go first. */
  retentionDays,
  recordSignIns: Schema.Boolean,
  recordViews: Schema.Boolean,
  recordRefusals: Schema.Boolean,
})
export type AuditSettingsUpdate = typeof AuditSettingsUpdate.Type

export const AuditSettings = Schema.Struct({ ...AuditSettingsUpdate.fields, version: Schema.Int }).annotate({
  identifier: "AuditSettings",
})
export type AuditSettings = typeof AuditSettings.Type

export const defaultAuditSettings: AuditSettingsUpdate = {
  retentionDays: 365,
  recordSignIns: true,
  recordViews: true,
  recordRefusals: true,
}

/** What a client claims. */
export const AuditClaim = Schema.Struct({
  /** Recorded as `claim.<action>`. */
  action: Schema.String.check(Schema.isPattern(/^[a-z][A-Za-z0-9]{0,31}(\.[a-z][A-Za-z0-9]{0,31}){0,3}$/)),
  outcome: Schema.optionalKey(AuditOutcome),
  resource: Schema.optionalKey(Schema.NullOr(Schema.Struct({
    kind: Schema.String.check(Schema.isPattern(/^[a-z][A-Za-z0-9]{0,31}$/)),
    id: Schema.String.check(Schema.isMinLength(1), Schema.isMaxLength(128)),
  }))),
  detail: Schema.optionalKey(
    Schema.Record(Schema.String.check(Schema.isMaxLength(64)), Schema.Json).check(
      Schema.makeFilter((detail: Readonly<Record<string, unknown>>) =>
        JSON.stringify(detail).length <= auditLimits.detail / 2 ||
        `Expected at most ${auditLimits.detail / 2} characters of JSON`
      ),
    ),
  ),
})
export type AuditClaim = typeof AuditClaim.Type

/** What a list, an export and the statistics narrow the log to; what is left out does not narrow. */
export interface AuditFilter {
  /** Epoch ms, inclusive. */
  readonly start?: EpochMs | undefined
  /** Epoch ms, exclusive. */
  readonly end?: EpochMs | undefined
  /** Id or name of the actor, whole. */
  readonly user?: string | undefined
  /** Beginning of the action: `camera.` for all of a group. */
  readonly action?: string | undefined
  readonly outcome?: AuditOutcome | undefined
  readonly origin?: AuditOrigin | undefined
  /** `<kind>` or `<kind>:<id>`. */
  readonly resource?: string | undefined
  /** Part of the action, the actor's name, the address, the resource's id or the detail, without regard to case. */
  readonly text?: string | undefined
}

/** Counts of one day, as the calendar of a time zone has it. */
export const AuditDay = Schema.Struct({
  /** `YYYY-MM-DD`. */
  date: Schema.String,
  total: Schema.Int,
  outcomes: Schema.Struct({ success: Schema.Int, failure: Schema.Int, refused: Schema.Int }),
  /** By the first word of the action: `auth`, `camera`, … */
  groups: Schema.Record(Schema.String, Schema.Int),
})
export type AuditDay = typeof AuditDay.Type

export const AuditStats = Schema.Struct({ timeZone: Schema.String, days: Schema.Array(AuditDay) }).annotate({
  identifier: "AuditStats",
})
export type AuditStats = typeof AuditStats.Type

/** Why the log is not as it was written. */
export const AuditFaultReason = Schema.Literals([
  "edited", // the entry's hash does not fit its members, or not the entry before it
  "missing", // there is no entry of this number, but there are later ones
  "forged", // the hashes fit, but no node of this system wrote it
  "inserted", // an entry where none can be: after the newest, before the oldest, or twice one number
  "truncated", // the newest entries are gone: a signed head outside of the database knows of them
  "rewritten", // an entry that is well-formed is another one than a signed head outside of the database knows
  "anchor", // the mark of where the log begins was changed
  "head", // the mark of where the log ends was changed
  "headSignature", // a signed head outside of the database was changed
])
export type AuditFaultReason = typeof AuditFaultReason.Type

export const AuditFault = Schema.Struct({
  /** Of the first bad entry. */
  sequence: Schema.Int,
  /** `null` where the entry is gone. */
  id: Schema.NullOr(Schema.String),
  reason: AuditFaultReason,
  explanation: Schema.String,
})
export type AuditFault = typeof AuditFault.Type

export const AuditVerification = Schema.Struct({
  /** Nothing wrong in what was checked. */
  intact: Schema.Boolean,
  /** Everything that was asked for was checked; otherwise go on with `from` = `next`. */
  complete: Schema.Boolean,
  next: Schema.NullOr(Schema.Int),
  /** Sequences that were checked: from, and the last one; equal to `from - 1` where there was nothing. */
  from: Schema.Int,
  to: Schema.Int,
  checked: Schema.Int,
  /** Signed heads outside of the database, on the node that answers, that the entries were compared with. */
  signedHeads: Schema.Int,
  /** Sequence and hash of the newest entry. */
  head: Schema.Struct({ sequence: Schema.Int, hash: Schema.String }),
  fault: Schema.NullOr(AuditFault),
}).annotate({ identifier: "AuditVerification" })
export type AuditVerification = typeof AuditVerification.Type

/** The queue of the audit log holds all it may, or its disk refuses: nothing that must be recorded can be done now. */
export class AuditUnavailable extends Schema.TaggedError<AuditUnavailable>()("AuditUnavailable", {}, {
  httpApiStatus: 503,
}) {
  override get message(): string {
    return "This would change something, and the audit log cannot take its entry at the moment; recording goes on"
  }
}

export class AuditEntryNotFound extends Schema.TaggedError<AuditEntryNotFound>()("AuditEntryNotFound", {
  id: Schema.String,
}, { httpApiStatus: 404 }) {
  override get message(): string {
    return `There is no audit entry ${this.id}`
  }
}
