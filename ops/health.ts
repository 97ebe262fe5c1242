/** What storage, capture and the audit queue say of themselves in `/health/detailed`. */
import { AuditTrail } from "#actors/protocol/auth-audit.ts"
import type { HealthReporter } from "#actors/protocol/health.ts"
import { RecorderSupervisor, type StreamStatus } from "#media/recorder.ts"
import { Storage } from "#media/storage.ts"
import { Effect } from "effect"

const component = { componentType: "component" } as const

/** Fails when footage can go nowhere, warns when a folder is in trouble. */
export const storageHealth: Effect.Effect<HealthReporter, never, Storage> = Effect.map(Storage, (storage) => ({
  name: "storage:folders",
  check: Effect.map(storage.usage, (folders) => {
    const troubled = folders.filter((folder) => folder.state !== "ok")
    const output = troubled.map((folder) => `${folder.name}: ${folder.detail || folder.state}`).join("; ")
    const reading = {
      ...component,
      observedValue: folders.length - troubled.length,
      observedUnit: `of ${folders.length} folders in order`,
    }
    if (troubled.length === 0) return { ...reading, status: "pass" as const }
    return { ...reading, status: troubled.length === folders.length ? "fail" as const : "warn" as const, output }
  }),
}))

/** Warns from half of its queue on: PostgreSQL is away for long; fails when nothing that changes something is admitted. */
export const auditHealth: Effect.Effect<HealthReporter, never, AuditTrail> = Effect.map(AuditTrail, (trail) => ({
  name: "audit:queue",
  check: Effect.sync(() => {
    const { dropped, limitBytes, queuedBytes } = trail.state()
    const reading = { ...component, observedValue: queuedBytes, observedUnit: `of ${limitBytes} bytes waiting` }
    if (!trail.hasRoom()) {
      return {
        ...reading,
        status: "fail" as const,
        output: "it is full: nothing can be changed until the database is back",
      }
    }
    if (queuedBytes < limitBytes / 2) return { ...reading, status: "pass" as const }
    return { ...reading, status: "warn" as const, output: `it fills up; ${dropped} refusals were left out` }
  }),
}))

/** Each reason once, and not all of a hundred cameras behind one broken switch. */
const reasonsOf = (troubled: ReadonlyArray<StreamStatus>): string =>
  [...new Set(troubled.map(({ health, reason }) => reason || health))].slice(0, 8).join("; ")

/** Warns while a stream that should be there is not. */
export const captureHealth: Effect.Effect<HealthReporter, never, RecorderSupervisor> = Effect.map(
  RecorderSupervisor,
  (supervisor) => ({
    name: "capture:streams",
    check: Effect.sync(() => {
      const wanted = supervisor.statuses().filter((status) => status.health !== "disabled")
      const troubled = wanted.filter((status) =>
        status.health === "offline" || status.health === "authFailed" || status.recordingState === "failed"
      )
      const reading = {
        ...component,
        observedValue: wanted.length - troubled.length,
        observedUnit: `of ${wanted.length} streams delivering`,
      }
      return troubled.length === 0 ?
        { ...reading, status: "pass" as const } :
        { ...reading, status: "warn" as const, output: reasonsOf(troubled) }
    }),
  }),
)
