/** The reader of the log over a table in memory, on a virtual clock: beginnings, outages, limits, endings. */
import { type EventLogOptions, layer as logLayer } from "#actors/behaviour/event-log.ts"
import { EventSpool } from "#actors/behaviour/event.ts"
import { EventLog, Events, type EventSink, type EventStart } from "#actors/protocol/event.ts"
import { EventStore } from "#actors/store/event.ts"
import { Bus } from "#cluster/bus.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import type { Spool } from "#cluster/spool.ts"
import { NodeId, UserId } from "#schema/common.ts"
import type { EventDraft, StoredEvent } from "#schema/event.ts"
import { builtInRoles, type UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Exit, Layer, Logger, Scope } from "effect"
import { TestClock } from "effect/testing"

const nodeId = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0b01")
const admin: UserPrincipal = {
  kind: "user",
  userId: UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a01"),
  username: "admin",
  sessionId: "0190163d-8694-7395-8ad4-5b8a3f3d0a02",
  grants: [{ role: "admin", permissions: builtInRoles.admin.permissions, resources: "all" }],
}

const happened = (position: number): StoredEvent => ({
  position,
  event: {
    id: `event-${position}`,
    source: `/nodes/${nodeId}/node`,
    type: "node.started",
    time: position,
    subject: "x",
    data: { name: "n" },
    nodeId,
    severity: "info",
  },
  resource: [],
  audience: null,
})

const options: EventLogOptions = {
  retention: { days: 1, count: 10 },
  mostFollowers: 3,
  mostOfUser: 2,
  fanout: { ringEvents: 20, ringBytes: 1 << 20, waitingBytes: 1_000, stuckMs: 20_000 },
}

/** A table, what is told, and a log over them; `hint` is what the bus does when another node tells of something new. */
const scene = Effect.fnUntraced(function*(events: number, withBus = false) {
  let hint: Effect.Effect<void> = Effect.void
  const bus = Layer.succeed(Bus, {
    tellEvents: Effect.void,
    onEvents: (look) => Effect.sync(() => void (hint = look)),
    onPresence: () => Effect.void,
    dropped: Effect.succeed({}),
  })
  const table = Array.from({ length: events }, (_, i) => happened(i + 1))
  const state = { away: false, prunedTo: 0 }
  const told: Array<EventDraft> = []
  const answer = <A>(value: () => A) =>
    Effect.suspend(() =>
      state.away ?
        Effect.fail(new DependencyUnavailable({ dependency: "database", message: "away" })) :
        Effect.succeed(value())
    )
  const kept = () => table.filter(({ position }) => position > state.prunedTo)
  const after = (position: number, limit: number) => kept().filter((one) => one.position > position).slice(0, limit)
  const store = EventStore.of({
    keep: () => Effect.die(new Error("nothing is told here")),
    after: (position, limit) => answer(() => after(position, limit)),
    page: (position, limit) => answer(() => ({ events: after(position, limit), prunedTo: state.prunedTo })),
    newest: (limit) => answer(() => kept().toReversed().slice(0, limit)),
    find: (id) => answer(() => table.find(({ event }) => event.id === id) ?? null),
    standing: (position) =>
      answer(() => ({
        id: kept().find((one) => one.position === position)?.event.id ?? null,
        prunedTo: state.prunedTo,
      })),
    prune: () => answer(() => false),
    listen: () => Effect.never,
  })
  const spool = {
    read: () => Effect.succeed([]),
    awaitEntry: () => Effect.never,
    acknowledged: () => 0,
  } as unknown as Spool
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Scope.close(scope, Exit.void))
  const context = yield* Layer.buildWithScope(
    logLayer(options).pipe(Layer.provide([
      Layer.succeed(EventStore, store),
      Layer.succeed(Events, { publish: (draft) => Effect.sync(() => void told.push(draft)) }),
      Layer.succeed(EventSpool, spool),
      Layer.succeed(NodeIdentity, { nodeId } as NodeIdentity["Service"]),
      Logger.layer([]),
      withBus ? bus : Layer.empty,
    ])),
    scope,
  )
  const log = Context.get(context, EventLog)
  const follow = Effect.fnUntraced(function*(start: EventStart, principal = admin) {
    const got: Array<number> = []
    const seen = { reset: 0, cut: "", waiting: 0 }
    const sink: EventSink = {
      begin: () => {},
      deliver: ({ events }) => void got.push(...events.map(({ stored }) => stored.position)),
      waitingBytes: () => seen.waiting,
      reset: () => seen.reset += 1,
      cut: (reason) => seen.cut = reason,
    }
    const own = yield* Scope.make()
    yield* Effect.addFinalizer(() => Scope.close(own, Exit.void))
    const follower = yield* log.follow(principal, { types: null, minimumSeverity: "info" }, start, sink).pipe(
      Effect.provideService(Scope.Scope, own),
      Effect.onError((cause) => Scope.close(own, Exit.failCause(cause))),
    )
    return { got, seen, follower, leave: Scope.close(own, Exit.void) }
  })
  return { table, state, told, follow, log, hint: Effect.suspend(() => hint), end: Scope.close(scope, Exit.void) }
})

