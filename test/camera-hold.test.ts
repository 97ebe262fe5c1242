/** Who may move a camera: random walks over one camera's handlers, on a virtual clock, against a camera that ignores `Timeout`. */
import { makePtzHandlers } from "#actors/behaviour/camera-ptz.ts"
import type { Device } from "#media/device.ts"
import { CameraUnreachable, type DeviceError, OnvifOperationUnsupported } from "#schema/camera-device.ts"
import { PtzHeld, type PtzUser } from "#schema/camera-ptz.ts"
import { UserId } from "#schema/common.ts"
import { assert, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Scope } from "effect"
import { TestClock } from "effect/testing"
import { random } from "./media/random.ts"

const idleMs = 10_000
const person = (index: number, priority: number): PtzUser => ({
  userId: UserId.make(`01890000-0000-7000-8000-00000000000${index}`),
  username: `user${index}`,
  sessionId: `session${index}`,
  priority,
})
const people = [person(1, 0), person(2, 50), person(3, 50), person(4, 100)] as const

interface Asked {
  readonly payload: unknown
}

/** One camera with its handlers; `moving` is whose move it carries out. */
const camera = Effect.gen(function*() {
  const focusing = new Set<string>()
  const state = { moving: false, stops: 0, focusing, fails: null as "unsupported" | "away" | null }
  const ended = new Set<string>()
  const endings = new Map(people.map(({ sessionId }) => [sessionId, Deferred.makeUnsafe<void>()]))
  const told = (work: () => void) =>
    Effect.suspend((): Effect.Effect<void, DeviceError> => {
      if (state.fails === "unsupported") {
        return Effect.fail(new OnvifOperationUnsupported({ operation: "x", detail: "" }))
      }
      if (state.fails === "away") return Effect.fail(new CameraUnreachable({ reason: "busy", detail: "" }))
      return Effect.sync(work)
    })
  const ptz = {
    moveContinuous: () =>
      told(() => {
        state.moving = true
      }),
    gotoHome: () =>
      told(() => {
        state.moving = false
      }),
    stop: () =>
      told(() => {
        state.stops += 1
        state.moving = false
      }),
    setPreset: () => Effect.as(told(() => {}), "preset"),
    status: () => Effect.succeed({ pan: null, tilt: null, zoom: null, moving: state.moving, error: "" }),
  }
  const config = {
    moveFocus: (source: string) => told(() => focusing.add(source)),
    stopFocus: (source: string) => told(() => focusing.delete(source)),
  }
  const scope = yield* Scope.make()
  const handlers = yield* makePtzHandlers((_operation, work) => work({ ptz, config } as unknown as Device), {
    hasEnded: (id) => Effect.sync(() => ended.has(id)),
    untilEnded: (id) => Deferred.await(endings.get(id)!),
  }, { holdMs: idleMs, limit: "12 seconds" }).pipe(Effect.provideService(Scope.Scope, scope))
  const ask = (name: keyof typeof handlers, payload: object) =>
    (handlers[name] as unknown as (asked: Asked) => Effect.Effect<unknown, { readonly _tag: string }>)({
      payload: { profile: null, speed: {}, name: "a", token: null, ...payload },
    })
  return {
    state,
    close: Scope.close(scope, Exit.void),
    end: (by: PtzUser) =>
      Effect.suspend(() => {
        ended.add(by.sessionId)
        return Deferred.succeed(endings.get(by.sessionId)!, undefined)
      }),
    move: (by: PtzUser, timeoutMs: number) => ask("MoveContinuous", { by, timeoutMs }),
    focus: (by: PtzUser, source: string, timeoutMs?: number) =>
      ask("MoveFocus", {
        by,
        source,
        move: { mode: "continuous", speed: 1, ...(timeoutMs === undefined ? {} : { timeoutMs }) },
      }),
    stopFocus: (by: PtzUser, source: string) => ask("StopFocus", { by, source }),
    tell: (name: "StopMoving" | "GotoHome" | "SetPreset", by: PtzUser) => ask(name, { by }),
    holder: Effect.map(
      ask("Status", {}),
      (status) => (status as { readonly holder: { readonly username: string } | null }).holder?.username ?? null,
    ),
  }
})

const outcome = <A>(asked: Effect.Effect<A, { readonly _tag: string }>) =>
  asked.pipe(Effect.as("done"), Effect.catch((error) => Effect.succeed(error._tag)))

/** What the rule says, told in the simplest way. */
class Rule {
  readonly holds = { by: null as PtzUser | null, untilMs: 0 }
  moveUntilMs: number | null = null

  at(nowMs: number): PtzUser | null {
    return this.holds.by !== null && this.holds.untilMs > nowMs ? this.holds.by : null
  }
  allows(by: PtzUser, nowMs: number): boolean {
    const held = this.at(nowMs)
    return held === null || held === by || held.priority < by.priority
  }
  take(by: PtzUser, nowMs: number, busyMs: number | null): void {
    const untilMs = nowMs + (busyMs ?? 0) + idleMs
    this.holds.untilMs = this.at(nowMs) === by && busyMs === null ? Math.max(this.holds.untilMs, untilMs) : untilMs
    this.holds.by = by
  }
}

