/**
 * Health as draft-inadarei-api-health-check words it: `pass`, `warn`, `fail`, and one entry a component.
 *
 * Invariants
 * 1. The whole is as bad as its worst component.
 */
import { Schema } from "effect"
import { Instant } from "./common.ts"

export const HealthStatus = Schema.Literals(["pass", "warn", "fail"])
export type HealthStatus = typeof HealthStatus.Type

const members = {
  version: Schema.String,
  releaseId: Schema.String,
  serviceId: Schema.String,
  description: Schema.String,
}
/** What a node that serves says; one that cannot says {@link Failing}. The wire tells them apart by the HTTP status too. */
const serving = Schema.Literals(["pass", "warn"])
const failing = Schema.Literal("fail")

export const Serving = Schema.Struct({ status: serving, ...members }).annotate({ identifier: "Health" })
export const Failing = Schema.Struct({ status: failing, ...members }).annotate({ identifier: "FailingHealth" })
export type Health = typeof Serving.Type | typeof Failing.Type

export const HealthCheck = Schema.Struct({
  componentType: Schema.Literals(["datastore", "system", "component"]),
  status: HealthStatus,
  observedValue: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.String])),
  observedUnit: Schema.optionalKey(Schema.String),
  time: Instant,
  /** What is wrong, for a person; left out on `pass`. */
  output: Schema.optionalKey(Schema.String),
})
export type HealthCheck = typeof HealthCheck.Type

/** Keys are `component:measurement`, such as `postgresql:responseTime`. */
const details = { ...members, checks: Schema.Record(Schema.String, Schema.Array(HealthCheck)) }

export const DetailedServing = Schema.Struct({ status: serving, ...details }).annotate({ identifier: "DetailedHealth" })
export const DetailedFailing = Schema.Struct({ status: failing, ...details }).annotate({
  identifier: "FailingDetailedHealth",
})
export type DetailedHealth = typeof DetailedServing.Type | typeof DetailedFailing.Type

/** The worst of some. */
export const worst = (statuses: ReadonlyArray<HealthStatus>): HealthStatus =>
  statuses.includes("fail") ? "fail" : statuses.includes("warn") ? "warn" : "pass"