const range = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => from + i)

describe("the log of events", () => {
  it.effect("begins now, with the oldest, or behind a place, in the ring or far before it", () =>
    Effect.gen(function*() {
      const { follow, table } = yield* scene(1_200)
      const now = yield* follow({ _tag: "Now" })
      const placeAt = now.follower.at()
      assert.strictEqual(placeAt.position, 1_200)
      const earliest = yield* follow({ _tag: "Earliest" })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(earliest.got, range(1, 1_200))
      const early = earliest.follower.at()
      yield* earliest.leave
      for (let position = 1_201; position <= 1_230; position++) table.push(happened(position))
      yield* TestClock.adjust("2 seconds")
      const behind = yield* follow({ _tag: "After", place: early })
      yield* TestClock.adjust("1 second")
      assert.deepStrictEqual(behind.got, range(1_201, 1_230))
      assert.deepStrictEqual(now.got, range(1_201, 1_230))
      assert.strictEqual(behind.seen.reset + now.seen.reset, 0)
    }))

  it.effect("shows what another node told at once by a hint of the bus, and within a second without it", () =>
    Effect.gen(function*() {
      for (const [withBus, atOnce] of [[true, [2]], [false, []]] as const) {
        const { follow, hint, table } = yield* scene(1, withBus)
        const { got } = yield* follow({ _tag: "Now" })
        // No notice comes from this database.
        yield* TestClock.adjust("100 millis")
        table.push(happened(2))
        yield* hint
        yield* TestClock.adjust("300 millis")
        assert.deepStrictEqual(got, [...atOnce])
        yield* TestClock.adjust("1 second")
        assert.deepStrictEqual(got, [2])
      }
    }))

  it.effect("says first that something is lost, once", () =>
    Effect.gen(function*() {
      const { follow, state, table } = yield* scene(100)
      const before = yield* follow({ _tag: "Earliest" })
      yield* TestClock.adjust("1 second")
      yield* before.leave
      for (let position = 101; position <= 200; position++) table.push(happened(position))
      yield* TestClock.adjust("2 seconds")
      state.prunedTo = 150
      const late = yield* follow({ _tag: "After", place: before.follower.at() })
      const foreign = yield* follow({ _tag: "After", place: { position: 180, mark: "other" } })
      yield* TestClock.adjust("1 second")
      for (const { got, seen } of [late, foreign]) {
        assert.strictEqual(seen.reset, 1)
        assert.deepStrictEqual(got, range(151, 200))
      }
    }))

  it.effect("tells of an absence of the database once it lasts, and of its return; followers go on", () =>
    Effect.gen(function*() {
      const { follow, state, table, told } = yield* scene(3)
      const { got, seen } = yield* follow({ _tag: "Now" })
      state.away = true
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(told, [])
      yield* TestClock.adjust("60 seconds")
      assert.deepStrictEqual(told.map(({ type }) => type), ["node.database.lost"])
      table.push(happened(4))
      state.away = false
      yield* TestClock.adjust("3 seconds")
      assert.deepStrictEqual(told.map(({ type }) => type), ["node.database.lost", "node.database.restored"])
      assert.deepStrictEqual(got, [4])
      assert.strictEqual(seen.cut, "")
    }))

  it.effect("is not asked to follow while the database is away, but where memory knows the place", () =>
    Effect.gen(function*() {
      const { follow, state } = yield* scene(30)
      state.away = true
      const known = yield* follow({ _tag: "Now" })
      const again = yield* follow({ _tag: "After", place: known.follower.at() })
      yield* Effect.all([known.leave, again.leave])
      const refused = yield* Effect.flip(follow({ _tag: "Earliest" }))
      assert.strictEqual(refused._tag, "DependencyUnavailable")
    }))

  it.effect("bounds the followers of a user and of the node, and forgets who left", () =>
    Effect.gen(function*() {
      const { follow } = yield* scene(1)
      const other = { ...admin, userId: UserId.make("0190163d-8694-7395-8ad4-5b8a3f3d0a09") }
      const first = yield* follow({ _tag: "Now" })
      yield* follow({ _tag: "Now" })
      assert.strictEqual((yield* Effect.flip(follow({ _tag: "Now" })))._tag, "TooManyRequests")
      yield* follow({ _tag: "Now" }, other)
      assert.strictEqual((yield* Effect.flip(follow({ _tag: "Now" }, other)))._tag, "TooManyRequests")
      yield* first.leave
      yield* follow({ _tag: "Now" })
    }))

  it.effect("cuts off who takes nothing, also while he catches up, and everybody at its own end", () =>
    Effect.gen(function*() {
      const { end, follow } = yield* scene(1_000)
      const slow = yield* follow({ _tag: "Earliest" })
      slow.seen.waiting = 1e9
      const fine = yield* follow({ _tag: "Now" })
      yield* TestClock.adjust("30 seconds")
      assert.strictEqual(slow.seen.cut, "slow")
      assert.isBelow(slow.got.length, 1_000)
      assert.strictEqual(fine.seen.cut, "")
      yield* end
      assert.strictEqual(fine.seen.cut, "stopping")
    }))
})
