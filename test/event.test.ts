/** Events: what is told, what is handed out, and to whom; by hand and at random against a naive follower. */
import { Fanout, type FanoutOptions, maySee, placeOf } from "#actors/behaviour/event-fanout.ts"
import { sightOf } from "#actors/behaviour/event-notification.ts"
import { StateTeller } from "#actors/behaviour/event-told.ts"
import { bring, EventSpool, layer as eventsLayer } from "#actors/behaviour/event.ts"
import type { EventBatch, EventFilter, EventSink } from "#actors/protocol/event.ts"
import { Events } from "#actors/protocol/event.ts"
import type { NewEvent } from "#actors/store/event.ts"
import { NodeIdentity } from "#cluster/identity.ts"
import { cursorOf, placeOfCursor, textFrame } from "#http/handlers/notification-frames.ts"
import { NodeId, UserId } from "#schema/common.ts"
import {
  EventEnvelope,
  eventIdPattern,
  type EventType,
  eventTypeNames,
  eventTypes,
  type StoredEvent,
} from "#schema/event.ts"
import { permissionNames, type ResourceKey, type ResourceRef, type UserPrincipal } from "#schema/permission.ts"
import { DependencyUnavailable } from "#schema/problem.ts"
import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Logger, Schema } from "effect"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const nodeId = NodeId.make("0190163d-8694-7395-8ad4-5b8a3f3d0b01")
const user = (n: number) => UserId.make(`0190163d-8694-7395-8ad4-5b8a3f3d0a${n.toString(16).padStart(2, "0")}`)
const everything: EventFilter = { types: null, minimumSeverity: "info" }
const options: FanoutOptions = { ringEvents: 50, ringBytes: 1 << 20, waitingBytes: 4_000, stuckMs: 1_000 }

const who = (n: number, resources: "all" | ReadonlyArray<ResourceKey> = "all"): UserPrincipal => ({
  kind: "user",
  userId: user(n),
  username: `user-${n}`,
  sessionId: "0190163d-8694-7395-8ad4-5b8a3f3d0a02",
  grants: [{
    role: "r",
    permissions: ["camera:read", "system:read"],
    resources: resources === "all" ? resources : new Set(resources),
  }],
})

const happened = (
  position: number,
  more: Partial<Pick<StoredEvent, "resource" | "audience">> & { readonly type?: EventType } = {},
): StoredEvent => {
  const type = more.type ?? "node.started"
  return {
    position,
    event: {
      id: `event-${position}`,
      source: `/nodes/${nodeId}/node`,
      type,
      time: position,
      subject: "x",
      data: { name: "n" },
      nodeId,
      severity: eventTypes[type].severity,
    },
    resource: more.resource ?? [],
    audience: more.audience ?? null,
  }
}
const run = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, i) => happened(from + i))

/** Takes everything; `full` stands for a client that does not read. */
const recorder = () => {
  const got: Array<number> = []
  const batches: Array<EventBatch> = []
  const state = { full: false, cut: null as string | null, resets: 0 }
  const sink: EventSink = {
    begin: () => {},
    deliver: (batch) => {
      batches.push(batch)
      got.push(...batch.events.map(({ stored }) => stored.position))
    },
    waitingBytes: () => state.full ? 1e9 : 0,
    reset: () => state.resets += 1,
    cut: (reason) => state.cut = reason,
  }
  return { got, batches, state, sink }
}

const start = { position: 0, mark: "" }
const fresh = () => new Fanout(options, start, [])
const joined = (fanout: Fanout, principal: UserPrincipal, filter = everything) => {
  const client = recorder()
  const follower = fanout.add({ sink: client.sink, filter, principal, place: fanout.newest })
  assert.isTrue(fanout.join(follower, 0))
  return { ...client, follower }
}

