/**
 * {@link EventLog} over PostgreSQL: one reader of the log a node, and everybody who follows it here.
 *
 * Invariants
 * 1. The log is read in the order of its positions, which is the order of commits; notices only wake the reader earlier.
 * 2. Who begins in the past is served from the database until the ring reaches back to where he stands, then from the ring:
 *    the change-over neither skips nor repeats.
 * 3. Bounds: followers of a node and of a user, pages of {@link pageSize} by {@link readers} at once, and those of the fan-out.
 * 4. An outage of the database ends no follower: he hears what happened once it is over.
 */
import { EventLog, Events, type EventSink, type EventStart } from "#actors/protocol/event.ts"
import { type EventRetention, EventStore } from "#actors/store/event.ts"
import { Bus } from "#cluster/bus.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { TooManyRequests } from "#schema/problem.ts"
import { Clock, Duration, Effect, Latch, Layer, Schedule, Semaphore } from "effect"
import { chore } from "./chore.ts"
import { Fanout, type FanoutOptions, type Follower, placeOf } from "./event-fanout.ts"
import { bring, drain, EventSpool } from "./event.ts"

export interface EventLogOptions {
  readonly retention: EventRetention
  /** Followers of this node. */
  readonly mostFollowers: number
  /** Of them, those of one user. */
  readonly mostOfUser: number
  readonly fanout: FanoutOptions
}

const fanout: FanoutOptions = {
  // A minute of a storm of 100 a second, and enough that all who come back after a restart are served from memory.
  ringEvents: 6_000,
  ringBytes: 16 << 20,
  // A burst of some hundred events; a thousand clients that all stop reading cost 256 MiB at worst.
  waitingBytes: 192 * 1024,
  // A browser in the background still reads; one that has not for this long is gone or broken.
  stuckMs: 20_000,
}

export const defaultLog: Omit<EventLogOptions, "retention"> = {
  // A socket costs some 30 KiB; the server takes 4096 connections in all.
  mostFollowers: 2_500,
  // Tabs, walls of screens and programs of one user.
  mostOfUser: 100,
  fanout,
}

/** Without a notice, events of other nodes are seen within this. */
const pollEvery = Duration.seconds(1)
/** Events that come close together go out together. */
const gatherTime = Duration.millis(20)
const sweepEvery = Duration.millis(100)
const retryEvery = Duration.seconds(1)
const pruneEvery = Duration.minutes(10)
const pageSize = 500
/** Pages that are read at once for those who catch up: a few of the pool's connections. */
const readers = 3
/** A shorter absence of the database is not worth telling. */
const awayMs = 5_000

type Store = EventStore["Service"]

/** Where the log ends: the newest events for the ring. */
const ending = Effect.fnUntraced(function*(store: Store, options: FanoutOptions) {
  const newest = yield* store.newest(Math.min(options.ringEvents, 2_000))
  const { prunedTo } = yield* store.standing(0)
  return new Fanout(options, { position: prunedTo, mark: "" }, newest.toReversed())
})

/** Reads behind the newest and hands it on, for ever. */
const makeTail = (store: Store, fanout: Fanout) =>
  Effect.gen(function*() {
    const events = yield* Events
    const { nodeId } = yield* NodeIdentity
    const wake = Latch.makeUnsafe(false)
    const bus = yield* Bus
    yield* bus.onEvents(Effect.sync(() => wake.openUnsafe()))
    let lostAtMs: number | null = null
    let told = false

    const away = Effect.gen(function*() {
      const nowMs = yield* Clock.currentTimeMillis
      lostAtMs ??= nowMs
      if (told || nowMs - lostAtMs < awayMs) return
      told = true
      const since = new Date(lostAtMs).toISOString()
      yield* events.publish({
        type: "node.database.lost",
        subject: nodeId,
        data: { since },
        resource: [],
        timeMs: lostAtMs,
      })
    })
    const back = Effect.gen(function*() {
      if (lostAtMs === null) return
      const since = new Date(lostAtMs).toISOString()
      lostAtMs = null
      if (!told) return
      told = false
      yield* events.publish({ type: "node.database.restored", subject: nodeId, data: { since }, resource: [] })
    })

    const round = Effect.gen(function*() {
      wake.closeUnsafe()
      const rows = yield* store.after(fanout.newest.position, pageSize)
      yield* back
      fanout.push(rows, yield* Clock.currentTimeMillis)
      if (rows.length === pageSize) return
      yield* Effect.timeoutOption(wake.await, pollEvery)
      yield* Effect.sleep(gatherTime)
    }).pipe(
      Effect.catchTag("DependencyUnavailable", () => Effect.andThen(away, Effect.sleep(retryEvery))),
      Effect.catchCause((cause) =>
        Effect.andThen(Effect.logError("The log of events could not be read", cause), Effect.sleep(retryEvery))
      ),
    )
    yield* Effect.forkScoped(Effect.forever(round))
    yield* chore("Hearing of events", store.listen(Effect.sync(() => wake.openUnsafe()))).pipe(
      Effect.andThen(Effect.sleep(retryEvery)),
      Effect.forever,
      Effect.forkScoped,
    )
  })

