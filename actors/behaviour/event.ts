/**
 * {@link Events}: what happened goes to a queue on this node's disk, and from there to the log as soon as PostgreSQL takes it.
 *
 * Invariants
 * 1. Telling needs no database. A fact that is on disk reaches the log, however often the node or PostgreSQL dies on the way.
 * 2. A fact gets its id and its time when it is told; the log takes an id once, so bringing it twice adds nothing.
 * 3. Bounds: {@link spoolBytes} on disk, {@link batchSize} facts in memory. What finds no room is lost and logged as such.
 */
import { Events } from "#actors/protocol/event.ts"
import type { NewEvent } from "#actors/store/event.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { makeSpool, type Spool, type SpoolFailed } from "#cluster/spool.ts"
import { type EventDraft, EventEnvelope, eventTypes } from "#schema/event.ts"
import { resourceKey } from "#schema/permission.ts"
import type { DependencyUnavailable } from "#schema/problem.ts"
import { uuid7 } from "#schema/uuid.ts"
import { Clock, Context, Duration, Effect, type FileSystem, Layer, Schema } from "effect"

/** At some 600 bytes each a hundred thousand facts: a day of a large site without its database. */
const spoolBytes = 64 << 20
/** Facts of one statement. */
const batchSize = 500
/** Facts that come close together go in one statement. */
const gatherTime = Duration.millis(10)
const retryEvery = Duration.seconds(1)
/** A full disk is told of at most this often. */
const quietMs = 30_000

/** Where told facts wait for the database. */
export class EventSpool extends Context.Service<EventSpool, Spool>()("nightjar/actors/EventSpool") {}

/** A text of this run of the node, for ids of facts that two parts of it may tell. */
export class EventBoot extends Context.Service<EventBoot, string>()("nightjar/actors/EventBoot") {}

const Line = Schema.fromJsonString(Schema.Struct({
  event: Schema.toCodecJson(EventEnvelope),
  resource: Schema.Array(Schema.String),
  audience: Schema.NullOr(Schema.Array(Schema.String)),
  notify: Schema.Boolean,
}))
const decodeLine = Schema.decodeUnknownEffect(Line)
const encodeLine = Schema.encodeEffect(Line)

/** PostgreSQL keeps no U+0000 in text (its documentation, section 8.14). */
const withoutNul = (json: string): string => json.replaceAll("\\u0000", "\\ufffd")

const sliceOf = (type: string): string => type.slice(0, type.indexOf("."))

const made = Effect.fnUntraced(function*(draft: EventDraft, nodeId: EventEnvelope["nodeId"]) {
  const { notify, severity } = eventTypes[draft.type]
  return {
    event: {
      id: draft.id ?? (yield* uuid7),
      source: `/nodes/${nodeId}/${sliceOf(draft.type)}`,
      type: draft.type,
      time: draft.timeMs ?? (yield* Clock.currentTimeMillis),
      subject: draft.subject,
      data: draft.data,
      nodeId,
      severity: draft.severity ?? severity,
    },
    resource: draft.resource.map(resourceKey),
    audience: draft.audience ?? null,
    notify,
  } satisfies NewEvent
})

const makeEvents = Effect.gen(function*() {
  const spool = yield* EventSpool
  const { nodeId } = yield* NodeIdentity
  let toldMs = Number.NEGATIVE_INFINITY
  const lost = (type: string, cause: unknown) =>
    Effect.gen(function*() {
      const nowMs = yield* Clock.currentTimeMillis
      if (nowMs - toldMs < quietMs) return
      toldMs = nowMs
      yield* Effect.logError(`An event (${type}) could not be kept`, cause)
    })
  return Events.of({
    publish: (draft) =>
      made(draft, nodeId).pipe(
        Effect.flatMap(encodeLine),
        Effect.flatMap((line) => spool.append([withoutNul(line)])),
        Effect.catchCause((cause) => lost(draft.type, cause)),
        Effect.asVoid,
      ),
  })
})

/** `folder`: for the queue alone. */
export const layer = (
  folder: string,
): Layer.Layer<Events | EventSpool | EventBoot, SpoolFailed, NodeIdentity | FileSystem.FileSystem> =>
  Layer.effect(Events, makeEvents).pipe(
    Layer.provideMerge(Layer.effect(EventSpool, makeSpool({ folder, maxBytes: spoolBytes }))),
    Layer.provideMerge(Layer.effect(EventBoot, uuid7)),
  )

type Keep = (events: ReadonlyArray<NewEvent>, nowMs: number) => Effect.Effect<number, DependencyUnavailable>

/** Everything that waits, in the order in which it was told; ends when nothing does. */
export const drain = Effect.fnUntraced(function*(spool: Spool, keep: Keep) {
  while (true) {
    const entries = yield* spool.read(spool.acknowledged(), batchSize)
    const last = entries.at(-1)
    if (last === undefined) return
    const events = yield* Effect.forEach(
      entries,
      ({ json }) =>
        decodeLine(json).pipe(
          Effect.map((event): NewEvent | null => event),
          Effect.catch((error) => Effect.as(Effect.logError("An event on disk cannot be read", error), null)),
        ),
    )
    const nowMs = yield* Clock.currentTimeMillis
    const good = events.filter((event) => event !== null)
    yield* keep(good, nowMs).pipe(
      // One that the database will never take must not hold up all others.
      Effect.catchDefect(() =>
        Effect.forEach(
          good,
          (one) =>
            Effect.catchDefect(keep([one], nowMs), (defect) =>
              Effect.logError(`The event ${one.event.id} was not taken by the database`, defect)),
          { discard: true },
        )
      ),
    )
    yield* spool.acknowledge(last.position)
  }
})

/** Brings what is told into the log for as long as the scope is open. */
export const bring = (spool: Spool, keep: Keep) =>
  Effect.gen(function*() {
    yield* spool.awaitEntry(spool.acknowledged())
    yield* Effect.sleep(gatherTime)
    const from = spool.acknowledged()
    yield* drain(spool, keep)
    // What is there but cannot be read is no reason to spin.
    if (spool.acknowledged() === from) yield* Effect.sleep(retryEvery)
  }).pipe(
    Effect.catch((error) =>
      Effect.andThen(Effect.logDebug("Events wait for the log", error), Effect.sleep(retryEvery))
    ),
    Effect.catchDefect((defect) =>
      Effect.andThen(Effect.logError("Events could not be brought into the log", defect), Effect.sleep(retryEvery))
    ),
    Effect.forever,
  )
