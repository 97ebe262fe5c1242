/**
 * Notifications of the calling user: the events he may see whose type notifies, since he has been there.
 *
 * Invariants
 * 1. What one user reads or deletes changes nothing for another.
 * 2. A notification that the user may not see is not found.
 */
import type { PageOf, PageRequest, UserId } from "#schema/common.ts"
import type { Severity } from "#schema/event.ts"
import type { Notification, NotificationNotFound, UnreadCount } from "#schema/notification.ts"
import type { UserPrincipal } from "#schema/permission.ts"
import type { DependencyUnavailable, InvalidCursor } from "#schema/problem.ts"
import { Context, type Effect } from "effect"

export interface NotificationFilter {
  /** Only those that are not read. */
  readonly unread: boolean
  readonly minimumSeverity: Severity
}

/** Needs PostgreSQL and comes late. */
export class Notifications extends Context.Service<Notifications, {
  /** Newest first. */
  readonly list: (
    who: UserPrincipal,
    filter: NotificationFilter,
    request: PageRequest,
  ) => Effect.Effect<PageOf<Notification>, InvalidCursor | DependencyUnavailable>
  /** Unread ones that came while no live channel of the user was open: before the present one, or until now. Newest first. */
  readonly missed: (
    who: UserPrincipal,
    request: PageRequest,
  ) => Effect.Effect<PageOf<Notification>, InvalidCursor | DependencyUnavailable>
  readonly unread: (who: UserPrincipal) => Effect.Effect<UnreadCount, DependencyUnavailable>
  readonly read: (
    who: UserPrincipal,
    id: string,
  ) => Effect.Effect<Notification, NotificationNotFound | DependencyUnavailable>
  readonly readAll: (who: UserPrincipal) => Effect.Effect<void, DependencyUnavailable>
  readonly remove: (who: UserPrincipal, id: string) => Effect.Effect<void, NotificationNotFound | DependencyUnavailable>
  /** These users follow live, and have been given what lies before these positions of the log. */
  readonly present: (
    seen: ReadonlyArray<{ readonly userId: UserId; readonly position: number }>,
  ) => Effect.Effect<void, DependencyUnavailable>
}>()("nightjar/actors/Notifications") {}
