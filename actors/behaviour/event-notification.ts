/**
 * {@link Notifications} over the log of events.
 *
 * Invariants
 * 1. What a query may see is made from `reach`, which agrees with the `decide` of the live channel.
 * 2. A user's notifications begin with his account.
 */
import { type NotificationFilter, Notifications } from "#actors/protocol/notification.ts"
import {
  EventReaderStore,
  type NotificationQuery,
  type NotificationRow,
  type Sight,
} from "#actors/store/event-reader.ts"
import { type PageRequest } from "#schema/common.ts"
import { cursorOf, pageFrom } from "#schema/cursor.ts"
import { atLeast, eventTypeNames, eventTypeOf, eventTypes, Severity } from "#schema/event.ts"
import { type Notification, NotificationNotFound } from "#schema/notification.ts"
import { decide, type Permission, reach, resourceKey, resourceKinds, type UserPrincipal } from "#schema/permission.ts"
import { uuid7Time } from "#schema/uuid.ts"
import { Clock, Effect, Layer, Schema } from "effect"

/** Above it the number is not told: `1000+` says as much to a person. */
const mostCounted = 1_000
/** A channel tells that it is there every 30 s; who has not for this long was away. */
const awayMs = 90_000

const cursor = cursorOf("notifications", Schema.Int)
const severities = Severity.literals

/** Types that notify, by the permission they need. */
const notifying = Map.groupBy(
  eventTypeNames.filter((name) => eventTypes[name].notify),
  (name) => eventTypes[name].permission as Permission,
)

export const sightOf = (who: UserPrincipal): Sight => ({
  userId: who.userId,
  sinceMs: uuid7Time(who.userId),
  reaches: Array.from(notifying).flatMap(([permission, types]): Sight["reaches"] => {
    if (!decide(who, permission).allowed) return []
    const reached = reach(who, permission)
    if (reached === "all") return [{ types, keys: null }]
    return [{ types, keys: resourceKinds.flatMap((kind) => [...reached[kind]].map((id) => resourceKey({ kind, id }))) }]
  }),
})

const notificationOf = ({ read, stored: { event } }: NotificationRow): Notification => ({
  id: event.id,
  type: event.type,
  title: eventTypeOf(event.type)?.title ?? event.type,
  severity: event.severity,
  time: event.time,
  read,
  event,
})

type Store = EventReaderStore["Service"]

const listing = (store: Store) =>
  Effect.fnUntraced(
    function*(
      who: UserPrincipal,
      request: PageRequest,
      query: Pick<NotificationQuery, "unread" | "severities" | "within">,
    ) {
      const before = yield* cursor.decode(request.cursor)
      const rows = yield* store.list(sightOf(who), { ...query, before, limit: request.limit + 1 })
      return pageFrom({
        rows,
        limit: request.limit,
        cursor,
        position: ({ stored }) => stored.position,
        item: notificationOf,
      })
    },
  )

const make = Effect.gen(function*() {
  const store = yield* EventReaderStore
  const list = listing(store)

  const one = Effect.fnUntraced(function*(who: UserPrincipal, id: string) {
    const found = yield* store.one(sightOf(who), id)
    return found ?? (yield* new NotificationNotFound({ id }))
  })

  return Notifications.of({
    list: (who, filter: NotificationFilter, request) =>
      list(who, request, {
        unread: filter.unread,
        severities: severities.filter((severity) => atLeast(severity, filter.minimumSeverity)),
        within: null,
      }),
    missed: Effect.fnUntraced(function*(who, request) {
      const { missedFrom, missedTo, seenAtMs, seenTo } = yield* store.reader(who.userId)
      const present = seenAtMs !== null && (yield* Clock.currentTimeMillis) - seenAtMs < awayMs
      const within = present ? { from: missedFrom, to: missedTo } : { from: seenTo, to: Number.MAX_SAFE_INTEGER }
      return yield* list(who, request, { unread: true, severities, within })
    }),
    unread: Effect.fnUntraced(function*(who) {
      const found = yield* store.unread(sightOf(who), mostCounted + 1)
      return { count: Math.min(found, mostCounted), more: found > mostCounted }
    }),
    read: Effect.fnUntraced(function*(who, id) {
      const found = yield* one(who, id)
      if (!found.read) yield* store.mark(who.userId, found.stored.position, { read: true, deleted: false })
      return notificationOf({ ...found, read: true })
    }),
    readAll: (who) => store.readAll(who.userId),
    remove: Effect.fnUntraced(function*(who, id) {
      const { read, stored } = yield* one(who, id)
      yield* store.mark(who.userId, stored.position, { read, deleted: true })
    }),
    present: (seen) => Effect.flatMap(Clock.currentTimeMillis, (nowMs) => store.present(seen, nowMs, awayMs)),
  })
})

export const layer = Layer.effect(Notifications, make)