/** From where a follower really begins, and whether what he asked for is gone. */
const begin = Effect.fnUntraced(function*(store: Store, fanout: Fanout, start: EventStart) {
  if (start._tag === "Now") return { place: fanout.newest, reset: false }
  if (start._tag === "Earliest") {
    const { prunedTo } = yield* store.standing(0)
    return { place: { position: prunedTo, mark: "" }, reset: false }
  }
  const { place } = start
  if (fanout.holds(place)) return { place, reset: false }
  const { id, prunedTo } = yield* store.standing(place.position)
  const good = id === null ? place.position === prunedTo : placeOf(id, place.position).mark === place.mark
  return good ? { place, reset: false } : { place: { position: prunedTo, mark: "" }, reset: true }
})

/** Serves somebody from the database until the ring reaches back to him. */
const makeCatchUp = (store: Store, fanout: Fanout, options: FanoutOptions) =>
  Effect.gen(function*() {
    const reading = yield* Semaphore.make(readers)

    const step = Effect.fnUntraced(function*(follower: Follower) {
      const { events, prunedTo } = yield* reading.withPermits(1)(store.page(follower.place.position, pageSize))
      if (prunedTo > follower.place.position) {
        follower.place = { position: prunedTo, mark: "" }
        follower.sink.reset(follower.place)
        return
      }
      if (events.length === 0) yield* Effect.sleep(sweepEvery)
      for (let rest = events; rest.length > 0 && !follower.gone;) {
        yield* Effect.repeat(Effect.sleep(sweepEvery), { while: () => !follower.gone && !fanout.hasRoom(follower) })
          .pipe(
            Effect.when(Effect.sync(() => !fanout.hasRoom(follower))),
            Effect.timeoutOrElse({
              duration: options.stuckMs,
              orElse: () => Effect.sync(() => fanout.cut(follower, "slow")),
            }),
          )
        if (follower.gone) return
        fanout.offer(follower, rest)
        rest = rest.filter((one) => one.position > follower.place.position)
      }
    })

    return Effect.fnUntraced(function*(follower: Follower) {
      while (!follower.gone && !fanout.join(follower, yield* Clock.currentTimeMillis)) {
        yield* Effect.catchTag(step(follower), "DependencyUnavailable", () => Effect.sleep(retryEvery))
      }
    })
  })

const make = Effect.fnUntraced(function*(options: EventLogOptions) {
  const store = yield* EventStore
  const fanout = yield* ending(store, options.fanout)
  const catchUp = yield* makeCatchUp(store, fanout, options.fanout)
  const ofUser = new Map<string, number>()
  let followers = 0

  yield* makeTail(store, fanout)
  yield* Effect.forkScoped(
    Effect.repeat(Effect.map(Clock.currentTimeMillis, (nowMs) => fanout.sweep(nowMs)), Schedule.spaced(sweepEvery)),
  )
  const prune = Effect.flatMap(
    Clock.currentTimeMillis,
    (nowMs) => Effect.repeat(store.prune(options.retention, nowMs), { while: (more) => more }),
  )
  yield* chore("Pruning events", prune).pipe(Effect.repeat(Schedule.spaced(pruneEvery)), Effect.forkScoped)
  yield* Effect.addFinalizer(() => Effect.sync(() => fanout.cutAll("stopping")))

  const admitted = (userId: string) =>
    Effect.acquireRelease(
      Effect.suspend(() => {
        const own = ofUser.get(userId) ?? 0
        if (followers >= options.mostFollowers || own >= options.mostOfUser) {
          const message = own >= options.mostOfUser ?
            `A user may follow the events ${options.mostOfUser} times at once` :
            `This node serves ${options.mostFollowers} followers at once`
          return Effect.fail(new TooManyRequests({ message, retryAfterSeconds: 10 }))
        }
        followers += 1
        ofUser.set(userId, own + 1)
        return Effect.void
      }),
      () =>
        Effect.sync(() => {
          followers -= 1
          const left = (ofUser.get(userId) ?? 1) - 1
          if (left > 0) ofUser.set(userId, left)
          else ofUser.delete(userId)
        }),
    )

  return EventLog.of({
    follow: Effect.fnUntraced(function*(principal, filter, start, sink: EventSink) {
      yield* admitted(principal.userId)
      const { place, reset } = yield* begin(store, fanout, start)
      const follower = yield* Effect.acquireRelease(
        Effect.sync(() => fanout.add({ sink, filter, principal, place })),
        (one) => Effect.sync(() => fanout.remove(one)),
      )
      sink.begin(place)
      if (reset) sink.reset(place)
      if (!fanout.join(follower, yield* Clock.currentTimeMillis)) yield* Effect.forkScoped(catchUp(follower))
      return {
        at: () => follower.place,
        become: (changed) => fanout.become(follower, changed),
      }
    }),
    after: store.after,
    latest: () => Effect.sync(() => fanout.newest.position),
    find: store.find,
  })
})

/** Brings what this node tells into the log, and what all nodes tell to those who follow here. */
export const layer = (options: EventLogOptions) =>
  Layer.effect(
    EventLog,
    Effect.gen(function*() {
      const log = yield* make(options)
      const store = yield* EventStore
      const spool = yield* EventSpool
      yield* Effect.addFinalizer(() =>
        // What was told last, such as that this node stops, reaches the others if it can.
        Effect.ignore(Effect.timeoutOption(drain(spool, store.keep), "1 second"))
      )
      const bus = yield* Bus
      yield* Effect.forkScoped(
        bring(spool, (events, nowMs) => Effect.tap(store.keep(events, nowMs), () => bus.tellEvents)),
      )
      return log
    }),
  )
