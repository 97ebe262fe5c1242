/**
 * What happened: telling it, keeping it, and following it.
 *
 * Invariants
 * 1. {@link Events} needs no database: what is told while PostgreSQL is away rests on disk and is kept later, with its own time.
 * 2. A reader that stands at position n has seen, or may not see, everything up to n: positions become visible in order.
 * 3. Nobody is given an event they may not see.
 */
import type { EventDraft, Severity, StoredEvent } from "#schema/event.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, TooManyRequests } from "#schema/problem.ts"
import { Context, type Effect, type Scope } from "effect"

/** Lives with the recorder. */
export class Events extends Context.Service<Events, {
  /** Never fails and never waits for the database; it returns when the fact is on disk, or is logged as lost where no disk takes it. */
  readonly publish: (draft: EventDraft) => Effect.Effect<void>
}>()("nightjar/actors/Events") {}

/** Which events somebody wants. */
export interface EventFilter {
  /** Null: all. */
  readonly types: ReadonlySet<string> | null
  readonly minimumSeverity: Severity
}

/** A place in the log; `mark` tells an event of another database at the same position apart. */
export interface EventPlace {
  readonly position: number
  readonly mark: string
}

/** Where a follower begins. */
export type EventStart =
  /** With what happens from now on. */
  | { readonly _tag: "Now" }
  /** With the oldest that is kept. */
  | { readonly _tag: "Earliest" }
  | { readonly _tag: "After"; readonly place: EventPlace }

/** Why a follower was cut off. */
export type EventCut = "slow" | "stopping"

/** An event with the place behind it. */
export interface PlacedEvent {
  readonly place: EventPlace
  readonly stored: StoredEvent
}

/** Events of one moment. Followers who see the same get the same object, so that what is made of it is made once. */
export interface EventBatch {
  readonly events: ReadonlyArray<PlacedEvent>
}

/** Somebody who follows. All of these return at once. */
export interface EventSink {
  /** Once, before anything else: what follows lies behind this place. */
  readonly begin: (place: EventPlace) => void
  /** Takes the events, in order. */
  readonly deliver: (batch: EventBatch) => void
  /** Bytes taken that have not left yet. */
  readonly waitingBytes: () => number
  /** What was asked for is not kept any more: what follows begins behind this place, with the oldest that is. */
  readonly reset: (place: EventPlace) => void
  /** Nothing comes after this. */
  readonly cut: (reason: EventCut) => void
}

/** What a follower can do besides waiting. Ends with the scope that it was opened in. */
export interface EventFollower {
  /** Behind the newest event that it was offered, whether it may see that one or not. */
  readonly at: () => EventPlace
  /** From now on it sees by this user's permissions. */
  readonly become: (principal: UserPrincipal) => void
}

/** Needs PostgreSQL and comes late. */
export class EventLog extends Context.Service<EventLog, {
  readonly follow: (
    principal: UserPrincipal,
    filter: EventFilter,
    start: EventStart,
    sink: EventSink,
  ) => Effect.Effect<EventFollower, DependencyUnavailable | TooManyRequests, Scope.Scope>
  /** At most `limit` events behind a position, oldest first, whoever may see them. */
  readonly after: (position: number, limit: number) => Effect.Effect<ReadonlyArray<StoredEvent>, DependencyUnavailable>
  /** The newest position; 0 where there is nothing. */
  readonly latest: () => Effect.Effect<number, DependencyUnavailable>
  readonly find: (id: string) => Effect.Effect<StoredEvent | null, DependencyUnavailable>
}>()("nightjar/actors/EventLog") {}