describe("the fan-out", () => {
  it("hands the same batch to all who see the same, once and in order", () => {
    const fanout = fresh()
    const grants = who(1)
    const clients = [joined(fanout, grants), joined(fanout, { ...grants, userId: user(2) })]
    fanout.push(run(1, 3), 0)
    fanout.push(run(2, 5), 0)
    for (const { got } of clients) assert.deepStrictEqual(got, [1, 2, 3, 4, 5])
    assert.strictEqual(clients[0]!.batches[0], clients[1]!.batches[0])
    assert.strictEqual(fanout.size, 2)
  })

  it("shows only what is asked for and may be seen", () => {
    const fanout = fresh()
    const camera = (id: string): ReadonlyArray<ResourceRef> => [{ kind: "camera", id }]
    const all = joined(fanout, who(1))
    const one = joined(fanout, who(2, ["camera:a"]))
    const severe = joined(fanout, who(3), { types: null, minimumSeverity: "critical" })
    const typed = joined(fanout, who(4), { types: new Set(["camera.online"]), minimumSeverity: "info" })
    const addressed = joined(fanout, who(5))
    fanout.push([
      happened(1, { type: "camera.online", resource: camera("a") }),
      happened(2, { type: "camera.offline", resource: camera("b") }),
      happened(3, { audience: [user(5)] }),
      happened(4, { type: "user.signin.failed" }),
      happened(5, { type: "recording.gap.opened" }),
    ], 0)
    assert.deepStrictEqual(all.got, [1, 2])
    assert.deepStrictEqual(one.got, [1])
    assert.deepStrictEqual(severe.got, [2])
    assert.deepStrictEqual(typed.got, [1])
    assert.deepStrictEqual(addressed.got, [1, 2, 3])
    // What was not shown was passed all the same.
    assert.strictEqual(one.follower.place.position, 5)
  })

  it("shows by new permissions from the next event on", () => {
    const fanout = fresh()
    const { follower, got } = joined(fanout, who(1, []))
    const event = (position: number) =>
      happened(position, { type: "camera.online", resource: [{ kind: "camera", id: "a" }] })
    fanout.push([event(1)], 0)
    fanout.become(follower, who(1, ["camera:a"]))
    fanout.push([event(2)], 0)
    fanout.become(follower, who(1, ["camera:b"]))
    fanout.push([event(3)], 0)
    assert.deepStrictEqual(got, [2])
  })

  it("keeps nothing for who does not read, serves him from the ring, and cuts him off when that has gone on", () => {
    const fanout = fresh()
    const slow = joined(fanout, who(1))
    const gone = joined(fanout, who(2))
    slow.state.full = true
    gone.state.full = true
    fanout.push(run(1, 10), 0)
    fanout.sweep(900)
    assert.deepStrictEqual(slow.got, [])
    slow.state.full = false
    fanout.sweep(950)
    assert.deepStrictEqual(slow.got, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    fanout.sweep(1_000)
    assert.strictEqual(gone.state.cut, "slow")
    assert.strictEqual(slow.state.cut, null)
    assert.strictEqual(fanout.size, 1)
  })

  it("cuts off who falls out of the ring", () => {
    const fanout = fresh()
    const slow = joined(fanout, who(1))
    slow.state.full = true
    fanout.push(run(1, 1), 0)
    fanout.push(run(2, 200), 1)
    slow.state.full = false
    fanout.sweep(2)
    assert.strictEqual(slow.state.cut, "slow")
    assert.deepStrictEqual(slow.got, [])
  })

  it("lets nobody begin where the ring does not reach, and knows its own places from another database's", () => {
    const fanout = new Fanout(options, start, run(10, 20))
    const client = recorder()
    const at = (position: number) =>
      fanout.add({
        sink: client.sink,
        filter: everything,
        principal: who(1),
        place: placeOf(`event-${position}`, position),
      })
    assert.isFalse(fanout.join(at(9), 0))
    assert.isTrue(fanout.join(at(10), 0))
    assert.deepStrictEqual(client.got, [11, 12, 13, 14, 15, 16, 17, 18, 19, 20])
    assert.isTrue(fanout.holds(placeOf("event-15", 15)))
    assert.isTrue(fanout.holds(placeOf("event-20", 20)))
    assert.isFalse(fanout.holds(placeOf("other-15", 15)))
    assert.isFalse(fanout.holds(placeOf("event-10", 10)))
    assert.isFalse(fanout.holds(placeOf("event-21", 21)))
  })

  it("goes on from pages of the database to the ring without a hole or a repetition", () => {
    const log = run(1, 300)
    const fanout = new Fanout(options, start, log.slice(200))
    const client = recorder()
    const follower = fanout.add({ sink: client.sink, filter: everything, principal: who(1), place: start })
    let pages = 0
    while (!fanout.join(follower, 0)) {
      const { position } = follower.place
      fanout.offer(follower, log.slice(position, position + 70))
      pages += 1
    }
    fanout.push(run(301, 310), 0)
    assert.deepStrictEqual(client.got, Array.from({ length: 310 }, (_, i) => i + 1))
    assert.isAbove(pages, 2)
  })

  it("gives every follower exactly what a naive one would have, whatever happens", () => {
    let seed = 7
    const random = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    const fanout = fresh()
    const log: Array<StoredEvent> = []
    const clients: Array<ReturnType<typeof joined> & { readonly from: number; principal: UserPrincipal }> = []
    for (let step = 0; step < 3_000; step++) {
      const nowMs = step * 10
      switch (random(6)) {
        case 0:
          if (clients.length < 40) {
            const principal = who(random(4), random(2) === 0 ? "all" : [`camera:${random(3)}`])
            clients.push({ ...joined(fanout, principal), from: log.length, principal })
          }
          break
        case 1:
          if (clients.length > 0) clients[random(clients.length)]!.state.full = random(3) === 0
          break
        case 2:
          fanout.sweep(nowMs)
          break
        default: {
          const told = Array.from({ length: 1 + random(4) }, (_, i) =>
            happened(log.length + 1 + i, {
              type: "camera.online",
              resource: [{ kind: "camera", id: String(random(3)) }],
              audience: random(10) === 0 ? [user(random(4))] : null,
            }))
          log.push(...told)
          fanout.push(told, nowMs)
        }
      }
    }
    for (const { state } of clients) state.full = false
    fanout.sweep(1e9)
    for (const { from, got, principal, state } of clients) {
      const expected = log.slice(from).filter((one) => maySee(principal, one)).map(({ position }) => position)
      // Who was cut off as slow has a beginning of it.
      assert.deepStrictEqual(got, state.cut === null ? expected : expected.slice(0, got.length))
    }
    assert.isAbove(clients.filter(({ state }) => state.cut === null).length, 0)
    assert.isAbove(clients.filter(({ state }) => state.cut !== null).length, 0)
  })
})

describe("the telling of states", () => {
  const told = (teller: StateTeller<string>, nowMs: number) =>
    teller.due(nowMs).map(({ changes, state }) => `${state} ${changes}`)

  it("tells a state once it has held", () => {
    const teller = new StateTeller<string>("restless")
    teller.see("a", "on", "", 0)
    assert.deepStrictEqual(told(teller, 4_999), [])
    assert.deepStrictEqual(told(teller, 5_000), ["on 1"])
    teller.see("a", "off", "gone", 6_000)
    teller.see("a", "on", "", 7_000)
    assert.deepStrictEqual(told(teller, 60_000), [])
    teller.see("a", "off", "gone", 61_000)
    // One telling within ten minutes doubles the wait.
    assert.deepStrictEqual(told(teller, 70_999), [])
    assert.deepStrictEqual(told(teller, 71_000), ["off 1"])
  })

  it("does not tell again what was told before the process began", () => {
    const teller = new StateTeller<string>(null, new Map([["a", "off"], ["b", "on"]]))
    teller.see("a", "on", "", 0)
    teller.see("b", "on", "", 0)
    assert.deepStrictEqual(teller.due(5_000).map(({ id }) => id), ["a"])
    assert.deepStrictEqual([...teller.told()], [["a", "on"], ["b", "on"]])
  })

  it("tells what never holds as restless, and no flood of it", () => {
    const teller = new StateTeller<string>("restless")
    const all: Array<string> = []
    for (let ms = 0; ms < 3_600_000; ms += 1_000) {
      teller.see("a", ms % 4_000 < 2_000 ? "on" : "off", "", ms)
      all.push(...told(teller, ms))
    }
    assert.strictEqual(all.length, 1)
    assert.match(all[0]!, /^restless \d+$/)
    const often = new StateTeller<string>("restless")
    let tellings = 0
    for (let ms = 0; ms < 3_600_000; ms += 1_000) {
      often.see("a", ms % 60_000 < 30_000 ? "on" : "off", "", ms)
      tellings += told(often, ms).length
    }
    assert.isBelow(tellings, 40)
    assert.isAbove(tellings, 1)
  })
})

describe("the queue of events", () => {
  const folder = Effect.acquireRelease(
    Effect.sync(() => mkdtempSync(join(tmpdir(), "nightjar-events-"))),
    (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true })),
  )
  const identity = Layer.succeed(NodeIdentity, { nodeId } as NodeIdentity["Service"])

  it.live("keeps what is told while the database is away, with its own time, and survives what cannot be taken", () =>
    Effect.gen(function*() {
      const path = yield* folder
      const kept: Array<NewEvent> = []
      let away = true
      const keep = (some: ReadonlyArray<NewEvent>) => {
        if (away) return Effect.fail(new DependencyUnavailable({ dependency: "database", message: "away" }))
        if (some.some(({ event }) => event.subject === "poison")) return Effect.die(new Error("not taken"))
        kept.push(...some)
        return Effect.succeed(some.length)
      }
      yield* Effect.scoped(Effect.gen(function*() {
        const [events, spool] = yield* Effect.all([Events, EventSpool])
        const bringing = yield* Effect.forkChild(bring(spool, keep))
        const tell = (subject: string) =>
          events.publish({
            type: "node.started",
            subject,
            timeMs: 42,
            resource: [{ kind: "camera", id: "c" }],
            data: { name: "\u0000" },
          })
        yield* Effect.forEach(["a", "poison", "b"], tell, { discard: true })
        assert.deepStrictEqual(kept, [])
        away = false
        yield* Effect.repeat(Effect.sleep("20 millis"), { until: () => kept.length === 2 })
        yield* Fiber.interrupt(bringing)
      })).pipe(Effect.provide(eventsLayer(join(path, "events"))))
      assert.deepStrictEqual(kept.map(({ event }) => event.subject), ["a", "b"])
      assert.deepStrictEqual(kept.map(({ event }) => event.time), [42, 42])
      assert.deepStrictEqual(kept[0]!.resource, ["camera:c"])
      assert.strictEqual(kept[0]!.event.data["name"], "\ufffd")
      assert.match(kept[0]!.event.id, eventIdPattern)
    }).pipe(Effect.provide([identity, NodeFileSystem.layer, Logger.layer([])])))
})

