/**
 * The audit log: what is to be recorded, and what can be asked of what was.
 *
 * Invariants
 * 1. {@link AuditTrail} lives as long as HTTP and asks no database: facts wait on the disk until {@link AuditLog}, which needs
 *    PostgreSQL and comes late, takes them into the chain.
 * 2. What `record` and the end of `admitted` answered for survives kill -9.
 */
import type {
  AuditClaim,
  AuditClass,
  AuditEntry,
  AuditEntryNotFound,
  AuditFact,
  AuditFilter,
  AuditSettings,
  AuditSettingsUpdate,
  AuditStats,
  AuditUnavailable,
  AuditVerification,
  QueuedFact,
} from "#schema/auth-audit.ts"
import type { EpochMs, PageOf, PageRequest } from "#schema/common.ts"
import type { DependencyUnavailable, InvalidCursor, InvalidInput, VersionConflict } from "#schema/problem.ts"
import { Context, type Effect, type Stream } from "effect"

/** A call that may be done because its entry has a place. */
export interface AuditAdmission {
  /** Records what came of it; exactly once. */
  readonly end: (fact: AuditFact) => Effect.Effect<void>
}

/** Facts in the order of their positions, for the one that takes them into the chain; `null` where a position holds none. */
export interface AuditQueue {
  readonly read: (
    after: number,
    limit: number,
  ) => Effect.Effect<ReadonlyArray<{ readonly position: number; readonly fact: QueuedFact | null }>>
  readonly awaitEntry: (after: number) => Effect.Effect<void>
  readonly acknowledge: (position: number) => Effect.Effect<void>
  readonly acknowledged: () => number
}

export class AuditTrail extends Context.Service<AuditTrail, {
  /** Whether a call of this class is recorded, by the settings in force. */
  readonly records: (kind: AuditClass, outcome: AuditFact["outcome"]) => boolean
  /** Whether one more entry has a place now. */
  readonly hasRoom: () => boolean
  /**
   * For what was done already. Once it returns (the id of the entry to be) the fact is durable. `AuditUnavailable`: it is not, and was counted among
   * those that a later entry tells as lost.
   */
  readonly record: (fact: AuditFact) => Effect.Effect<string, AuditUnavailable>
  /**
   * For refusals, which nobody must be able to flood the log with: never fails, at most so many a second; what
   * is left out is counted, and told by an entry `audit.dropped`.
   */
  readonly note: (fact: AuditFact) => Effect.Effect<void>
  /**
   * Keeps a place for the entry of a call that is about to change something. The intent is durable when this returns: a
   * process that dies before `end` leaves an entry that says so.
   */
  readonly admit: (intent: AuditFact) => Effect.Effect<AuditAdmission, AuditUnavailable>
  /** What is recorded from now on. */
  readonly configure: (settings: AuditSettingsUpdate) => Effect.Effect<void>
  readonly queue: AuditQueue
  /** Bytes that wait, and what was left out since the node started; for metrics and health. */
  readonly state: () => { readonly queuedBytes: number; readonly limitBytes: number; readonly dropped: number }
}>()("nightjar/actors/AuditTrail") {}

/** A page of entries, newest first, and all of them as a stream of pages, oldest first. */
export class AuditLog extends Context.Service<AuditLog, {
  readonly list: (
    filter: AuditFilter,
    page: PageRequest,
  ) => Effect.Effect<PageOf<AuditEntry>, InvalidCursor | DependencyUnavailable>
  readonly get: (id: string) => Effect.Effect<AuditEntry, AuditEntryNotFound | DependencyUnavailable>
  /**
   * Entries up to the newest of this moment, in pages; holds one page in memory and no connection between pages. Ends
   * early, with the error, when the database goes away.
   */
  readonly export: (
    filter: AuditFilter,
  ) => Effect.Effect<Stream.Stream<ReadonlyArray<AuditEntry>, DependencyUnavailable>, DependencyUnavailable>
  /** The entry of a client's claim, durable and on its way into the chain. */
  readonly claim: (
    claim: AuditClaim,
    who: Pick<AuditFact, "actor" | "address" | "userAgent" | "traceId">,
  ) => Effect.Effect<AuditEntry, AuditUnavailable | DependencyUnavailable>
  readonly settings: () => Effect.Effect<AuditSettings, DependencyUnavailable>
  readonly updateSettings: (
    settings: AuditSettingsUpdate,
    expectedVersion: number | null,
  ) => Effect.Effect<AuditSettings, VersionConflict | DependencyUnavailable>
  readonly stats: (range: {
    readonly start: EpochMs | null
    readonly end: EpochMs | null
    /** IANA name. */
    readonly timeZone: string
  }) => Effect.Effect<AuditStats, InvalidInput | DependencyUnavailable>
  /** Walks the chain from the entry `from` to the entry `to` (`null`: from the oldest, to the newest). */
  readonly verify: (range: {
    readonly from: number | null
    readonly to: number | null
  }) => Effect.Effect<AuditVerification, DependencyUnavailable>
}>()("nightjar/actors/AuditLog") {}
