/**
 * Lets old footage go: every minute, and at once when a folder is full. What went is journalled; what has become history is
 * forgotten by the ledgers; what nobody told the end of is told.
 */
import type { RetentionPolicy, Storage } from "#media/storage.ts"
import { Clock, Effect, type Latch } from "effect"
import type { Journal } from "./journal.ts"
import type { Ledgers } from "./ledgers.ts"
import { settleFiles } from "./settle.ts"

export interface RetentionParts {
  readonly storage: Storage["Service"]
  readonly journal: Journal
  readonly ledgers: Ledgers
  /** Opened when a folder is full. */
  readonly lowDisk: Latch.Latch
  readonly policies: () => ReadonlyArray<RetentionPolicy>
}

const everyMs = 60_000
/** A folder that falls below its floor has half of the floor left: minutes, where footage alone fills it. */
const lookEveryMs = 5_000
/** A full folder is looked at no more often than this. */
const atLeastMs = 2_000
const dayMs = 86_400_000

export const runRetention = (parts: RetentionParts): Effect.Effect<never> => {
  const turn = Effect.gen(function*() {
    const policies = parts.policies()
    const gone = yield* parts.storage.enforceRetention(policies)
    const now = yield* Clock.currentTimeMillis
    const limits = new Map(policies.map((policy) => [policy.recordingId, now - policy.retentionDays * dayMs]))
    parts.journal.append(gone.map((file) => ({
      _tag: "FileDeleted",
      file,
      reason: file.endMs <= (limits.get(file.recordingId) ?? now) ? "retention" : "space",
    })))
    yield* settleFiles(parts.storage, parts.journal)
    for (const [recordingId, limit] of limits) parts.ledgers.forget(recordingId, limit)
  })
  const anyFull = Effect.map(parts.storage.usage, (folders) => folders.some(({ state }) => state === "full"))
  const untilFull = Effect.sleep(lookEveryMs).pipe(Effect.andThen(anyFull), Effect.repeat({ until: (full) => full }))
  return Effect.gen(function*() {
    yield* Effect.raceAllFirst([Effect.sleep(everyMs), parts.lowDisk.await, untilFull])
    parts.lowDisk.closeUnsafe()
    yield* Effect.catchCause(turn, (cause) => Effect.logError("Retention failed", cause))
    yield* Effect.sleep(atLeastMs)
  }).pipe(Effect.forever)
}