describe("the registry", () => {
  it("names types as the envelope wants them, and permissions that exist", () => {
    for (const name of eventTypeNames) {
      assert.isTrue(Schema.is(EventEnvelope.fields.type)(name), name)
      assert.include(permissionNames, eventTypes[name].permission)
    }
  })

  it("is seen in lists as on the live channel", () => {
    const narrow = who(1, ["camera:a"])
    for (const event of eventTypeNames.map((type) => happened(1, { type, resource: [{ kind: "camera", id: "b" }] }))) {
      const type = event.event.type as EventType
      if (!eventTypes[type].notify) continue
      const reach = sightOf(narrow).reaches.find(({ types }) => types.includes(type))
      const listed = reach !== undefined && (reach.keys === null || reach.keys.includes("camera:b"))
      assert.strictEqual(listed, maySee(narrow, event), type)
    }
  })
})

describe("the wire", () => {
  it("reads back its own cursors and no others", () => {
    for (const place of [start, placeOf("x", 1), placeOf("event", 2 ** 40)]) {
      assert.deepStrictEqual(placeOfCursor(cursorOf(place)), place)
    }
    for (const text of ["", "x", "-", "1-2-3", "1-!", "zzzzzzzzzzzzzzz-1", "1-aaaaaaaaaaaa"]) {
      assert.isNull(placeOfCursor(text), text)
    }
  })

  it("frames texts of every length (RFC 6455, section 5.2)", () => {
    assert.deepStrictEqual([...textFrame("ab")], [0x81, 2, 0x61, 0x62])
    assert.deepStrictEqual([...textFrame("x".repeat(126)).subarray(0, 4)], [0x81, 126, 0, 126])
    assert.deepStrictEqual([...textFrame("x".repeat(65_536)).subarray(0, 10)], [0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0])
    assert.strictEqual(textFrame("é").length, 4)
  })
})