for (const seed of [1, 2, 3, 4, 5, 6, 7, 8]) {
  it.effect(`a camera is its holder's, and stands still when nobody moves it (walk ${seed})`, () =>
    Effect.gen(function*() {
      const next = random(seed)
      const one = yield* camera
      const rule = new Rule()
      let nowMs = 0
      for (let step = 0; step < 300; step += 1) {
        const by = people[next(people.length)]!
        const kind = next(8)
        const allowed = rule.allows(by, nowMs)
        if (kind < 3) {
          const waitMs = next(6_000)
          nowMs += waitMs
          yield* TestClock.adjust(waitMs)
          if (rule.moveUntilMs !== null && rule.moveUntilMs <= nowMs) rule.moveUntilMs = null
        } else if (kind < 6) {
          const timeoutMs = 100 + next(5_000)
          assert.strictEqual(yield* outcome(one.move(by, timeoutMs)), allowed ? "done" : "PtzHeld", `step ${step}`)
          if (allowed) {
            rule.take(by, nowMs, timeoutMs)
            rule.moveUntilMs = nowMs + timeoutMs
          }
        } else {
          const name = kind === 6 ? (["StopMoving", "GotoHome"] as const)[next(2)]! : "SetPreset"
          assert.strictEqual(yield* outcome(one.tell(name, by)), allowed ? "done" : "PtzHeld", `step ${step}`)
          if (allowed) rule.take(by, nowMs, kind === 6 ? 0 : null)
          if (allowed && kind === 6) rule.moveUntilMs = null
        }
        assert.strictEqual(yield* one.holder, rule.at(nowMs)?.username ?? null, `holder at step ${step}`)
        assert.strictEqual(one.state.moving, rule.moveUntilMs !== null, `moving at step ${step}`)
      }
    }))
}

it.effect("whoever is refused hears by whom and until when", () =>
  Effect.gen(function*() {
    const one = yield* camera
    yield* one.move(people[2], 1_000)
    const refusal: unknown = yield* Effect.flip(one.move(people[1], 1_000))
    assert.deepStrictEqual(refusal, new PtzHeld({ username: "user3", priority: 50, until: 1_000 + idleMs }))
  }))

it.effect("the end of a session stops its move and frees the camera", () =>
  Effect.gen(function*() {
    const one = yield* camera
    yield* one.move(people[3], 10_000)
    yield* one.end(people[3])
    yield* TestClock.adjust(1)
    assert.isFalse(one.state.moving)
    assert.isNull(yield* one.holder)
    assert.strictEqual(yield* outcome(one.move(people[0], 100)), "done")
  }))

it.effect("focus belongs to whoever moves the camera, and is stopped beside its moves", () =>
  Effect.gen(function*() {
    const one = yield* camera
    const focusing = () => [...one.state.focusing]
    yield* one.move(people[2], 9_000)
    assert.strictEqual(yield* outcome(one.focus(people[1], "a")), "PtzHeld")
    assert.strictEqual(yield* outcome(one.stopFocus(people[1], "a")), "PtzHeld")
    assert.strictEqual(yield* outcome(one.focus(people[2], "a")), "done")
    yield* TestClock.adjust(1_999)
    assert.deepStrictEqual(focusing(), ["a"])
    yield* TestClock.adjust(1)
    assert.deepStrictEqual([focusing(), one.state.moving], [[], true], "the camera goes on")
    assert.strictEqual(yield* outcome(one.focus(people[3], "a", 10_000)), "done", "a higher priority takes it")
    assert.strictEqual(yield* one.holder, "user4")
    assert.strictEqual(yield* outcome(one.focus(people[3], "b", 10_000)), "done")
    assert.deepStrictEqual(focusing(), ["b"], "one source at a time")
    yield* one.end(people[3])
    yield* TestClock.adjust(1)
    assert.deepStrictEqual([focusing(), yield* one.holder], [[], null])
    yield* one.focus(people[0], "a", 10_000)
    yield* one.stopFocus(people[0], "a")
    assert.deepStrictEqual(focusing(), [])
    yield* one.focus(people[0], "a", 10_000)
    yield* one.close
    assert.deepStrictEqual(focusing(), [], "the entity left the node")
  }))

it.effect("a stop that does not arrive is sent again", () =>
  Effect.gen(function*() {
    const one = yield* camera
    yield* one.move(people[1], 1_000)
    one.state.fails = "away"
    yield* TestClock.adjust(5_000)
    assert.isTrue(one.state.moving)
    one.state.fails = null
    yield* TestClock.adjust(1_000)
    assert.isFalse(one.state.moving)
    assert.strictEqual(one.state.stops, 1)
  }))

it.effect("a command that came to nothing takes the camera from nobody", () =>
  Effect.gen(function*() {
    const one = yield* camera
    yield* one.move(people[1], 1_000)
    one.state.fails = "unsupported"
    assert.strictEqual(yield* outcome(one.move(people[3], 5_000)), "OnvifOperationUnsupported")
    assert.strictEqual(yield* one.holder, "user2")
    one.state.fails = null
    yield* TestClock.adjust(1_000)
    assert.isFalse(one.state.moving)
  }))

it.effect("a camera that moves is stopped when its entity leaves the node", () =>
  Effect.gen(function*() {
    const one = yield* camera
    yield* one.move(people[1], 10_000)
    yield* one.close
    assert.isFalse(one.state.moving)
  }))
